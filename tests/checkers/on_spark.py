"""Runs the Spark checkers over tables and gives their cases in the reference's terms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from checkers.judge import find
from checkers.load import has_transactions, open_history
from checkers.promises import PromiseOverride
from histories.meta import Meta
from tests.checkers.in_process import cases_of, write
from tests.checkers.reference import Cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge_on_spark(spark: SparkSession, folder: Path, tables: Mapping[str, pa.Table], meta: Meta) -> dict[str, Cases]:
    history = open_history(spark, folder, write(folder, tables, meta), PromiseOverride())
    return cases_of(case.asDict() for case in find(history, transactions=has_transactions(folder), most=None))
