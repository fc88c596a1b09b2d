"""What the checks take for granted: counted in each row group and partition, judged from the sums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from checkers.agreement import BACKWARDS
from checkers.assumptions import Operations, broken_assumptions, doubts_of, overlapping, resent
from checkers.found import Result
from checkers.load import NONE
from histories.schema import OPS

Op = tuple[int, int, int, int | None]
"""Its number, process, invocation and completion."""


def table(*ops: Op, kind: str = "send:ok") -> pa.Table:
    f, outcome = kind.split(":")
    rows = [
        {"op": op, "process": process, "invoke_ns": start, "complete_ns": end, "f": f, "type": outcome}
        for op, process, start, end in ops
    ]
    schema = pa.schema([OPS.field(name) for name in ("op", "process", "invoke_ns", "complete_ns", "f", "type")])
    return pa.Table.from_pylist(rows, schema)


def counted(*ops: Op, kind: str = "send:ok") -> Operations:
    return Operations.of(table(*ops, kind=kind))[0]


def overlaps(*ops: Op) -> int:
    return overlapping(Operations.of(table(*ops))[1]).tallies["#overlapping"]


FINE = ((0, 1, 10, 20), (2, 1, 20, 30), (1, 2, 15, 60))


def test_nothing_is_counted_of_nothing() -> None:
    assert counted() == Operations()
    assert (Operations().last_ns, Operations().backwards, Operations().total) == (0, 0, 0)
    assert Operations().dense
    assert overlaps() == 0


def test_one_after_the_other_is_fine() -> None:
    found = counted(*FINE)
    assert found == Operations({("send", "ok"): 3}, [(0, 2, 3)], 60, 0)
    assert (found.total, found.dense, overlaps(*FINE)) == (3, True, 0)


def test_outcomes_by_name() -> None:
    found = counted((0, 1, 10, 20), kind="txn:info")
    found.add(counted((1, 1, 10, 20), (2, 1, 10, 20), kind="txn:fail"))
    found.add(counted((3, 1, 10, 20), kind="poll:ok"))
    assert found.outcomes == {"poll": {"ok": 1}, "txn": {"fail": 2, "info": 1}}
    assert list(found.outcomes) == ["poll", "txn"]
    assert list(found.outcomes["txn"]) == ["fail", "info"]


def test_a_process_that_begins_before_its_last_operation_ended() -> None:
    assert overlaps((0, 1, 10, 21), (1, 1, 20, 30)) == 1
    assert overlaps((1, 1, 20, 30), (0, 1, 10, 21)) == 1, "sorted by number, not as they come"
    assert overlaps((0, 1, 10, 21), (1, 2, 20, 30)) == 0


def test_operations_are_taken_by_process_and_number_in_whatever_order_they_come() -> None:
    assert overlaps((1, 1, 20, 30), (0, 1, 10, 15)) == 0
    assert overlaps((0, 1, 10, 21), (1, 2, 15, 16), (2, 1, 20, 30)) == 1


def test_a_process_that_goes_on_after_an_operation_that_never_ended() -> None:
    assert overlaps((0, 1, 10, None), (1, 1, 20, 30)) == 1
    assert overlaps((0, 1, 10, 15), (1, 1, 20, None)) == 0
    assert overlaps((0, 1, 10, None), (1, 2, 20, None)) == 0


def test_an_operation_that_ends_before_it_began() -> None:
    assert counted((0, 1, 10, 9)).backwards == 1
    assert counted((0, 1, 10, 10)).backwards == 0
    assert counted((0, 1, 10, None)).backwards == 0


def test_the_last_moment() -> None:
    found = counted((4, 1, 10, 20), (4, 2, 10, 30), (7, 3, 90, None))
    assert found.last_ns == 90
    assert counted((0, 1, 10, 95), (1, 2, 90, None)).last_ns == 95
    found.add(counted((8, 1, 10, 20)))
    assert found.last_ns == 90


def test_pieces_are_added_up_in_any_order() -> None:
    one, two = counted((0, 1, 10, 9), (1, 1, 20, 30)), counted((2, 1, 40, 50), (3, 1, 60, 5))
    found = Operations()
    found.add(two)
    found.add(one)
    assert (found.total, found.backwards, found.last_ns, found.dense) == (4, 2, 60, True)


@pytest.mark.parametrize(
    "numbers",
    [
        [(1, 2, 3)],
        [(-1, 0, 1)],
        [(0, 1, 3)],
        [(0, 0, 1)],
        [(0, 1), (3, 4)],
        [(0, 1), (1, 2)],
        [(0, 1), (0, 1)],
        [(0, 1, 1), (2, 3)],
        [(0, 1, 1), (3,)],
        [(0, 2, 2)],
    ],
)
def test_numbers_that_are_not_dense(numbers: list[tuple[int, ...]]) -> None:
    found = Operations()
    for piece in numbers:
        found.add(counted(*((op, number, 10, 20) for number, op in enumerate(piece))))
    assert not found.dense
    total, lowest, highest = sum(map(len, numbers)), min(map(min, numbers)), max(map(max, numbers))
    assert broken_assumptions(found, Result()) == [
        f"operations are not numbered densely from 0: {total} rows, {lowest} to {highest}"
    ]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 1, 2), (0, 2, 3)),
        ((2, 1, 0), (0, 2, 3)),
        ((1, 2, 2), (1, 2, 2)),
        ((4, 3, 4, 3), (3, 4, 2)),
        ((7,), (7, 7, 1)),
    ],
)
def test_lowest_highest_and_how_many_different_ones(numbers: tuple[int, ...], expected: tuple[int, int, int]) -> None:
    assert counted(*((number, 1, 10, 20) for number in numbers)).ranges == [expected]


def test_values_that_occur_again() -> None:
    found = resent(np.array([7, 5, 9, 5, 7, 7]))
    assert found.resent == (5, 2)
    assert [each.tolist() for each in found.resent_values] == [[5, 7]]
    assert resent(np.array([7, 5, 9])) == Result()
    assert resent(np.zeros(0, dtype=np.int64)) == Result()
    together = Result(resent=(7, 3))
    together.add(Result(resent=(5, 2)))
    together.add(Result())
    assert together.resent == (5, 2)


def test_what_holds_is_not_mentioned() -> None:
    assert broken_assumptions(counted(*FINE), Result(tallies={"#missing-of-sent": 3, "#overlapping": 0})) == []
    assert broken_assumptions(Operations(), Result()) == [], "an empty history breaks nothing"


def test_times_that_do_not_fit() -> None:
    assert broken_assumptions(counted((0, 1, 10, 9)), Result()) == ["1 operations complete before they were invoked"]
    assert broken_assumptions(counted(*FINE), Result(tallies={"#overlapping": 2})) == [
        "2 operations began while another of the same process was open"
    ]


def test_values_that_are_not_unique() -> None:
    assert broken_assumptions(counted(*FINE), Result(tallies={"#value-sent-twice": 2}, resent=(5, 2))) == [
        "2 values were sent more than once to one key: values must be unique"
    ]
    assert broken_assumptions(counted(*FINE), Result(resent=(5, 2))) == [
        "value 5 was sent 2 times: values must be unique within a run"
    ]


def test_columns_go_on_by_process() -> None:
    columns = Operations.of(table((0, 3, 10, None)))[1]
    assert {name: column.tolist() for name, column in columns.items()} == {
        "op": [0], "process": [3], "invoke_ns": [10], "complete_ns": [NONE],
    }  # fmt: skip


def test_row_groups_that_overlap_count_as_steps_out_of_order() -> None:
    edges = [(0, (0, 0, 0), (5, 0, 0)), (1, (5, 0, 0), (9, 0, 0))]
    assert broken_assumptions(counted(*FINE), Result(tallies={"#twice": 1}, edges=edges)) == [
        "ops and mops contradict each other: 2 steps are not in the order of op, mop and pos, or there twice"
    ]


def test_steps_whose_times_do_not_fit_are_told_where_no_operation_s_are_wrong() -> None:
    found = Result(tallies={BACKWARDS: 3})
    assert broken_assumptions(counted(*FINE), found) == ["3 steps complete before they were invoked"]
    assert broken_assumptions(counted((0, 1, 10, 9)), found) == ["1 operations complete before they were invoked"]


def test_what_holds_is_in_no_doubt() -> None:
    assert not doubts_of(counted(*FINE), Result())


@pytest.mark.parametrize(
    ("operations", "found", "everything", "times"),
    [
        (counted((1, 1, 10, 20)), Result(), True, False),
        (counted(*FINE), Result(tallies={"#lonely": 1}), True, False),
        (counted((0, 1, 10, 9)), Result(), False, True),
        (counted(*FINE), Result(tallies={BACKWARDS: 1}), False, True),
        (counted(*FINE), Result(tallies={"#value-sent-twice": 1, "#overlapping": 1}), False, False),
    ],
)
def test_what_is_in_doubt(operations: Operations, found: Result, everything: bool, times: bool) -> None:
    doubts = doubts_of(operations, found)
    assert (doubts.everything, doubts.times) == (everything, times)


def test_values_and_processes_of_all_partitions_are_in_doubt() -> None:
    doubts = doubts_of(
        counted(*FINE),
        Result(resent_values=[np.array([5, 7]), np.array([2])], overlapping=[np.array([9]), np.array([1, 9])]),
    )
    assert (doubts.values.tolist(), doubts.processes.tolist()) == ([2, 5, 7], [1, 9])


def test_who_overlaps_is_named() -> None:
    columns = Operations.of(table((0, 3, 10, 21), (1, 3, 20, 30), (2, 1, 5, 9), (3, 2, 5, None), (4, 2, 6, 7)))[1]
    found = overlapping(columns)
    assert (found.tallies, [each.tolist() for each in found.overlapping]) == ({"#overlapping": 2}, [[2, 3]])
    assert overlapping(Operations.of(table(*FINE))[1]).overlapping == []
