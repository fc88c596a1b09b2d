"""Metrics for Prometheus, read from a broker when somebody asks: nothing is counted twice, idle costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

if TYPE_CHECKING:
    from system_under_test.broker import Broker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_REQUEST = 8192


class BrokerCollector:
    """What Kafka's own dashboards look at first."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        context = self._broker.context
        replicas = context.replicas
        for name, text, value in (
            ("active_controller", "1 on the broker that is controller", int(context.controller.is_active)),
            ("controller_epoch", "Newest controller epoch this broker has heard of", replicas.controller_epoch),
            ("broker_epoch", "Epoch of this broker's registration", context.broker_epoch),
            ("partitions", "Replicas on this broker", len(replicas.partitions)),
            ("leaders", "Partitions led from here", len(replicas.leaders())),
            ("under_replicated_partitions", "Led from here, with an ISR smaller than all", replicas.under_replicated()),
            ("log_bytes", "Bytes in all logs", sum(each.size_bytes for each in context.logs.all_logs())),
        ):
            yield GaugeMetricFamily(f"tidemark_{name}", text, value=float(value))
        purgatories = GaugeMetricFamily("tidemark_purgatory_size", "Operations that wait", labels=["purgatory"])
        for each in (replicas.produces, replicas.consumer_fetches, replicas.follower_fetches, replicas.deletions):
            purgatories.add_metric([each.name.replace(" ", "_")], float(len(each)))
        yield purgatories


class MetricsServer:
    """``GET /metrics`` on the first listener's host, at ``metrics.port``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._registry = CollectorRegistry()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        port: int = self._broker.config.metrics_port
        self._registry.register(BrokerCollector(self._broker))
        host = self._broker.config.listener_addresses[0].host
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LONGEST_REQUEST)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            found = request.startswith((b"GET /metrics ", b"GET /metrics?"))
            body = generate_latest(self._registry) if found else b"GET /metrics\n"
            status = "200 OK" if found else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
