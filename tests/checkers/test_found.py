"""How cases travel: counts stand for all, the worst and earliest are shown."""

from __future__ import annotations

import numpy as np

from checkers.found import Found, Result, Row
from checkers.load import NONE


def found(fatal: list[bool], op: list[int]) -> Found:
    other = np.array([NONE if each % 2 else each for each in op], dtype=np.int64)
    return Found("lost-write", np.array(fatal, dtype=bool), {"op": np.array(op), "other_op": other})


def test_no_case_is_no_row() -> None:
    assert found([], []).rows(None) == []
    assert found([], []).rows(3) == []


def test_every_case_is_a_row() -> None:
    assert found([True, False], [2, 3]).rows(None) == [
        Row("lost-write", fatal=True, n=1, fatal_n=1, op=2, other_op=2),
        Row("lost-write", fatal=False, n=1, fatal_n=0, op=3, other_op=None),
    ]


def test_the_worst_and_earliest_stand_for_all() -> None:
    rows = found([False, True, False, True, True], [1, 9, 2, 7, 8]).rows(2)
    assert [(row.op, row.fatal, row.n, row.fatal_n) for row in rows] == [(7, True, 4, 2), (8, True, 1, 1)]


def test_after_the_fatal_ones_come_the_others() -> None:
    rows = found([False, True, False], [1, 9, 0]).rows(2)
    assert [(row.op, row.fatal, row.n, row.fatal_n) for row in rows] == [(9, True, 2, 1), (0, False, 1, 0)]


def test_fewer_cases_than_asked_for() -> None:
    rows = found([False, True], [1, 2]).rows(5)
    assert [(row.op, row.n, row.fatal_n) for row in rows] == [(2, 1, 1), (1, 1, 0)]


def test_what_partitions_report_is_added_up() -> None:
    one, two = Row("phantom", 1, 1, True), Row("unseen", 1, 0, False)
    together = Result([one], {"#lag:3": 4}, {7: 1, 8: 2})
    together.add(Result([two], {"#lag:3": 1, "#lag:4": 5}, {8: 3, 9: 4}))
    assert together == Result([one, two], {"#lag:3": 5, "#lag:4": 5}, {7: 1, 8: 5, 9: 4})


def test_where_row_groups_begin_and_end_is_kept_of_all() -> None:
    one, two = (0, (0, 0, 0), (4, 0, 0)), (1, (5, 0, 0), (9, 1, 0))
    together = Result(edges=[one])
    together.add(Result(edges=[two]))
    assert together.edges == [one, two]
