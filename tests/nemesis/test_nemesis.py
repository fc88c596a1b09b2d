from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from nemesis.fault import Kind
from nemesis.faults import FAULTS
from nemesis.nemesis import Nemesis, Patience
from nemesis.schedule import PlannedFault
from tests.nemesis.fakes import FakeCluster, Recorder, wait_until

FOREVER_S = 3600.0
QUICK = Patience(selection_s=0.05, evidence_s=0.05)
LANDED = ["fault-planned", "fault-injected", "fault-evidence", "fault-healed"]
MISSED = ["fault-planned", "fault-injected", "fault-not-landed", "fault-healed"]


def make(cluster: FakeCluster, *schedule: PlannedFault, at_once: int = 1) -> tuple[Nemesis, Recorder]:
    recorder = Recorder()
    nemesis = Nemesis(cluster, cluster, schedule, cluster.keys, recorder, at_once=at_once, patience=QUICK)
    return nemesis, recorder


def run(cluster: FakeCluster, *schedule: PlannedFault, at_once: int = 1) -> tuple[Nemesis, Recorder]:
    nemesis, recorder = make(cluster, *schedule, at_once=at_once)
    nemesis.start()
    wait_until(lambda: not nemesis.is_running(), "the end of the schedule")
    return nemesis, recorder


def fault(number: int, kind: Kind, role: str, at_s: float = 0.0, hold_s: float = 0.0) -> PlannedFault:
    return PlannedFault(number, at_s, hold_s, kind, role)


@pytest.mark.parametrize(
    ("kind", "deed", "undone", "proof"),
    [
        (Kind.KILL, "kill", "start", "process 100 is gone"),
        (Kind.STOP, "stop", "start", "process 100 is gone, its registration was withdrawn"),
        (Kind.RESTART, "stop", "start", "process 100 was replaced by process 1001"),
        (Kind.PAUSE, "pause", "resume", "process 100 is in state T (stopped)"),
    ],
)
def test_each_fault_lands_is_proved_and_healed(kind: Kind, deed: str, undone: str, proof: str) -> None:
    cluster = FakeCluster()
    nemesis, recorder = run(cluster, fault(0, kind, "controller"))
    assert recorder.kinds() == LANDED
    assert (cluster.calls[0], cluster.calls[-1]) == ((deed, "broker-1"), (undone, "broker-1"))
    assert recorder.events[2].detail == f"{kind} broker-1 (the controller): {proof}"
    assert {(each.fault_id, each.fault, each.node) for each in recorder.events} == {(0, str(kind), "broker-1")}
    (done,) = nemesis.executed()
    assert (done["landed"], done["node"], done["evidence"]) == (True, "broker-1", proof)
    assert cluster.pids["broker-1"] is not None
    assert not cluster.paused


@pytest.mark.parametrize("kind", list(Kind))
def test_a_fault_that_does_nothing_has_not_landed(kind: Kind) -> None:
    cluster = FakeCluster(brokers=4)
    cluster.inert = cluster.with_links().inert = True
    nemesis, recorder = run(cluster, fault(0, kind, "any", hold_s=FOREVER_S))
    assert recorder.kinds() == MISSED
    assert "no evidence" in str(recorder.events[2].detail)
    assert nemesis.executed()[0]["landed"] is False


def test_a_node_that_is_already_down_cannot_be_hit() -> None:
    cluster = FakeCluster()
    cluster.pids["broker-2"] = None
    _, recorder = run(cluster, fault(0, Kind.KILL, "broker-2"))
    assert "no process to hit" in str(recorder.events[2].detail)
    assert recorder.kinds()[2] == "fault-not-landed"


def test_a_role_that_nobody_has_is_reported_and_the_schedule_goes_on() -> None:
    cluster = FakeCluster()
    cluster.controller_id = None
    nemesis, recorder = run(cluster, fault(0, Kind.KILL, "controller"), fault(1, Kind.KILL, "broker-3"))
    assert recorder.kinds(0) == ["fault-planned", "fault-not-landed"]
    assert recorder.kinds(1) == LANDED
    assert [(each["node"], each["landed"]) for each in nemesis.executed()] == [(None, False), ("broker-3", True)]


def test_an_unmanaged_cluster_is_never_touched() -> None:
    cluster = FakeCluster()
    cluster.supports_faults = False
    _, recorder = run(cluster, fault(0, Kind.KILL, "any"))
    assert recorder.kinds() == ["fault-planned", "fault-not-landed"]
    assert cluster.calls == []


def test_the_leader_fault_names_its_key() -> None:
    _, recorder = run(FakeCluster(), fault(0, Kind.PAUSE, "leader"))
    assert (recorder.events[0].key, recorder.events[0].node) in [(0, "broker-2"), (1, "broker-3")]


