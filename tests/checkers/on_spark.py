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
from histories.writer import HistoryWriter
from tests.checkers.reference import ANOMALIES, Cases
from tests.checkers.strategies import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge_on_spark(spark: SparkSession, folder: Path, tables: Mapping[str, pa.Table], meta: Meta) -> dict[str, Cases]:
    with HistoryWriter(folder) as writer:
        for name, table in tables.items():
            writer.write(name, table)
        sealed = writer.close(meta)
    history = open_history(spark, folder, sealed, PromiseOverride())
    found: dict[str, Cases] = {name: set() for name in ANOMALIES}
    for case in find(history, transactions=has_transactions(folder), most=None):
        row = case.asDict()
        if row["anomaly"] in found:
            if row["step"] is not None:
                row["mop"], row["pos"] = divmod(row["step"], 2**32)
            identity = tuple(row[name] for name in IDENTITY[row["anomaly"]])
            assert (identity, row["fatal"]) not in found[row["anomaly"]], f"reported twice: {row}"
            found[row["anomaly"]].add((identity, row["fatal"]))
    return found
