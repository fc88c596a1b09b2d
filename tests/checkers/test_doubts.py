"""Tables that contradict each other and assumptions that do not hold: never valid, and nothing that rests on them convicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checkers.agreement import unordered
from checkers.doubts import Doubts, among
from checkers.found import Found
from checkers.judge import judge
from checkers.result import Judgement, Verdict
from histories.build import HistoryBuilder, Poll, Send
from histories.schema import TABLES
from tests.checkers.in_process import write
from tests.checkers.local import local_context

Row = dict[str, Any]
Rows = list[Row]
Change = Callable[[Rows, Rows], object]


def judged(folder: Path, b: HistoryBuilder, change: Change | None = None) -> Judgement:
    """Judged in this process, after ``change`` was made to the rows of ops and mops."""
    tables = b.tables()
    if change is not None:
        ops, mops = tables["ops"].to_pylist(), tables["mops"].to_pylist()
        change(ops, mops)
        tables |= {name: pa.Table.from_pylist(rows, TABLES[name]) for name, rows in (("ops", ops), ("mops", mops))}
    write(folder, tables, b.meta())
    return judge(local_context(), folder, path_label="h")


def healthy() -> HistoryBuilder:
    b = HistoryBuilder()
    b.burst(process=0, sends=[Send(0, 1, 0), Send(0, 2, 1)])
    b.txn(process=1, steps=[Send(0, 3, 2), Poll([(0, 0, 1)])])
    b.poll(process=2, records=[(0, 0, 1), (0, 1, 2)])
    b.scan_rest()
    return b


def guilty() -> HistoryBuilder:
    """As healthy, and value 9 is lost."""
    b = HistoryBuilder()
    b.burst(process=0, sends=[Send(0, 1, 0), Send(0, 2, 1)])
    b.txn(process=1, steps=[Send(0, 3, 2), Poll([(0, 0, 1)])])
    b.poll(process=2, records=[(0, 0, 1), (0, 1, 2)])
    b.send(process=4, key=0, value=9, offset=3)
    b.scan_rest(without=[9])
    return b


def of(rows: Rows, **wanted: Any) -> Row:
    """The first row that has these values."""
    return next(row for row in rows if all(row[name] == value for name, value in wanted.items()))


def shift(rows: Rows, name: str, by: int) -> None:
    for row in rows:
        row[name] += by


CONTRADICTIONS: list[tuple[str, Change, str]] = [
    ("type", lambda ops, _: of(ops, f="txn").update(type="fail"), "1 operations have another type in ops than in mops"),
    ("f", lambda ops, _: of(ops, f="poll").update(f="txn"), "1 operations have another f in ops"),
    ("phase", lambda ops, _: of(ops, f="poll").update(phase="final"), "1 operations have another phase"),
    ("isolation", lambda ops, _: of(ops, f="poll").update(isolation=None), "1 operations have another isolation"),
    ("process", lambda ops, _: of(ops, f="poll").update(process=77), "1 operations have another process"),
    ("worker", lambda ops, _: of(ops, f="poll").update(worker=3), "1 operations have another worker"),
    ("commit_ns", lambda ops, _: of(ops, f="txn").update(commit_ns=None), "1 operations have another commit_ns"),
    ("mixed", lambda _, mops: of(mops, value=2).update(process=5), "1 steps have other columns of their operation"),
    ("refused", lambda _, mops: of(mops, value=3).update(type="fail"), "1 operations have another type"),
    ("unknown", lambda _, mops: of(mops, value=2).update(status="info"), "1 operations ended otherwise than their sends"),
    ("wordless", lambda _, mops: of(mops, value=2).update(status=None), "1 sends lack an outcome or a value"),
    ("valueless", lambda _, mops: of(mops, value=2).update(value=None), "1 sends lack an outcome or a value"),
    ("defective send", lambda _, mops: of(mops, value=2).update(defect="checksum"), "1 steps are of a kind that"),
    ("polled by a send", lambda _, mops: of(mops, value=2).update(kind="poll"), "1 steps are of a kind that"),
    ("sent by a poll", lambda _, mops: of(mops, value=2, kind="poll").update(kind="send"), "1 steps are of a kind that"),
    ("read nothing", lambda _, mops: of(mops, value=2, kind="poll").update(value=None), "1 polled records have neither"),
    ("keyless", lambda _, mops: of(mops, value=2, kind="poll").update(key=-1), "1 steps that are no sends have no key"),
    ("twice", lambda _, mops: of(mops, op=0, mop=1).update(mop=0), "1 steps are not in the order of op, mop and pos"),
    ("backwards", lambda _, mops: mops.reverse(), "steps are not in the order"),
    ("lonely", lambda ops, _: shift(ops, "op", 1), "steps belong to no operation"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"), [each[1:] for each in CONTRADICTIONS], ids=[e[0] for e in CONTRADICTIONS]
)
@pytest.mark.parametrize("make", [healthy, guilty])
def test_tables_that_contradict_each_other_prove_nothing(
    tmp_path: Path, make: Callable[[], HistoryBuilder], change: Change, reason: str
) -> None:
    found = judged(tmp_path / "h", make(), change)
    assert found.verdict is Verdict.UNKNOWN
    assert any(reason in each for each in found.reasons), found.reasons
    assert not any(each.fatal for each in found.findings)


def test_without_a_change_they_are_what_they_seem(tmp_path: Path) -> None:
    assert judged(tmp_path / "healthy", healthy()).verdict is Verdict.VALID
    assert judged(tmp_path / "guilty", guilty()).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("statuses", "outcome", "verdict"),
    [
        (["ok", "fail"], "ok", Verdict.VALID),
        (["ok", "info"], "info", Verdict.VALID),
        (["fail", "fail"], "fail", Verdict.VALID),
        (["fail", "fail"], "ok", Verdict.UNKNOWN),
        (["ok", "fail"], "fail", Verdict.UNKNOWN),
        (["info", "fail"], "fail", Verdict.UNKNOWN),
        (["ok", "info"], "ok", Verdict.UNKNOWN),
    ],
)
def test_an_operation_ends_as_its_sends_did(
    tmp_path: Path, statuses: list[str], outcome: str, verdict: Verdict
) -> None:
    b = HistoryBuilder()
    b.send(process=3, key=0, value=8, offset=0)
    b.burst(0, [Send(0, n + 1, n + 1 if each == "ok" else None, each) for n, each in enumerate(statuses)], outcome)
    b.poll(process=2, records=[(0, 0, 8)])
    b.scan_rest()
    assert judged(tmp_path / "h", b).verdict is verdict


def lost(value: int, *, again: int | None) -> HistoryBuilder:
    """``value`` is acknowledged and missing; it is sent once more to the key ``again``, with an unknown outcome."""
    b = HistoryBuilder()
    b.send(process=0, key=0, value=5, offset=0)
    b.send(process=0, key=1, value=6, offset=0)
    b.send(process=0, key=0, value=value, offset=1)
    if again is not None:
        b.send(process=1, key=again, value=value, type="info")
    b.scan_rest(without=[value])
    return b


@pytest.mark.parametrize("again", [0, 1])
def test_a_value_sent_twice_convicts_nobody(tmp_path: Path, again: int) -> None:
    assert judged(tmp_path / "once", lost(7, again=None)).verdict is Verdict.INVALID
    found = judged(tmp_path / "twice", lost(7, again=again))
    assert found.verdict is Verdict.UNKNOWN
    assert [(each.anomaly, each.count, each.fatal_count) for each in found.findings] == [("lost-write", 1, 0)]
    assert any("unique" in each for each in found.reasons)


def test_another_value_still_convicts(tmp_path: Path) -> None:
    b = lost(7, again=0)
    b.send(process=3, key=0, value=8, offset=9)
    found = judged(tmp_path / "h", b)
    assert found.verdict is Verdict.INVALID
    assert [(each.anomaly, each.count, each.fatal_count) for each in found.findings] == [("lost-write", 2, 1)]
    assert any("unique" in each for each in found.reasons), "and that is said all the same"


def unproved(*, twice: bool) -> HistoryBuilder:
    """An unknown transaction of 1 and 2, of which 1 was read and 2 is missing. Only 1 proves that it is committed."""
    b = HistoryBuilder()
    b.txn(process=0, steps=[Send(0, 1), Send(0, 2)], type="info", at=(10, None), commit_at=12)
    if twice:
        b.txn(process=1, steps=[Send(0, 1, 0)])
    b.poll(process=2, records=[(0, 0, 1)])
    b.scan(0, [(0, 1)])
    return b


def test_a_value_sent_twice_proves_no_transaction(tmp_path: Path) -> None:
    once = judged(tmp_path / "once", unproved(twice=False))
    assert (once.verdict, {each.anomaly for each in once.findings}) == (
        Verdict.INVALID, {"lost-write", "torn-transaction"},
    )  # fmt: skip
    twice = judged(tmp_path / "twice", unproved(twice=True))
    assert twice.verdict is Verdict.UNKNOWN
    assert not any(each.fatal for each in twice.findings)


def skipped(*, twice: bool) -> HistoryBuilder:
    """A reader goes from offset 0 to 2; at 1 lies value 7, if the transaction that sent it is committed."""
    b = HistoryBuilder()
    b.send(process=0, key=0, value=5, offset=0)
    b.send(process=0, key=0, value=6, offset=2)
    b.txn(process=3, steps=[Send(0, 7, 1, "ok")], type="info" if twice else "ok")
    if twice:
        b.txn(process=4, steps=[Send(0, 7)])
    b.poll(process=1, records=[(0, 0, 5)])
    b.poll(process=1, records=[(0, 2, 6)])
    return b


def test_a_value_sent_twice_was_not_skipped(tmp_path: Path) -> None:
    once = judged(tmp_path / "once", skipped(twice=False))
    assert "poll-skip" in [each.anomaly for each in once.findings if each.fatal]
    twice = judged(tmp_path / "twice", skipped(twice=True))
    assert twice.verdict is Verdict.UNKNOWN
    assert not any(each.fatal for each in twice.findings)


def went_back(at: tuple[int, int]) -> HistoryBuilder:
    """Process 1 reads 6, then 5; the second poll takes place ``at`` this time, the first at (100, 200)."""
    b = HistoryBuilder()
    b.send(process=0, key=0, value=5, offset=0, at=(1, 2))
    b.send(process=0, key=0, value=6, offset=1, at=(3, 4))
    b.poll(process=1, records=[(0, 1, 6)], at=(100, 200))
    b.poll(process=1, records=[(0, 0, 5)], at=at)
    return b


def test_two_operations_in_flight_have_no_order(tmp_path: Path) -> None:
    assert judged(tmp_path / "after", went_back((300, 400))).verdict is Verdict.INVALID
    found = judged(tmp_path / "beside", went_back((150, 250)))
    assert found.verdict is Verdict.UNKNOWN
    assert [(each.anomaly, each.fatal) for each in found.findings] == [("nonmonotonic-poll", False)]
    b = went_back((150, 250))
    b.poll(process=2, records=[(0, 1, 6)])
    b.poll(process=2, records=[(0, 0, 5)])
    other = judged(tmp_path / "other", b)
    assert other.verdict is Verdict.INVALID
    assert [(each.count, each.fatal_count) for each in other.findings] == [(2, 1)]


@pytest.mark.parametrize(("second", "verdict"), [((300, 400), Verdict.INVALID), ((150, 250), Verdict.UNKNOWN)])
def test_who_reads_twice_at_once_passed_over_nothing(tmp_path: Path, second: tuple[int, int], verdict: Verdict) -> None:
    b = HistoryBuilder()
    b.send(process=0, key=0, value=5, offset=0, at=(1, 2))
    b.send(process=0, key=0, value=6, offset=1, at=(3, 4))
    b.send(process=0, key=0, value=7, offset=2, at=(5, 6))
    b.poll(process=1, records=[(0, 0, 5)], at=(100, 200))
    b.poll(process=1, records=[(0, 2, 7)], at=second)
    assert judged(tmp_path / "h", b).verdict is verdict


def test_times_that_run_backwards_prove_no_order_in_time(tmp_path: Path) -> None:
    def overtaken() -> HistoryBuilder:
        b = HistoryBuilder()
        b.send(process=0, key=0, value=1, offset=5, at=(10, 20))
        b.send(process=1, key=0, value=2, offset=4, at=(30, 40))
        b.send(process=2, key=0, value=3, offset=6, at=(50, 60))
        b.scan_rest()
        return b

    def back(ops: Rows, mops: Rows) -> None:
        of(ops, process=2).update(complete_ns=45)
        of(mops, process=2).update(complete_ns=45)

    assert judged(tmp_path / "forward", overtaken()).verdict is Verdict.INVALID
    found = judged(tmp_path / "back", overtaken(), back)
    assert (found.verdict, [(each.anomaly, each.fatal) for each in found.findings]) == (
        Verdict.UNKNOWN, [("realtime-order", False)],
    )  # fmt: skip
    assert "1 operations complete before they were invoked" in found.reasons
    step = judged(tmp_path / "step", overtaken(), lambda _, mops: of(mops, process=2).update(complete_ns=45))
    assert (step.verdict, step.reasons) == (Verdict.UNKNOWN, ("1 steps complete before they were invoked",))


def test_what_was_expected_is_not_missing_from_broken_tables(tmp_path: Path) -> None:
    b = healthy()
    b.promise(expect=["lost-write"])
    assert judged(tmp_path / "whole", b).verdict is Verdict.INVALID
    found = judged(tmp_path / "broken", b, lambda ops, _: of(ops, f="txn").update(type="fail"))
    assert found.verdict is Verdict.UNKNOWN


def test_row_groups_follow_each_other() -> None:
    one, two = (0, (0, 0, 0), (5, 0, 1)), (1, (5, 0, 2), (9, 0, 0))
    assert unordered([two, one]) == 0
    assert unordered([one, (1, (5, 0, 1), (9, 0, 0))]) == 1
    assert unordered([one, (1, (4, 0, 2), (9, 0, 0))]) == 1


def test_parts_of_transactions() -> None:
    parts = {"value": np.array([1, 2, 3]), "fatal": np.array([1, 1, 0])}
    sure = Doubts(values=np.array([2])).parts(parts)
    assert {name: column.tolist() for name, column in sure.items()} == {"value": [1, 3], "fatal": [1, 0]}
    assert Doubts(everything=True).parts(parts)["fatal"].tolist() == [0, 0, 0]


def test_without_doubts_nothing_changes() -> None:
    found = Found("duplicate", np.array([True, False]), {"value": np.array([1, 2])})
    assert not Doubts()
    assert Doubts().weighed(found) is found
    assert Doubts(everything=True).weighed(found).fatal.tolist() == [False, False]
    assert Doubts(times=True).weighed(found).fatal.tolist() == [True, False]
    assert Doubts(values=np.array([1])).weighed(found).fatal.tolist() == [False, False]
    assert Doubts(values=np.array([0, 2])).weighed(found).fatal.tolist() == [True, False]


@pytest.mark.parametrize(
    ("anomaly", "on_order", "on_times"),
    [
        ("poll-skip", True, False),
        ("nonmonotonic-poll", True, False),
        ("nonmonotonic-send", True, False),
        ("int-nonmonotonic-send", False, False),
        ("realtime-order", False, True),
        ("early-read", False, True),
        ("lost-write", False, False),
    ],
)
def test_what_rests_on_the_order_of_a_process_and_on_times(anomaly: str, on_order: bool, on_times: bool) -> None:
    found = Found(anomaly, np.array([True, True]), {"value": np.array([1, 2]), "process": np.array([3, 4])})
    assert Doubts(processes=np.array([4])).weighed(found).fatal.tolist() == [True, not on_order]
    assert Doubts(times=True).weighed(found).fatal.tolist() == [not on_times] * 2


def test_the_other_value_of_a_case_counts_too() -> None:
    columns = {"value": np.array([1, 2]), "other_value": np.array([5, 6]), "process": np.array([0, 0])}
    found = Found("poll-skip", np.array([True, True]), columns)
    assert Doubts(values=np.array([6])).weighed(found).fatal.tolist() == [True, False]


def test_each_of_them_is_a_doubt() -> None:
    one = np.array([0])
    assert all((Doubts(everything=True), Doubts(times=True), Doubts(values=one), Doubts(processes=one)))


def test_who_is_among_some() -> None:
    some, nobody = np.array([2, 5]), np.array([], dtype=np.int64)
    assert among(some, np.array([1, 2, 3, 5, 6])).tolist() == [False, True, False, True, False]
    assert among(nobody, some).tolist() == [False, False]
    assert among(some, nobody).tolist() == []
