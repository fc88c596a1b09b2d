"""When a run did too little for its silence to mean something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.exercise import faults_of, judge_exercise, leader_changes
from checkers.metrics import Measured, StepCount
from checkers.result import Fault, Finding
from histories.build import HistoryBuilder
from histories.meta import Exercise, KeyInfo, Meta, TopicSettings

S = 10**9
KILL = Fault(1, "kill", "broker-1", 10 * S + 1, 12 * S, landed=True, detail="")


def meta(retries: int | None = 3, **exercise: object) -> Meta:
    return Meta(
        "run", "run", (KeyInfo("t", 0),), {"t": TopicSettings(1, 3, 2)}, (),
        exercise=Exercise(**exercise), retries=retries,  # type: ignore[arg-type]
    )  # fmt: skip


def load(*steps: tuple[int, str, int], last: int = 20) -> Measured:
    return Measured({}, [StepCount(second, outcome, 0, n) for second, outcome, n in steps], last * S)


BUSY = load((9, "ok", 1), (10, "info", 60), (12, "polled", 40))
"""Just enough for KILL: an acknowledgement in the second before it, and 100 operations while it lasts."""


def lacking(measured: Measured, fault: Fault = KILL, **exercise: object) -> list[str]:
    return judge_exercise(meta(**exercise), [fault], 1, measured, [])[0]  # type: ignore[arg-type]


def test_a_fault_that_met_just_enough() -> None:
    assert judge_exercise(meta(faults=True), [KILL], 1, BUSY, []) == ([], [])


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        (load((9, "ok", 1), (10, "info", 60), (12, "polled", 39)), "fault 1 (kill broker-1) met 99 operations"),
        (load((9, "ok", 500)), "met 0 operations"),
        (load((9, "ok", 500), (13, "ok", 500)), "met 0 operations"),
        (load((8, "ok", 500), (11, "ok", 500)), "no send was acknowledged in the second before fault 1"),
        (load((9, "info", 500), (11, "ok", 500)), "no send was acknowledged in the second before fault 1"),
    ],
)
def test_a_fault_that_met_too_little(measured: Measured, problem: str) -> None:
    (line,) = lacking(measured)
    assert problem in line


def test_an_acknowledgement_in_the_second_of_the_fault_counts() -> None:
    assert lacking(load((10, "ok", 100))) == []


def test_a_fault_without_an_end_lasts_until_the_end_of_the_run() -> None:
    endless = replace(KILL, end_ns=None)
    assert lacking(load((9, "ok", 1), (20, "ok", 100)), endless) == []
    assert len(lacking(load((9, "ok", 1), (21, "ok", 100)), endless)) == 1


def test_a_fault_that_did_not_land_counts_for_nothing() -> None:
    missed = replace(KILL, landed=False)
    assert judge_exercise(meta(faults=True), [missed], 5, BUSY, []) == (
        ["no fault landed"],
        ["lost-write: no fault landed, so no acknowledged write was at risk"],
    )
    assert judge_exercise(meta(faults=False), [], 0, BUSY, [])[0] == []


def test_enough_sends_are_acknowledged() -> None:
    assert lacking(load((9, "ok", 99), (10, "info", 100)), min_acknowledged=100) == [
        "99 sends were acknowledged, and the plan wants 100"
    ]
    assert lacking(load((9, "ok", 100), (10, "info", 100)), min_acknowledged=100) == []


@pytest.mark.parametrize(
    ("leaders", "retries", "quiet"),
    [
        (0, 1, ["lost-write: no partition changed its leader, so no acknowledged write was at risk"]),
        (1, 0, ["duplicate: no producer retried a request"]),
        (None, None, ["duplicate: retries are not observable with these clients"]),
        (1, 1, []),
    ],
)
def test_promises_that_nothing_put_to_the_test(leaders: int | None, retries: int | None, quiet: list[str]) -> None:
    assert judge_exercise(meta(retries), [KILL], leaders, BUSY, []) == ([], quiet)


def test_a_subject_must_be_exercised_unless_it_showed() -> None:
    about = meta(retries=0, subject=("duplicate",))
    problem = "duplicate is this plan's subject and was not exercised"
    assert judge_exercise(about, [KILL], 1, BUSY, [])[0] == [problem]
    assert judge_exercise(about, [KILL], 1, BUSY, [Finding("lost-write", 1, 1, ())])[0] == [problem]
    assert judge_exercise(about, [KILL], 1, BUSY, [Finding("duplicate", 1, 0, ())])[0] == []
    assert judge_exercise(meta(retries=1, subject=("duplicate",)), [KILL], 1, BUSY, [])[0] == []


def test_only_a_run_is_held_to_it() -> None:
    imported = replace(meta(retries=0, faults=True, min_acknowledged=9), origin="jepsen")
    assert judge_exercise(imported, [], 0, load(), []) == ([], [])


def test_faults_from_events(tmp_path: Path) -> None:
    b = HistoryBuilder()
    kill = {"fault_id": 7, "fault": "kill", "node": "broker-1"}
    b.event("fault-planned", 1, **kill)
    b.event("fault-injected", 2, **kill, detail="aim")
    b.event("fault-evidence", 3, **kill, detail="it is gone")
    b.event("fault-healed", 4, **kill, detail="back")
    b.event("fault-injected", 5, fault_id=3, fault="pause", detail="aim")
    b.event("fault-not-landed", 6, fault_id=3, fault="pause", detail="it answers")
    b.event("fault-injected", 7, fault_id=8)
    b.event("fault-planned", 8, fault_id=9, fault="kill")
    b.event("node-died", 9, node="broker-1")
    b.write(tmp_path / "h")
    assert faults_of(tmp_path / "h") == (
        Fault(3, "pause", None, 5, None, False, "it answers"),
        Fault(7, "kill", "broker-1", 2, 4, True, "it is gone"),
        Fault(8, "fault", None, 7, None, False, ""),
    )


def test_the_first_of_two_like_events_tells(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.event("fault-injected", 2, fault_id=1, fault="kill", detail="first")
    b.event("fault-injected", 3, fault_id=1, fault="kill", detail="second")
    b.write(tmp_path / "h")
    assert faults_of(tmp_path / "h") == (Fault(1, "kill", None, 2, None, False, "first"),)


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        ([], None),
        ([(1, 0, 1)], 0),
        ([(1, 0, 0), (2, 0, 0)], 0),
        ([(1, 0, 0), (2, 0, 1)], 1),
        ([(1, 0, 1), (2, 1, 2)], 0),
        ([(1, 0, 1), (2, 0, -1), (3, 0, 1)], 0),
        ([(1, 0, 1), (2, 0, None), (3, 0, 2), (4, 0, 1)], 2),
        ([(1, None, 1), (2, None, 2)], None),
    ],
)
def test_changes_of_leaders(tmp_path: Path, seen: list[tuple[int, int | None, int | None]], changes: int) -> None:
    b = HistoryBuilder()
    for time_ns, key, leader in seen:
        b.event("leader", time_ns, key=key, leader=leader)
        b.event("isr", time_ns, key=key, leader=None if leader is None else leader + 1)
    b.write(tmp_path / "h")
    assert leader_changes(tmp_path / "h") == changes
