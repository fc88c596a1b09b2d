"""The cluster that Tidemark ships: brokers in Python that speak Kafka's protocol (:mod:`system_under_test`)."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from harness.fleet.base import Command
from harness.targets.base import broker_id
from harness.targets.managed import ManagedTarget


class ShippedTarget(ManagedTarget):
    name = "shipped"
    first_id = 0

    def _command(self, node: str, logs: Path, data: Path) -> Command:
        plan = self._plan
        replicas = min(3, plan.brokers)
        # As for Apache Kafka (see kafka_settings): a request to a paused broker must not hang much longer than
        # the session that decides about the controller.
        patience_ms = plan.session_timeout_ms + 1000
        values: dict[str, object] = {
            "broker.id": broker_id(node),
            "listeners": f"PLAINTEXT://{self._fleet.address(node)}:{self._ports[node]}",
            "log.dirs": data / "log",
            "zookeeper.connect": self._zookeeper.connect,
            "zookeeper.session.timeout.ms": plan.session_timeout_ms,
            "zookeeper.connection.timeout.ms": 30_000,
            "replica.lag.time.max.ms": plan.replica_lag_time_max_ms,
            "replica.fetch.wait.max.ms": min(500, plan.replica_lag_time_max_ms // 2),
            "replica.fetch.backoff.ms": 200,
            "replica.socket.timeout.ms": patience_ms,
            "controller.socket.timeout.ms": patience_ms,
            "controlled.shutdown.retry.backoff.ms": 500,
            "auto.create.topics.enable": "false",
            "default.replication.factor": replicas,
            "leader.imbalance.check.interval.seconds": 10,
            **plan.settings,
        }
        settings = data / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        argv: tuple[str, ...] = (sys.executable, "-m", "system_under_test", str(settings))
        if "bugs" in plan.settings:
            argv += ("--unsafe-bugs",)
        return Command(argv, cwd=data, log=logs / "broker.log")

    def versions(self) -> dict[str, str]:
        try:
            version = metadata.version("tidemark")
        except metadata.PackageNotFoundError:
            version = "(source tree)"
        return {"target": f"shipped {version}", "python": sys.version.split()[0], **self._common_versions()}
