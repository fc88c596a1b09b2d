"""The Spark checkers say of random histories and of the smallest ones exactly what the reference says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from histories.build import HistoryBuilder
from tests.checkers.differences import differences
from tests.checkers.exhibits import without_transactions
from tests.checkers.merged import merged
from tests.checkers.on_spark import judge_on_spark
from tests.checkers.reference import judge
from tests.checkers.rows import History
from tests.checkers.smallest import GUILTY, INNOCENT, Writer
from tests.checkers.strategies import Generated, generate

if TYPE_CHECKING:
    from pyspark import SparkContext

CASES = 1000
SHOWN = 5

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_thousand_random_histories_in_one_job(spark: SparkContext, tmp_path: Path, seed: int) -> None:
    drawn = generate(seed, CASES)
    _compare(spark, tmp_path, drawn)


def test_histories_without_transactions(spark: SparkContext, tmp_path: Path) -> None:
    """The checkers leave out the settling of transactions where there are none."""
    _compare(spark, tmp_path, without_transactions(CASES))


def test_the_smallest_histories(spark: SparkContext, tmp_path: Path) -> None:
    history = merged([_built(each.write) for each in GUILTY] + [_built(each.write) for each in INNOCENT])
    expected = judge(history)
    assert all(expected.values())
    assert judge_on_spark(spark, tmp_path / "history", history.tables(), history.meta) == expected


def _built(write: Writer) -> History:
    builder = HistoryBuilder()
    write(builder)
    return History.of(builder.tables(), builder.meta())


def _compare(spark: SparkContext, tmp_path: Path, drawn: Generated) -> None:
    found = judge_on_spark(spark, tmp_path / "history", drawn.plain_tables(), drawn.meta)
    lines = differences(drawn, found)
    assert not lines, f"{len(lines)} differences, the first:\n" + "\n".join(lines[:SHOWN])
