"""The counts of all partitions put together, and values sent twice, as Spark finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkers.assumptions import Operations, broken_assumptions
from checkers.found import Result
from checkers.load import open_history
from checkers.pipeline import checked
from checkers.promises import PromiseOverride
from histories.build import HistoryBuilder

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


def found(spark: SparkContext, folder: Path, b: HistoryBuilder) -> tuple[Result, Operations]:
    history = open_history(spark, folder, b.write(folder), PromiseOverride())
    return checked(history, transactions=False, most=None)


def test_operations_of_many_processes(spark: SparkContext, tmp_path: Path) -> None:
    b = HistoryBuilder()
    for process in range(20):
        b.send(process, 0, process, process, at=(10 * process, 10 * process + 9))
    for process in range(5):
        b.poll(100 + process, [(0, 0, 0)], type="info", at=(500 + process, None))
    b.send(200, 0, 50, 50, at=(600, 601))
    result, operations = found(spark, tmp_path / "h", b)
    assert operations.outcomes == {"poll": {"info": 5}, "send": {"ok": 21}}
    assert (operations.total, operations.ranges, operations.dense) == (26, [(0, 25, 26)], True)
    assert (operations.last_ns, operations.backwards) == (601, 0)
    assert result.tallies["#overlapping"] == 0


def test_overlaps_of_all_partitions(spark: SparkContext, tmp_path: Path) -> None:
    b = HistoryBuilder()
    for process in range(6):
        b.send(process, 0, 2 * process, 2 * process, at=(10 * process, 10 * process + 500))
        b.send(process, 0, 2 * process + 1, 2 * process + 1, at=(100 + 10 * process, 100 + 10 * process + 9))
    result, _ = found(spark, tmp_path / "h", b)
    assert result.tallies["#overlapping"] == 6


def test_values_are_unique_across_keys(spark: SparkContext, tmp_path: Path) -> None:
    b = HistoryBuilder()
    b.send(0, 0, 7, 0)
    b.send(0, 1, 8, 0)
    b.poll(1, [(0, 0, 7), (1, 0, 8)])
    b.poll(2, [(0, 1, None), (0, 2, None)], defect="checksum")
    assert _values(spark, tmp_path / "fine", b) == []
    b.send(0, 1, 7, 1)
    assert _values(spark, tmp_path / "twice", b) == ["value 7 was sent 2 times: values must be unique within a run"]
    b.send(0, 1, 8, 2)
    assert _values(spark, tmp_path / "there", b) == [
        "1 values were sent more than once to one key: values must be unique"
    ]


def _values(spark: SparkContext, folder: Path, b: HistoryBuilder) -> list[str]:
    result, operations = found(spark, folder, b)
    return [each for each in broken_assumptions(operations, result) if "unique" in each]
