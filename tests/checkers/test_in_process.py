"""The per-key checks on collected rows: every smallest history alone in its partition, and other promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkers.exhibits import VARIANTS, Exhibit, smallest_exhibit, variant_exhibit
from tests.checkers.in_process import check, collect

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


def test_each_smallest_history_alone_in_its_partition(spark: SparkContext, tmp_path: Path) -> None:
    _compare(spark, smallest_exhibit(tmp_path / "smallest"))


@pytest.mark.parametrize("name", VARIANTS)
def test_under_other_promises(spark: SparkContext, tmp_path: Path, name: str) -> None:
    _compare(spark, variant_exhibit(tmp_path, name))


def _compare(spark: SparkContext, exhibit: Exhibit) -> None:
    collected = collect(spark, exhibit.folder, exhibit.meta, exhibit.override)
    parts = [collected.of_keys(keys) for keys in exhibit.parts] or [collected.rows]
    lines = list(exhibit.differences(check(collected, parts)))
    assert not lines, f"{len(lines)} differences, the first:\n" + "\n".join(lines[:5])
