"""Runs the per-key checks on collected rows in this process, as Spark runs them on a partition.

Spark makes the rows once; the checks may then be run on all of them, or on some keys alone, as often as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.load import History, has_transactions, open_history
from checkers.load import rows as rows_of
from checkers.partition import checker
from checkers.promises import PromiseOverride
from histories.meta import Meta
from histories.writer import HistoryWriter
from tests.checkers.reference import ANOMALIES, Cases
from tests.checkers.strategies import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


@dataclass(frozen=True)
class Collected:
    history: History
    transactions: bool
    rows: pa.Table
    """Of all partitions."""

    def of_keys(self, keys: Iterable[int]) -> pa.Table:
        """As a partition that got no other keys; sends without a known key go everywhere here."""
        return self.rows.filter(pc.is_in(self.rows.column("key"), pa.array([*keys, -1], pa.int32())))


def write(folder: Path, tables: Mapping[str, pa.Table], meta: Meta) -> Meta:
    with HistoryWriter(folder) as writer:
        for name, table in tables.items():
            writer.write(name, table)
        return writer.close(meta)


def collect(spark: SparkSession, folder: Path, meta: Meta, override: PromiseOverride | None = None) -> Collected:
    history = open_history(spark, folder, meta, override or PromiseOverride())
    transactions = has_transactions(folder)
    return Collected(history, transactions, rows_of(history, transactions=transactions).toArrow())


def check(collected: Collected, parts: Iterable[pa.Table]) -> list[list[Row]]:
    """Everything that the checks say of the rows of each partition."""
    run = checker(collected.history, most=None, transactions=collected.transactions)
    return [[row for batch in run(iter(rows.to_batches())) for row in batch.to_pylist()] for rows in parts]


def cases_of(found: Iterable[Row]) -> dict[str, Cases]:
    """In the reference's terms. What is torn Spark finds from all partitions' parts; here from these rows."""
    rows = list(found)
    cases: dict[str, Cases] = {name: set() for name in ANOMALIES}
    for row in [*rows, *_torn(rows)]:
        if row["anomaly"] in cases:
            identity, fatal = identity_of(row), row["fatal"]
            assert (identity, fatal) not in cases[row["anomaly"]], f"reported twice: {row}"
            cases[row["anomaly"]].add((identity, fatal))
    return cases


def identity_of(row: Row) -> tuple[int | None, ...]:
    places = dict(row)
    if row["step"] is not None:
        places["mop"], places["pos"] = divmod(row["step"], 2**32)
    return tuple(places[name] for name in IDENTITY[row["anomaly"]])


def _torn(rows: list[Row]) -> list[Row]:
    present = {row["op"] for row in rows if row["anomaly"] == "#txn-present"}
    missing = [row for row in rows if row["anomaly"] == "#txn-missing" and row["op"] in present]
    fatal = {row["op"] for row in missing if row["fatal"]}
    return [
        {"anomaly": "torn-transaction", "op": op, "step": None, "fatal": op in fatal}
        for op in sorted({row["op"] for row in missing})
    ]
