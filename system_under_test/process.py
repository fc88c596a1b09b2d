"""The process of one broker: its settings, its signals, its end.

Ends with 0 after a clean stop, 64 for a wrong configuration, 1 when the broker cannot start or go on.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from system_under_test import logs
from system_under_test.broker import Broker
from system_under_test.config import BrokerConfig, ConfigError, parse_properties
from system_under_test.failpoints import Failpoints
from system_under_test.realworld.world import RealWorld
from system_under_test.server.control import ControlSocket
from system_under_test.storage.log_manager import LogDirError
from system_under_test.world import AddressInUse, CoordinationError
from system_under_test.zookeeper.registration import BrokerIdTaken

if TYPE_CHECKING:
    from system_under_test.metrics import MetricsServer

log = logging.getLogger("system_under_test")
USAGE = 64


def _crash() -> None:
    """As kill -9: nothing is flushed, nobody is told."""
    os.kill(os.getpid(), signal.SIGKILL)


async def run(config: BrokerConfig) -> int:
    world = RealWorld(config.zookeeper_connect, seed=int.from_bytes(os.urandom(8), "big"))
    failpoints = Failpoints(_crash)
    broker = Broker(world, config, failpoints=failpoints)
    logs.configure(sys.stderr, config.broker_id, lambda: broker.broker_epoch)
    folder = Path(config.log_dirs[0])
    folder.mkdir(parents=True, exist_ok=True)
    control = ControlSocket(folder.parent / "control.sock", failpoints)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await broker.start()
    except (AddressInUse, BrokerIdTaken, CoordinationError, LogDirError) as error:
        print(f"cannot start: {_remedy(config, error)}", file=sys.stderr)
        await broker.shutdown(hand_over=False)
        return 1
    await control.start()
    metrics = await _metrics(broker)
    # What is there now (modules, schemas, settings) stays: the collector need not look at it during requests.
    gc.collect()
    gc.freeze()
    print(f"READY broker {broker.broker_id} at {', '.join(config.listeners)}", flush=True)
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(broker.wait())
    await asyncio.wait([stopped, failed], return_when=asyncio.FIRST_COMPLETED)
    if failed.done() and failed.exception() is not None:
        log.critical("a part of this broker failed; it ends here", exc_info=failed.exception())
        return 1
    control.close()
    if metrics is not None:
        metrics.close()
    await broker.shutdown()
    return 0


async def _metrics(broker: Broker) -> MetricsServer | None:
    if broker.config.metrics_port < 0:
        return None
    from system_under_test.metrics import MetricsServer  # a web server comes with it: only where it is wanted

    metrics = MetricsServer(broker)
    await metrics.start()
    return metrics


def _remedy(config: BrokerConfig, error: Exception) -> str:
    if isinstance(error, AddressInUse):
        return (
            f"{error}; something listens at one of {', '.join(config.listeners)} already: stop it or change listeners"
        )
    if isinstance(error, CoordinationError):
        return (
            f"ZooKeeper at {config.zookeeper_connect} does not answer ({error}); start it or change zookeeper.connect"
        )
    return str(error)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m system_under_test", description="One broker.")
    parser.add_argument("properties", type=Path, help="a file in the style of server.properties")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--unsafe-bugs", action="store_true", help="allow the setting 'bugs'")
    options = parser.parse_args(arguments)
    try:
        given = parse_properties(options.properties.read_text(), str(options.properties))
        for each in options.settings:
            given |= parse_properties(each, "--set")
        config = BrokerConfig(given)
        if config.bug_switches and not options.unsafe_bugs:
            raise ConfigError(
                "bugs: these switches make a broker break its promises; say --unsafe-bugs if that is meant"
            )
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return USAGE
    try:
        import uvloop
    except ImportError:
        return asyncio.run(run(config))
    return uvloop.run(run(config))
