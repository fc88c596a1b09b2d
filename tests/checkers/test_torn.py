"""Torn transactions, told from parts that come from several partitions in any order."""

from __future__ import annotations

import numpy as np

from checkers.values import torn

Part = tuple[int, int, int, int, int]
"""Operation, key, value, whether it is missing, and whether that breaks a promise."""


def cases(*parts: Part) -> list[tuple[int | None, int | None, int | None, bool]]:
    names = ("op", "key", "value", "missing", "fatal")
    columns = {name: np.array([part[at] for part in parts], dtype=np.int64) for at, name in enumerate(names)}
    columns |= {"process": columns["op"] + 100, "offset": columns["value"] + 10}
    rows = torn(columns).rows(None)
    assert all(row.op is not None and row.process == row.op + 100 for row in rows)
    assert all(row.value is not None and row.offset == row.value + 10 for row in rows)
    return [(row.op, row.key, row.value, row.fatal) for row in rows]


def test_the_missing_part_of_the_lowest_key_and_value_is_shown() -> None:
    assert cases((7, 0, 1, 0, 1), (7, 2, 3, 1, 1), (7, 1, 9, 1, 1), (7, 1, 8, 1, 1)) == [(7, 1, 8, True)]
    assert cases((7, 1, 8, 1, 1), (7, 1, 9, 1, 1), (7, 2, 3, 1, 1), (7, 0, 1, 0, 1)) == [(7, 1, 8, True)]
    assert cases((7, 2, 1, 1, 1), (7, 1, 2, 1, 1), (7, 0, 3, 0, 1)) == [(7, 1, 2, True)]


def test_whole_and_lost_transactions_are_not_torn() -> None:
    assert cases((1, 0, 1, 0, 1), (2, 0, 2, 1, 1), (1, 1, 3, 0, 1), (2, 1, 4, 1, 1)) == []
    assert cases() == []


def test_only_a_missing_part_breaks_a_promise() -> None:
    assert cases((1, 0, 1, 0, 1), (1, 1, 2, 1, 0)) == [(1, 1, 2, False)]
    assert cases((1, 0, 1, 0, 1), (1, 1, 2, 1, 0), (1, 2, 3, 1, 1)) == [(1, 1, 2, True)]
