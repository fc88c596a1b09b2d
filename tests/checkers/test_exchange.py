"""Columns survive the way between workers, whatever their values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.exchange import Packed, gathered, scattered
from checkers.load import NONE

near = st.integers(-(2**31), 2**31) | st.sampled_from([0, 1, 254, 255, 256, 65534, 65535, 65536, 2**32 - 1, 2**32])
far = st.integers(-(2**62), 2**62)
columns = st.lists(near | far | st.just(NONE), min_size=1, max_size=30) | st.lists(near, min_size=1, max_size=30)


@given(columns)
def test_a_column_comes_out_as_it_went_in(values: list[int]) -> None:
    column = np.array(values, dtype=np.int64)
    out = np.empty_like(column)
    Packed.of(column).unpack_into(out)
    assert out.tolist() == values


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ([5, 5, 5], 0),
        ([NONE, NONE], 0),
        ([7, 7 + 254], 1),
        ([7, 7 + 255], 2),
        ([7, 7 + 2**20], 4),
        ([NONE, 2**40], 1),
        ([0, 2**40], 8),
    ],
)
def test_a_column_is_as_narrow_as_it_can_be(values: list[int], size: int) -> None:
    packed = Packed.of(np.array(values, dtype=np.int64))
    assert (packed.above.itemsize if len(packed.above) else 0) == size


@given(st.lists(st.tuples(st.integers(0, 4), near | st.just(NONE)), max_size=60), st.integers(1, 20))
def test_rows_reach_their_partition_in_order(rows: list[tuple[int, int]], size: int) -> None:
    pieces = []
    for start in range(0, len(rows), size):
        key, value = (np.array(column, dtype=np.int64) for column in zip(*rows[start : start + size], strict=True))
        pieces += list(scattered("steps", start, {"key": key, "value": value}, key % 3, 3))
    for part in range(3):
        mine = [pickle.loads(pickle.dumps(piece)) for number, piece in reversed(pieces) if number == part]
        found = gathered(mine, ("key", "value"))
        there = list(zip(found["key"].tolist(), found["value"].tolist(), strict=True))
        assert there == [row for row in rows if row[0] % 3 == part]