def test_stop_interrupts_a_hold_and_heals() -> None:
    cluster = FakeCluster()
    nemesis, recorder = make(cluster, fault(0, Kind.PAUSE, "broker-1", hold_s=FOREVER_S))
    nemesis.start()
    wait_until(lambda: "fault-evidence" in recorder.kinds(), "the fault to land")
    assert cluster.paused == {"broker-1"}
    assert nemesis.heal_all() == []
    assert cluster.paused == set()
    assert recorder.kinds() == LANDED
    assert nemesis.executed()[0]["hold_s"] < FOREVER_S / 2


def test_stop_interrupts_the_wait_for_the_next_fault() -> None:
    nemesis, recorder = make(FakeCluster(), fault(0, Kind.KILL, "any", at_s=FOREVER_S))
    nemesis.start()
    before = time.monotonic()
    nemesis.heal_all()
    assert time.monotonic() - before < FOREVER_S / 2
    assert recorder.events == []
    assert nemesis.executed() == []


def test_heal_all_is_safe_at_any_time() -> None:
    cluster = FakeCluster()
    nemesis, recorder = make(cluster, fault(0, Kind.KILL, "any", hold_s=FOREVER_S))
    assert nemesis.heal_all() == []
    nemesis.start()
    assert nemesis.heal_all() == nemesis.heal_all() == []
    assert recorder.kinds() == [], "stopped before it was started"


def test_no_more_at_once_than_allowed() -> None:
    faults = [fault(each, kind, "any", hold_s=0.01) for each, kind in enumerate([Kind.KILL, Kind.PAUSE] * 6)]
    alone = FakeCluster()
    _, recorder = run(alone, *faults)
    assert alone.most_down == 1
    assert recorder.kinds().count("fault-evidence") == 12

    together = FakeCluster()
    held = [fault(each, Kind.KILL, "any", hold_s=FOREVER_S) for each in range(3)]
    nemesis, recorder = make(together, *held, at_once=2)
    nemesis.start()
    wait_until(lambda: recorder.kinds().count("fault-evidence") == 2, "two faults in force")
    nemesis.heal_all()
    assert together.most_down == 2
    assert None not in together.pids.values()


def test_healing_that_fails_is_tried_again_and_told() -> None:
    cluster = FakeCluster()
    cluster.refusals = 2
    _, recorder = run(cluster, fault(0, Kind.KILL, "broker-1"))
    assert recorder.kinds()[3:] == ["fault-not-healed", "fault-not-healed", "fault-healed"]

    cluster = FakeCluster()
    cluster.refusals = 4
    nemesis, recorder = make(cluster, fault(0, Kind.KILL, "broker-1"), fault(1, Kind.KILL, "broker-2"))
    nemesis.start()
    wait_until(lambda: recorder.kinds().count("fault-not-healed") == 3, "three attempts")
    assert nemesis.heal_all() == ["broker-1 could not be healed of kill: broker-1 does not start"]
    assert nemesis.heal_all() == []
    assert recorder.kinds()[-1] == "fault-healed"
    assert ("kill", "broker-2") not in cluster.calls, "a second broker went down beside one that is still down"


def test_the_record_is_json_and_can_be_replayed() -> None:
    nemesis, _ = run(
        FakeCluster(), fault(0, Kind.KILL, "leader", hold_s=0.01), fault(1, Kind.PAUSE, "any", hold_s=0.01)
    )
    executed = json.loads(json.dumps(nemesis.executed()))
    cluster, recorder = FakeCluster(), Recorder()
    again = Nemesis.replay(executed, cluster, cluster, cluster.keys, recorder, patience=QUICK)
    again.start()
    wait_until(lambda: not again.is_running(), "the end of the replay")
    assert [(each["kind"], each["node"]) for each in again.executed()] == [
        (each["kind"], each["node"]) for each in executed
    ]


def test_every_kind_has_its_fault() -> None:
    assert set(FAULTS) == set(Kind)


def test_a_fault_waits_until_the_cluster_is_whole_again() -> None:
    cluster = FakeCluster()
    looks: list[int] = []

    def unhealthy() -> list[str]:
        looks.append(len(cluster.calls))
        return ["a replica is missing"] if len(looks) < 3 else []

    cluster.unhealthy = unhealthy  # type: ignore[method-assign]
    _, recorder = run(cluster, fault(0, Kind.KILL, "controller"))
    assert recorder.kinds() == LANDED
    assert looks[:3] == [0, 0, 0], "nothing was done to the cluster before it was whole"


def test_a_cluster_that_never_becomes_whole_is_hit_all_the_same() -> None:
    cluster = FakeCluster()
    cluster.unhealthy = lambda: ["a replica is missing"]  # type: ignore[method-assign]
    nemesis = Nemesis(
        cluster,
        cluster,
        [fault(0, Kind.KILL, "controller")],
        cluster.keys,
        recorder := Recorder(),
        patience=replace(QUICK, settle_s=0.3, calm_s=0.0),
    )
    nemesis.start()
    wait_until(lambda: not nemesis.is_running(), "the end of the schedule")
    assert recorder.kinds() == LANDED
