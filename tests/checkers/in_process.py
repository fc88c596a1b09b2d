"""Runs the per-key checks on collected rows in this process, as Spark runs them on a partition.

Spark makes the rows once; the checks may then be run on all of them, or on some keys alone, as often as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from checkers.load import NONE, History, has_transactions, open_history
from checkers.metrics import decoded
from checkers.narrow import NUMBERS, TEXT, narrowed
from checkers.partition import Checker
from checkers.pipeline import proved_transactions, stray_values
from checkers.promises import PromiseOverride
from checkers.rows import Ints
from checkers.scan import chunks, read
from checkers.values import torn
from histories.meta import Meta
from histories.writer import HistoryWriter
from tests.checkers.reference import ANOMALIES, Cases
from tests.checkers.strategies import IDENTITY

if TYPE_CHECKING:
    from pyspark import SparkContext

Row = dict[str, Any]


@dataclass(frozen=True)
class Collected:
    history: History
    transactions: bool
    rows: pa.Table
    """Of all partitions."""
    strays: Ints
    """Values whose key is unknown."""


def write(folder: Path, tables: Mapping[str, pa.Table], meta: Meta) -> Meta:
    with HistoryWriter(folder) as writer:
        for name, table in tables.items():
            writer.write(name, table)
        return writer.close(meta)


def collect(spark: SparkContext, folder: Path, meta: Meta, override: PromiseOverride | None = None) -> Collected:
    history = open_history(spark, folder, meta, override or PromiseOverride())
    transactions = has_transactions(folder)
    proved = (
        proved_transactions(history, 2, np.zeros(0, dtype=np.int64)) if transactions else np.zeros(0, dtype=np.int64)
    )
    row_groups = [table for chunk in chunks(folder, "mops") for _, table in read(chunk, NUMBERS, TEXT)]
    rows = pa.concat_tables(pa.table(narrowed(each, proved)) for each in row_groups)
    return Collected(history, transactions, rows, stray_values(history))


def check(collected: Collected) -> list[Row]:
    """Everything that the checks say of the rows, as one partition: cases, and by names with ``#`` the tallies, the
    counted steps and the parts of transactions."""
    run = Checker.of(collected.history, strays=collected.strays, most=None, transactions=collected.transactions)
    rows = collected.rows
    if not rows.num_rows:
        return []
    result, parts = run.check({name: rows.column(name).to_numpy() for name in rows.column_names})
    found = result.cases + (torn(parts).rows(None) if parts else [])
    tallies = [{"anomaly": name, "n": n, "key": None, "value": None} for name, n in result.tallies.items()]
    steps = [
        {"anomaly": f"#step:{each.outcome}", "n": each.n, "key": each.second, "value": each.bucket}
        for each in decoded(result.steps)
    ]
    return [row._asdict() for row in found] + tallies + steps + _parts(parts)


def _parts(columns: Mapping[str, Ints]) -> list[Row]:
    rows = pa.table(dict(columns)).to_pylist() if columns else []
    return [
        {
            **row,
            "anomaly": "#txn-missing" if row["missing"] else "#txn-present",
            "fatal": bool(row["fatal"]),
            "offset": None if row["offset"] == NONE else row["offset"],
        }
        for row in rows
    ]


def cases_of(found: Iterable[Row]) -> dict[str, Cases]:
    """In the reference's terms."""
    cases: dict[str, Cases] = {name: set() for name in ANOMALIES}
    for row in found:
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
