"""``tidemark cluster``: the shipped cluster, used by hand on this machine."""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.exits import UsageError

if TYPE_CHECKING:
    from harness.cluster.local import ClusterStatus, LocalCluster

DEFAULT_FOLDER = "cluster"
ENVIRONMENT = "TIDEMARK_CLUSTER"


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "cluster",
        help="the shipped cluster on this machine: up, status, kill, stop, start, pause, resume, down",
        description="Run the shipped broker cluster by hand. It stays up until 'tidemark cluster down'.",
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    up = _verb(verbs, "up", "start ZooKeeper and the brokers, and wait until they serve", _up)
    up.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (default: 3)")
    up.add_argument("--zookeeper", default="", metavar="HOSTS", help="an existing ensemble, HOST:PORT,…[/chroot]")
    up.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name, such as min.insync.replicas=2 (again for more)",
    )
    up.add_argument(
        "--unsafe-bugs", action="store_true", help="allow --set bugs=…: the cluster then breaks its promises"
    )
    status = _verb(verbs, "status", "who runs, who is controller, where to connect", _status)
    status.add_argument("--json", action="store_true", help="as one JSON document")
    for name, text in (
        ("kill", "kill -9 a broker"),
        ("stop", "stop a broker by a controlled shutdown"),
        ("start", "start a broker that is down"),
        ("pause", "SIGSTOP a broker"),
        ("resume", "SIGCONT a broker"),
    ):
        one = _verb(verbs, name, text, _one(name))
        one.add_argument("id", type=int, metavar="ID", help="the broker's id")
    down = _verb(verbs, "down", "stop all of it", _down)
    down.add_argument("--remove", action="store_true", help="remove the folder with all data, too")


def _verb(verbs: Any, name: str, text: str, execute: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument(
        "--dir", metavar="DIR", help=f"the cluster's folder; default: ${ENVIRONMENT}, else ./{DEFAULT_FOLDER}"
    )
    parser.set_defaults(execute=execute)
    return parser


def folder_of(options: argparse.Namespace) -> Path:
    return Path(options.dir or os.environ.get(ENVIRONMENT) or DEFAULT_FOLDER).absolute()


def _up(options: argparse.Namespace) -> int:
    from harness.cluster.local import create, locked
    from harness.plan import TargetPlan
    from system_under_test.config import BrokerConfig, ConfigError

    settings = {}
    for each in options.settings:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--set {each}: expected NAME=VALUE")
        settings[name] = value
    try:
        BrokerConfig(settings)
    except ConfigError as error:
        raise UsageError(f"--set: {error}") from None
    if settings.get("bugs") and not options.unsafe_bugs:
        raise UsageError("--set bugs=… makes the cluster break its promises; say --unsafe-bugs if that is meant")
    if options.brokers < 1:
        raise UsageError(f"--brokers {options.brokers}: at least one is needed")
    folder = folder_of(options)
    plan = TargetPlan(kind="shipped", brokers=options.brokers, zookeeper=options.zookeeper, settings=settings)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        cluster = create(folder, plan)
        began = time.monotonic()
        try:
            cluster.up()
        except BaseException:
            cluster.down(remove=False)  # half a cluster is of no use to anybody
            raise
        print(f"{options.brokers} brokers are up in {folder} ({time.monotonic() - began:.1f} s)")
        _print(cluster.status())
    print(f"stop it with: tidemark cluster down --dir {folder}")
    return 0


def _status(options: argparse.Namespace) -> int:
    from harness.cluster.local import open_cluster

    status = open_cluster(folder_of(options)).status()
    if options.json:
        print(json.dumps(status.document(), indent=1))
    else:
        _print(status)
    return 0


def _print(status: ClusterStatus) -> None:
    print(f"bootstrap   {status.bootstrap}")
    print(f"zookeeper   {status.zookeeper}")
    print(f"controller  {'none' if status.controller is None else status.controller}")
    for broker in status.brokers:
        pid = "" if broker.pid is None else f"process {broker.pid}"
        print(f"broker {broker.id}    {broker.state:<9} {broker.address:<22} {pid}".rstrip())


def _one(verb: str) -> Any:
    def execute(options: argparse.Namespace) -> int:
        from harness.cluster.local import locked, open_cluster

        folder = folder_of(options)
        cluster = open_cluster(folder)
        with locked(folder):
            print(_act(cluster, verb, options.id))
        return 0

    return execute


def _act(cluster: LocalCluster, verb: str, broker: int) -> str:
    node = cluster.node(broker)
    fleet = cluster.fleet
    pid = fleet.pid(node)
    if verb == "start":
        cluster.start_broker(broker)
        return f"broker {broker} runs as process {fleet.pid(node)}"
    if pid is None:
        raise UsageError(f"broker {broker} is down; start it with: tidemark cluster start {broker}")
    if verb == "stop":
        fleet.stop(node, grace_s=30.0)
        return f"broker {broker} is stopped"
    if verb == "kill":
        fleet.signal(node, signal.SIGKILL)
        fleet.stop(node)
        return f"broker {broker} is killed"
    fleet.signal(node, signal.SIGSTOP if verb == "pause" else signal.SIGCONT)
    return f"broker {broker} is {'paused' if verb == 'pause' else 'resumed'}"


def _down(options: argparse.Namespace) -> int:
    from harness.cluster.local import locked, open_cluster

    folder = folder_of(options)
    cluster = open_cluster(folder)
    with locked(folder):
        count = cluster.down(remove=options.remove)
    print(f"{count} processes stopped" + (f"; {folder} is removed" if options.remove else f"; data stays in {folder}"))
    return 0
