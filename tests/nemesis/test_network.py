"""Network faults on links that are counted in memory. Real links: tests/harness/test_namespaces.py."""

from __future__ import annotations

import json

import pytest

from harness.fleet.base import FleetError, Link, Queue
from nemesis.fault import Kind
from nemesis.faults import FAULTS, by_reason, unavailable
from nemesis.nemesis import Nemesis
from nemesis.network import NETWORK_FAULTS
from nemesis.schedule import PlannedFault
from nemesis.shapes import between
from tests.nemesis.fakes import FakeCluster, FakeLinks, Recorder, wait_until
from tests.nemesis.test_nemesis import FOREVER_S, LANDED, QUICK, fault, make, run

KINDS = [each.kind for each in NETWORK_FAULTS]


@pytest.mark.parametrize("kind", KINDS)
def test_each_lands_is_proved_and_healed(kind: Kind) -> None:
    cluster = FakeCluster(brokers=4)
    links = cluster.with_links()
    nemesis, recorder = run(cluster, fault(0, kind, "controller"))
    assert recorder.kinds() == LANDED
    assert {each.node for each in recorder.events} == {"broker-1"}
    assert links.all_whole
    (done,) = nemesis.executed()
    assert done["landed"]
    assert bool(done["links"]) == (kind not in (Kind.BANDWIDTH, Kind.DELAY))


def test_the_events_tell_what_was_cut_and_what_was_dropped() -> None:
    cluster = FakeCluster()
    cluster.with_links()
    _, recorder = run(cluster, fault(0, Kind.CUT_ZOOKEEPER, "controller"))
    planned, _, proof, healed = (str(each.detail) for each in recorder.events)
    assert planned == "cut-zookeeper broker-1 (the controller): broker-1 ↔ zookeeper-1"
    assert proof == "cut-zookeeper broker-1 (the controller): 2 packets dropped on 2 of 2 links"
    assert healed == "the links carry again; 4 packets were dropped, on broker-1 ↔ zookeeper-1"


def test_without_links_they_are_not_available_and_nothing_is_touched() -> None:
    cluster = FakeCluster(brokers=4)
    reasons = unavailable(map(str, Kind), cluster)
    assert list(reasons) == list(map(str, KINDS))
    assert all("the hosts have no links of their own" in reason for reason in reasons.values())
    _, recorder = run(cluster, fault(0, Kind.ISOLATE, "leader"))
    assert recorder.kinds() == ["fault-planned", "fault-not-landed"]
    assert cluster.calls == []


def test_what_else_makes_them_unavailable() -> None:
    cluster = FakeCluster(brokers=2)
    links = cluster.with_links()
    links.missing = {"delay": "this kernel has no netem"}
    assert unavailable(map(str, Kind), cluster) == {
        "majority": "it takes at least 3 brokers, and there are 2",
        "ring": "it takes at least 4 brokers, and there are 2",
        "bridge": "it takes at least 3 brokers, and there are 2",
        "delay": "this kernel has no netem",
    }
    assert by_reason({"a": "no", "b": "never", "c": "no"}) == ["a, c: no", "b: never"]
    cluster.supports_faults = False
    assert "not managed" in str(FAULTS[Kind.ISOLATE].unavailable(cluster))


def test_a_node_without_such_a_link_is_not_hit() -> None:
    cluster = FakeCluster()
    cluster.with_links().hosts = cluster.nodes
    _, recorder = run(cluster, fault(0, Kind.CUT_ZOOKEEPER, "broker-2"))
    assert recorder.kinds()[:3] == ["fault-planned", "fault-injected", "fault-not-landed"]
    assert "broker-2 has no such link" in str(recorder.events[2].detail)


def test_a_cut_that_is_interrupted_heals() -> None:
    cluster = FakeCluster()
    links = cluster.with_links()
    nemesis, recorder = make(cluster, fault(0, Kind.ISOLATE, "leader", hold_s=FOREVER_S))
    nemesis.start()
    wait_until(lambda: "fault-evidence" in recorder.kinds(), "the cut")
    (node,) = {str(each.node) for each in recorder.events}
    others = [each for each in links.hosts if each != node]
    assert set(links.cuts["fault-0"]) == between([node], others)
    assert nemesis.heal_all() == []
    assert links.all_whole


def test_a_replay_cuts_the_very_links() -> None:
    cluster = FakeCluster(brokers=5)
    cluster.with_links()
    nemesis, _ = run(cluster, *(fault(each, Kind.HALVES, "any", hold_s=0.01) for each in range(8)))
    executed = json.loads(json.dumps(nemesis.executed()))
    assert len({str(each["links"]) for each in executed}) > 1, "they differ, so a replay that drew anew would show"

    cluster = FakeCluster(brokers=5)
    cluster.with_links()
    again = Nemesis.replay(executed, cluster, cluster, cluster.keys, Recorder(), patience=QUICK, seed=77)
    again.start()
    wait_until(lambda: not again.is_running(), "the end of the replay")
    assert [each["links"] for each in json.loads(json.dumps(again.executed()))] == [each["links"] for each in executed]


def test_the_seed_decides_who_is_apart() -> None:
    def drawn(seed: int) -> list[tuple[Link, ...]]:
        cluster = FakeCluster(brokers=5)
        cluster.with_links()
        schedule = [PlannedFault(each, 0.0, 0.0, Kind.HALVES, "broker-1") for each in range(4)]
        nemesis = Nemesis(cluster, cluster, schedule, cluster.keys, Recorder(), seed=seed, patience=QUICK)
        nemesis.start()
        wait_until(lambda: not nemesis.is_running(), "the end of the schedule")
        return [each["links"] for each in nemesis.executed()]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


class Uncounted(FakeLinks):
    """The kernel drops packets, and does not say how many."""

    def dropped(self, cause: str) -> dict[Link, int]:
        raise FleetError(f"{cause}: the kernel does not answer")

    def queue(self, cause: str) -> Queue | None:
        raise FleetError(f"{cause}: the kernel does not answer")


@pytest.mark.parametrize("kind", [Kind.ISOLATE, Kind.BANDWIDTH])
def test_what_cannot_be_counted_has_no_evidence_and_heals(kind: Kind) -> None:
    cluster = FakeCluster()
    links = Uncounted((*cluster.nodes, "zookeeper-1", "worker-0"))
    cluster.links = links
    nemesis, recorder = run(cluster, fault(0, kind, "controller"))
    assert recorder.kinds() == ["fault-planned", "fault-injected", "fault-not-landed", "fault-healed"]
    assert "the kernel does not answer" in str(recorder.events[2].detail)
    assert links.all_whole
    (done,) = nemesis.executed()
    assert not done["landed"]
    assert nemesis.heal_all() == []
