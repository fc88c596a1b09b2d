"""The Spark checkers say of random histories and of the smallest ones exactly what the reference says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkers.on_spark import judge_on_spark
from tests.checkers.reference import ANOMALIES, Cases, Identity
from tests.checkers.strategies import Generated, case_of, generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = 1000
SHOWN = 5

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_thousand_random_histories_in_one_job(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    drawn = generate(seed, CASES)
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
