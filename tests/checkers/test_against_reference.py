"""The Spark checkers say of random histories and of the smallest ones exactly what the reference says."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from histories.build import HistoryBuilder
from tests.checkers.merged import merged
from tests.checkers.on_spark import judge_on_spark
from tests.checkers.reference import ANOMALIES, Cases, Identity, judge
from tests.checkers.rows import History
from tests.checkers.smallest import GUILTY, INNOCENT, Writer
from tests.checkers.strategies import Generated, case_of, draw, generate, union

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = 1000
SHOWN = 5

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_thousand_random_histories_in_one_job(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    drawn = generate(seed, CASES)
    _compare(spark, tmp_path, drawn)


def test_histories_without_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """The checkers leave out the settling of transactions where there are none."""
    all_drawn = (draw(Random(f"plain/{number}")) for number in range(100 * CASES))
    plain = (each for each in all_drawn if all(op.f != "txn" for op in each.ops))
    _compare(spark, tmp_path, union(list(islice(plain, CASES))))


def test_the_smallest_histories(spark: SparkSession, tmp_path: Path) -> None:
    history = merged([_built(each.write) for each in GUILTY] + [_built(each.write) for each in INNOCENT])
    expected = judge(history)
    assert all(expected.values())
    assert judge_on_spark(spark, tmp_path / "history", history.tables(), history.meta) == expected


def _built(write: Writer) -> History:
    builder = HistoryBuilder()
    write(builder)
    return History.of(builder.tables(), builder.meta())


def _compare(spark: SparkSession, tmp_path: Path, drawn: Generated) -> None:
    found = judge_on_spark(spark, tmp_path / "history", drawn.plain_tables(), drawn.meta)
    differences = list(_differences(drawn, found))
    assert not differences, f"{len(differences)} differences, the first:\n" + "\n".join(differences[:SHOWN])


def _differences(drawn: Generated, found: dict[str, Cases]) -> list[str]:
    """One line per case that one of the two did not find, or judged to be of another weight."""
    lines: list[str] = []
    for name in ANOMALIES:
        ours: set[tuple[int, Identity, bool]] = {
            (case, identity, fatal)
            for case, expected in enumerate(drawn.expected)
            for identity, fatal in expected[name]
        }
        theirs = {(*case_of(name, identity), fatal) for identity, fatal in found[name]}
        for who, only in (("reference", ours - theirs), ("spark", theirs - ours)):
            lines += [
                f"{name}: only {who}: case {case}: {identity}, fatal {fatal}"
                for case, identity, fatal in sorted(only, key=str)
            ]
    return lines
