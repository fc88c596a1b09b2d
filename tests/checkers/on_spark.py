"""Runs the Spark checkers over tables and gives their cases in the reference's terms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from checkers.load import has_transactions, open_history
from checkers.pipeline import checked
from checkers.promises import PromiseOverride
from histories.meta import Meta
from tests.checkers.in_process import cases_of, write
from tests.checkers.reference import Cases

if TYPE_CHECKING:
    from pyspark import SparkContext


def judge_on_spark(spark: SparkContext, folder: Path, tables: Mapping[str, pa.Table], meta: Meta) -> dict[str, Cases]:
    return cases_on_spark(spark, folder, write(folder, tables, meta), PromiseOverride())


def cases_on_spark(spark: SparkContext, folder: Path, meta: Meta, override: PromiseOverride) -> dict[str, Cases]:
    history = open_history(spark, folder, meta, override)
    result, _ = checked(history, transactions=has_transactions(folder), most=None)
    return cases_of(row._asdict() for row in result.cases)
