"""Steps counted by second, outcome and latency, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.metrics import StepCount, decoded
from checkers.promises import PromiseOverride, Promises
from checkers.rows import Rows
from checkers.steps import step_counts
from histories.build import HistoryBuilder
from tests.checkers.in_process import collect
from tests.checkers.local import local_context

S = 10**9


def counted(folder: Path, b: HistoryBuilder) -> list[StepCount]:
    meta = b.write(folder)
    rows = collect(local_context(), folder, meta).rows
    columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
    return decoded(step_counts(Rows.of(columns, Promises.of(meta, PromiseOverride()))))


@pytest.mark.parametrize("late", [7, 7_000_000])
def test_every_second_and_outcome(tmp_path: Path, late: int) -> None:
    """Close together and far apart: two ways to count."""
    b = HistoryBuilder()
    b.send(0, 0, 1, 0, at=(5 * S, 5 * S + 2**20))
    b.send(0, 0, 2, 1, at=(5 * S + 2**21, 5 * S + 2**21 + 2**22))
    b.send(0, 0, 3, type="info", at=(6 * S, 6 * S + 1))
    b.send(1, 0, 4, type="fail", at=(late * S, late * S + 1))
    b.send(1, 0, 5, 2, at=((late + 1) * S - 1, None))
    b.poll(2, [(0, 0, 1), (0, 1, 2)], at=((late + 1) * S - 5, (late + 1) * S + 9))
    assert counted(tmp_path / "h", b) == [
        StepCount(5, "ok", 12 * 20, 1),
        StepCount(5, "ok", 12 * 22, 1),
        StepCount(6, "info", 0, 1),
        StepCount(late, "fail", 0, 1),
        StepCount(late, "ok", 119, 1),
        StepCount(late + 1, "polled", 0, 2),
    ]


def test_nothing_is_counted_of_nothing(tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.scan(0, [(0, 1)])
    assert counted(tmp_path / "h", b) == []


def test_the_longest_latencies_have_buckets_too() -> None:
    assert decoded({(5 << 12) | (1023 << 2) | 1: 2}) == [StepCount(5, "info", 1023, 2)]
