"""Where Apache Kafka comes from; its settings; and, where one is at hand, a real broker cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from checkers.java import Java
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan, TopicPlan
from harness.targets import Target, TargetError, make_target
from harness.targets.kafka_home import cached_kafka, find_kafka
from harness.targets.kafka_settings import server_properties
from harness.targets.watcher import ClusterWatcher
from histories.recorded import RecordedEvent
from nemesis.fault import Kind
from nemesis.nemesis import Nemesis
from nemesis.schedule import PlannedFault
from tests.harness.waiting import wait_until

NO_JAVA = Java(Path("/nowhere"), Path("/nowhere/bin/java"), 17, "PATH")
TOPIC = TopicPlan(partitions=2)


def test_without_kafka_and_without_maven_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no Maven to fetch one") as raised:
        find_kafka("", NO_JAVA, {"HOME": str(tmp_path), "PATH": ""})
    for way in ("KAFKA_HOME", "kafka_home", "apt-get install maven", "--target existing"):
        assert way in str(raised.value)


def test_a_given_folder_must_hold_a_kafka_that_knows_zookeeper(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"no libs/kafka_2\.\*\.jar there"):
        find_kafka(str(tmp_path), NO_JAVA, {})
    (tmp_path / "libs").mkdir()
    jar = tmp_path / "libs" / "kafka_2.13-4.1.0.jar"
    jar.touch()
    with pytest.raises(TargetError, match=r"is Apache Kafka 4\.1\.0; managed brokers need 3\.x"):
        find_kafka("", NO_JAVA, {"KAFKA_HOME": str(tmp_path)})
    jar.rename(jar.with_name("kafka_2.12-3.8.0.jar"))
    found = find_kafka(str(tmp_path), NO_JAVA, {"KAFKA_HOME": "/elsewhere"})
    assert (found.libs, found.version, found.origin) == (tmp_path / "libs", "3.8.0", "kafka_home")


def fake_maven(folder: Path, text: str) -> dict[str, str]:
    executable = folder / "bin" / "mvn"
    executable.parent.mkdir()
    executable.write_text(f"#!/bin/sh\n{text}\n")
    executable.chmod(0o755)
    return {"HOME": str(folder), "PATH": f"{executable.parent}:{os.defpath}"}


def test_maven_fetches_once_into_the_cache(tmp_path: Path) -> None:
    environ = fake_maven(
        tmp_path, f"echo called >> {tmp_path}/calls; mkdir libs; touch libs/kafka_2.13-3.9.1.jar; cat pom.xml >&2"
    )
    found = [find_kafka("", NO_JAVA, environ) for _ in range(2)]
    assert found[0] == found[1]
    assert (found[0].libs / "kafka_2.13-3.9.1.jar").is_file()
    assert (tmp_path / "calls").read_text() == "called\n"


def test_a_fetch_that_fails_leaves_nothing_and_shows_what_maven_said(tmp_path: Path) -> None:
    environ = fake_maven(tmp_path, "mkdir libs; touch libs/half.jar; echo no route to host; exit 1")
    with pytest.raises(TargetError, match="no route to host"):
        find_kafka("", NO_JAVA, environ)
    assert list((tmp_path / ".cache" / "tidemark").iterdir()) == []


def test_the_plans_settings_win() -> None:
    plan = TargetPlan(kind="kafka", brokers=1, settings={"num.io.threads": "9"})
    lines = server_properties(plan, 1, "127.0.0.1", 9092, "127.0.0.1:2181", Path("/d")).splitlines()
    assert "num.io.threads=9" in lines
    assert "num.io.threads=4" not in lines
    assert "offsets.topic.replication.factor=1" in lines, "a cluster of one cannot have three replicas"


def test_unknown_targets_and_missing_addresses_are_refused(tmp_path: Path) -> None:
    with LoopbackFleet(tmp_path) as fleet:
        for plan, message in (
            (TargetPlan(kind="pulsar"), "unknown target 'pulsar'"),
            (TargetPlan(kind="existing"), "needs its address"),
            (TargetPlan(kind="kafka", brokers=0), "at least one"),
        ):
            with pytest.raises(TargetError, match=message):
                make_target(plan, logs=tmp_path, data=tmp_path, fleet=fleet)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackFleet, Target, Path]]:
    if not os.environ.get("KAFKA_HOME") and cached_kafka() is None:
        pytest.skip(
            "no Apache Kafka at hand: set KAFKA_HOME, or let 'tidemark run --target kafka' fetch one by Maven first"
        )
    folder = tmp_path_factory.mktemp("kafka")
    with LoopbackFleet(folder / "registry") as fleet:
        target = make_target(TargetPlan(kind="kafka"), logs=folder / "logs", data=folder / "data", fleet=fleet)
        target.start()
        yield fleet, target, folder
        target.stop()
        target.stop()
        assert [fleet.pid(node) for node in (*target.nodes, "zookeeper-1")] == [None] * 4


def _deliver(target: Target, topic: str, count: int) -> list[object]:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": target.bootstrap, "acks": "all", "log_level": 0})
    for number in range(count):
        producer.produce(
            topic, b"x", partition=number % TOPIC.partitions, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    return [error for error in errors if error is not None]


def test_a_real_leader_is_killed_and_comes_back(running: tuple[LoopbackFleet, Target, Path]) -> None:
    fleet, target, folder = running
    target.create_topic("killed", TOPIC)
    assert target.view.unhealthy() == []
    assert _deliver(target, "killed", 100) == []

    events: list[RecordedEvent] = []
    watcher = ClusterWatcher(target.view, events.append, lambda topic, number: number if topic == "killed" else None)
    watcher.start()
    schedule = [PlannedFault(0, 0.0, 3600.0, Kind.KILL, "leader")]
    nemesis = Nemesis(target, target.view, schedule, lambda: [("killed", 1, 1)], events.append)
    nemesis.start()
    wait_until(lambda: any(each.kind == "fault-evidence" for each in events), "the kill")
    (node,) = {each.node for each in events if each.kind == "fault-injected"}
    assert node is not None
    assert fleet.exit_code(node) == -signal.SIGKILL
    wait_until(lambda: any(each.kind == "node-died" for each in events), "the registration to expire", 60)
    wait_until(lambda: target.view.leader("killed", 1) not in (None, int(node[-1])), "a new leader", 60)
    assert _deliver(target, "killed", 100) == [], "two of three replicas take acks=all"

    assert nemesis.heal_all() == []
    wait_until(lambda: target.view.unhealthy() == [], "a healthy cluster", 60)
    watcher.stop()
    leaders = [each for each in events if each.kind == "leader" and each.key == 1]
    assert len({each.leader_epoch for each in leaders}) >= 2
    assert any(each.kind == "node-started" and each.node == node for each in events[events.index(leaders[-1]) :])
    for name in ("server.log", "controller.log", "state-change.log"):
        assert (folder / "logs" / node / name).stat().st_size > 0


def test_an_existing_cluster_is_driven_but_never_broken(running: tuple[LoopbackFleet, Target, Path]) -> None:
    fleet, managed, folder = running
    plan = TargetPlan(kind="existing", bootstrap=managed.bootstrap)
    target = make_target(plan, logs=folder, data=folder, fleet=fleet)
    target.start()
    assert target.nodes == managed.nodes
    target.create_topic("visited", TOPIC)
    # Brokers learn of a topic one after the other, and the client asks any of them.
    wait_until(
        lambda: target.view.leader("visited", 0) == managed.view.leader("visited", 0),
        "both views to name the same leader",
    )
    assert target.view.controller() is not None
    with pytest.raises(TargetError, match="never broken"):
        target.kill_node("broker-1")
    with pytest.raises(TargetError, match="already exists"):
        target.create_topic("visited", TOPIC)
    target.delete_topic("visited")
    target.delete_topic("visited")
    wait_until(lambda: target.view.leader("visited", 0) is None, "the topic to be gone")
    target.stop()
    assert managed.view.registered(1)
