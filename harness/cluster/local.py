"""A shipped cluster on this machine that outlives the commands that manage it.

Its folder holds everything: ``cluster.json`` (how it was made), ``nodes.json`` (what runs), the brokers' settings, data
and logs. Each command takes the folder's lock, so that two commands never start the same broker twice.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.exits import UsageError
from harness.fleet.detached import DetachedFleet
from harness.plan import TargetPlan
from harness.targets.base import TargetError, node_name
from harness.targets.shipped import ShippedTarget

_STATES = {"T": "paused", None: "down"}


@dataclass(frozen=True)
class BrokerStatus:
    id: int
    pid: int | None
    state: str
    """``up``, ``paused``, ``down``, or ``starting``: it runs and is not registered."""
    address: str


@dataclass(frozen=True)
class ClusterStatus:
    bootstrap: str
    zookeeper: str
    controller: int | None
    brokers: tuple[BrokerStatus, ...]

    def document(self) -> dict[str, Any]:
        return asdict(self)


class LocalCluster:
    def __init__(self, folder: Path, plan: TargetPlan) -> None:
        # A chaos run wants leaders to go home soon; whoever uses a cluster by hand expects Kafka's own patience.
        plan = replace(plan, settings={"leader.imbalance.check.interval.seconds": "300", **plan.settings})
        self.folder = folder
        self.fleet = DetachedFleet(folder)
        self.target = ShippedTarget(plan, logs=folder / "logs", data=folder / "data", fleet=self.fleet)

    def up(self) -> None:
        """Start what is not running, and wait until it serves."""
        try:
            self.target.start()
        finally:
            self.target.detach()
            self.fleet.close()

    def down(self, *, remove: bool) -> int:
        """Stop everything, brokers first and in good order; how many processes there were."""
        running = [node for node in self.fleet.nodes() if self.fleet.is_alive(node)]
        for node in sorted(running, key=lambda each: each.startswith("zookeeper")):
            self.fleet.stop(node, grace_s=30.0)
        if remove:
            shutil.rmtree(self.folder)
        return len(running)

    def status(self) -> ClusterStatus:
        registered: dict[int, bool | None] = {}
        controller: int | None = None
        ids = [int(node.removeprefix("broker-")) for node in self.target.nodes]
        try:
            self.target.attach()
            controller = self.target.view.controller()
            registered = {each: self.target.view.registered(each) for each in ids}
        except TargetError:
            pass  # ZooKeeper is down: the processes can still be told
        finally:
            self.target.detach()
        addresses = self.target.bootstrap.split(",")
        brokers = tuple(
            BrokerStatus(each, self.fleet.pid(node_name(each)), self._state(each, registered.get(each)), address)
            for each, address in zip(ids, addresses, strict=True)
        )
        return ClusterStatus(self.target.bootstrap, self.target.zookeeper_connect, controller, brokers)

    def _state(self, broker: int, registered: bool | None) -> str:
        state = self.fleet.state(node_name(broker))
        if state in _STATES:
            return _STATES[state]
        return "starting" if registered is False else "up"

    def node(self, broker: int) -> str:
        name = node_name(broker)
        if name not in self.target.nodes:
            known = ", ".join(each.removeprefix("broker-") for each in self.target.nodes)
            raise UsageError(f"there is no broker {broker}; there are {known}")
        return name

    def start_broker(self, broker: int) -> None:
        self.target.attach()
        try:
            self.target.start_node(self.node(broker))
        finally:
            self.target.detach()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another command is at work on {folder}; wait for it, or end it") from None
        yield


def create(folder: Path, plan: TargetPlan) -> LocalCluster:
    """A new cluster in ``folder``, or the one that is there, if it was made the same way."""
    folder.mkdir(parents=True, exist_ok=True)
    described = folder / "cluster.json"
    wanted = {"brokers": plan.brokers, "zookeeper": plan.zookeeper, "settings": plan.settings}
    if described.exists():
        there = _described(described)
        if there != wanted:
            raise UsageError(
                f"{folder} holds a cluster that was made with other options ({json.dumps(there)}); "
                f"use another --dir, or remove it with: tidemark cluster down --remove --dir {folder}"
            )
    elif any(each.name != "lock" for each in folder.iterdir()):
        raise UsageError(f"{folder} is not empty and holds no cluster; use another --dir")
    described.write_text(json.dumps(wanted, indent=1) + "\n")
    return LocalCluster(folder, plan)


def open_cluster(folder: Path) -> LocalCluster:
    described = folder / "cluster.json"
    if not described.exists():
        raise UsageError(f"{folder} holds no cluster; start one with: tidemark cluster up --dir {folder}")
    there = _described(described)
    plan = TargetPlan(
        kind="shipped", brokers=there["brokers"], zookeeper=there["zookeeper"], settings=there["settings"]
    )
    return LocalCluster(folder, plan)


def _described(path: Path) -> dict[str, Any]:
    try:
        there = json.loads(path.read_text())
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    if not isinstance(there, dict) or there.keys() != {"brokers", "zookeeper", "settings"}:
        raise UsageError(f"{path} does not describe a cluster")
    return there
