"""The walk through a failure: five partitions with three replicas, brokers die and come back, preferred election.

On a cluster of its own: the brokers' ids and the assignment are those of a new cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from harness.cluster.admin import Admin
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan
from harness.targets.shipped import ShippedTarget

DEADLINE_S = 40.0
REPLICAS = {0: "0,1,2", 1: "1,2,0", 2: "2,0,1", 3: "0,2,1", 4: "1,0,2"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ShippedTarget]:
    plan = TargetPlan(
        kind="shipped", brokers=3, session_timeout_ms=3000, settings={"auto.leader.rebalance.enable": "false"}
    )
    with LoopbackFleet(tmp_path / "registry") as fleet:
        target = ShippedTarget(plan, logs=tmp_path / "logs", data=tmp_path / "data", fleet=fleet)
        try:
            target.start()
            yield target
        finally:
            target.stop()


def table(admin: Admin) -> dict[int, tuple[str, str, frozenset[str]]]:
    """Leader, replicas and ISR of each partition, as ``tidemark topics describe`` prints them."""
    rows = {}
    for line in list(admin.describe_topics(["testp3"]))[1:]:
        fields = dict(part.split(": ") for part in line.strip().split("\t"))
        rows[int(fields["Partition"])] = (fields["Leader"], fields["Replicas"], frozenset(fields["Isr"].split(",")))
    return rows


def expected(leaders: str, isr: str) -> dict[int, tuple[str, str, frozenset[str]]]:
    return {number: (leaders[number], REPLICAS[number], frozenset(isr)) for number in REPLICAS}


def becomes(admin: Admin, wanted: dict[int, tuple[str, str, frozenset[str]]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (found := table(admin)) != wanted:
        assert time.monotonic() < deadline, f"still {found}, not {wanted}"
        time.sleep(0.2)


def test_the_walk_through(cluster: ShippedTarget) -> None:
    alive = cluster.bootstrap.split(",")[0]  # broker 0 lives throughout
    admin = Admin(alive)
    admin.create_topic("testp3", 5, 3, {})
    becomes(admin, expected("01201", "012"))
    cluster.kill_node("broker-2")
    becomes(admin, expected("01001", "01"))
    cluster.kill_node("broker-1")
    becomes(admin, expected("00000", "0"))
    cluster.start_node("broker-1")
    cluster.start_node("broker-2")
    becomes(admin, expected("00000", "012"))
    assert len(list(admin.elect("preferred", None))) >= 3
    becomes(admin, expected("01201", "012"))
    _check_nodes(cluster.zookeeper_connect, lambda: cluster.view.controller())


def _check_nodes(connect: str, controller: Callable[[], int | None]) -> None:
    """ZooKeeper holds Kafka's nodes with the fields of Kafka 3.x's versions."""
    client = KazooClient(hosts=connect)
    client.start(timeout=DEADLINE_S)
    try:

        def document(path: str) -> dict[str, object]:
            found: dict[str, object] = json.loads(client.get(path)[0])
            return found

        assert sorted(client.get_children("/brokers/ids")) == ["0", "1", "2"]
        broker = document("/brokers/ids/2")
        assert broker["version"] == 5
        assert {"endpoints", "host", "port", "jmx_port", "timestamp", "listener_security_protocol_map"} <= broker.keys()
        assert client.exists("/brokers/ids/2").ephemeralOwner != 0
        topic = document("/brokers/topics/testp3")
        assert topic["version"] == 3
        assert topic["partitions"] == {str(n): [int(each) for each in row.split(",")] for n, row in REPLICAS.items()}
        assert sorted(client.get_children("/brokers/topics/testp3/partitions")) == list("01234")
        state = document("/brokers/topics/testp3/partitions/3/state")
        assert (state["leader"], state["version"]) == (0, 1)
        assert sorted(map(int, state["isr"])) == [0, 1, 2]  # type: ignore[call-overload]
        assert {"leader_epoch", "controller_epoch"} <= state.keys()
        assert document("/controller")["brokerid"] == controller()
    finally:
        client.stop()
        client.close()
