"""From a sealed history to the rows that the checks share.

One scan of ``mops`` makes *rows*, narrow and numeric; one exchange by key puts all rows of a key into one
partition; there :mod:`checkers.partition` runs every per-key check on them at once, vectorised. Spark scans,
filters, projects, exchanges and spills; numpy sorts and compares whole columns.

That split is measured, not guessed: the same checks as Spark windows and aggregations took three times
as long on two cores in a warm session. Its price is that the
rows of one key (about 80 bytes each) must fit into one worker's memory.

A row's ``fate`` is what is known of its send by the definitions: outside transactions the status of
the step, inside them the type of the transaction, and *info* for every send with acks=0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.promises import PromiseOverride
from histories.meta import Meta
from histories.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OK, INFO, FAIL = 0, 1, 2
"""Codes of ``fate``."""

FLAGS = {
    "sent": "kind = 'send'",
    "polled": "kind = 'poll' AND defect IS NULL",
    "boundary": "kind NOT IN ('send', 'poll')",
    "txn": "f = 'txn'",
    "op_ok": "type = 'ok'",
    "final": "phase = 'final'",
    "committed_only": "COALESCE(isolation = 'read_committed', false)",
    "defective": "defect IS NOT NULL",
    "refused": "COALESCE(status = 'fail', false)",
    "acked": "kind = 'send' AND COALESCE(status = 'ok', false) AND NOT (f = 'txn' AND type = 'fail') AND offset IS NOT NULL",
    "checksum": "COALESCE(defect = 'checksum', false)",
}
"""Booleans of a row, packed into the bits of ``flags`` in this order."""

FATE = """
    CASE WHEN kind <> 'send' THEN 3
         WHEN f = 'txn' THEN CASE type WHEN 'ok' THEN 0 WHEN 'fail' THEN 2 ELSE 1 END
         WHEN status = 'ok' THEN 0 WHEN status = 'fail' THEN 2 ELSE 1 END
"""
NONE = -(2**63)
"""Stands for null in the columns of numbers."""


KEYS = pa.schema(
    [
        pa.field("key", pa.int32(), False),
        pa.field("unclean", pa.bool_(), False),
        pa.field("exempt", pa.bool_(), False),
        pa.field("compacted", pa.bool_(), False),
        pa.field("raw_complete", pa.bool_(), False),
        pa.field("raw_start", pa.int64(), False),
        pa.field("committed_complete", pa.bool_(), False),
        pa.field("committed_start", pa.int64(), False),
    ]
)


@dataclass(frozen=True)
class History:
    """A history as Spark sees it."""

    folder: Path
    meta: Meta
    ops: DataFrame
    mops: DataFrame
    keys: pa.Table
    """Settings and final scans of each key; the columns of KEYS."""
    override: PromiseOverride


def open_history(spark: SparkSession, folder: Path, meta: Meta, override: PromiseOverride) -> History:
    def table(name: str) -> DataFrame:
        return spark.read.schema(_spark_schema(TABLES[name])).parquet(str(folder / name))

    keys = _key_table(folder, meta, override)
    return History(
        folder,
        meta,
        table("ops"),
        table("mops"),
        pa.Table.from_pylist(keys, KEYS),
        override,
    )


_SPARK_TYPES = {"int32": "int", "int64": "long", "bool": "boolean", "list<element: int32>": "array<int>"}


def _spark_schema(schema: pa.Schema) -> str:
    """The schema as Spark says it, so that reading starts no job to infer it."""
    return ", ".join(f"`{each.name}` {_SPARK_TYPES.get(str(each.type), 'string')}" for each in schema)


def _key_table(folder: Path, meta: Meta, override: PromiseOverride) -> list[dict[str, Any]]:
    """Settings and final scans of each key; small, so the driver makes it."""
    complete: dict[tuple[int, str], int] = {}
    for row in pq.read_table(folder / "coverage").to_pylist():
        if row["complete"]:
            complete[(row["key"], row["isolation"])] = row["log_start"] or 0
    table: list[dict[str, Any]] = []
    for key, info in enumerate(meta.keys):
        topic = meta.topics[info.topic]
        raw = complete.get((key, "read_uncommitted"))
        committed = complete.get((key, "read_committed"))
        table.append(
            {
                "key": key,
                "unclean": topic.unclean_leader_election if override.unclean is None else override.unclean,
                "exempt": info.deleted,
                "compacted": "compact" in topic.cleanup_policy,
                "raw_complete": raw is not None,
                "raw_start": raw or 0,
                "committed_complete": committed is not None,
                "committed_start": committed or 0,
            }
        )
    return table


def has_transactions(folder: Path) -> bool:
    """Whether any operation is a transaction. ``txn`` is the last of all names of ``f``, so the
    largest one in the files' statistics tells."""
    return any(statistics is None or statistics.max == "txn" for statistics in _statistics(folder / "ops", "f"))


def stray_values(history: History) -> list[int]:
    """Values of sends that were open when their topic was deleted, so that their key is unknown."""
    if all(each is not None and each.min >= 0 for each in _statistics(history.folder / "mops", "key")):
        return []
    found = history.mops.where("kind = 'send' AND key < 0 AND value IS NOT NULL").select("value").collect()
    return [row.value for row in found]


def _statistics(table: Path, column: str) -> Iterator[pq.Statistics | None]:
    """Least and greatest of a column, from the files' footers; None where they do not say."""
    for part in sorted(table.glob("*.parquet")):
        footer = pq.read_metadata(part)
        index = footer.schema.names.index(column)
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(index).statistics
            yield statistics if statistics is not None and statistics.has_min_max else None


def rows(history: History, *, transactions: bool) -> DataFrame:
    """The shared rows, exchanged by key."""
    from pyspark.sql import functions as fn

    flags = " | ".join(f"(CASE WHEN {sql} THEN {1 << bit} ELSE 0 END)" for bit, sql in enumerate(FLAGS.values()))
    sparse = {name: f"COALESCE({name}, {NONE}L) AS {name}" for name in ("offset", "value", "complete_ns", "commit_ns")}
    narrow = history.mops.selectExpr(
        "key", "op", "process", "invoke_ns", "worker", sparse["offset"], sparse["value"], sparse["complete_ns"],
        sparse["commit_ns"] if transactions else f"{NONE}L AS commit_ns",
        "COALESCE(producer, -1) AS producer", "CAST(mop AS long) * 4294967296L + pos AS step",
        f"{flags} AS flags", f"CAST({FATE} AS int) AS fate",
    )  # fmt: skip
    if transactions:
        narrow = _settled(history, narrow)
    cores = history.ops.sparkSession.sparkContext.defaultParallelism
    parts = max(cores, min(2000, history.meta.counts.get("mops", 0) // 700_000))
    return narrow.repartition(parts, fn.col("key"))


def _settled(history: History, narrow: DataFrame) -> DataFrame:
    """Give the sends of unknown transactions that a read_committed reader saw the fate *ok*."""
    from pyspark.sql import functions as fn

    unknown = history.mops.where("kind = 'send' AND f = 'txn' AND type = 'info'").select("key", "value", "op")
    seen = history.mops.where("kind = 'poll' AND isolation = 'read_committed' AND defect IS NULL").select(
        "key", "value"
    )
    proved = unknown.join(seen, ["key", "value"], "left_semi").select(fn.col("op").alias("proved_op")).distinct()
    joined = narrow.join(fn.broadcast(proved), fn.expr("fate = 1 AND op = proved_op"), "left")
    return joined.withColumn("fate", fn.expr("CASE WHEN proved_op IS NOT NULL THEN 0 ELSE fate END")).drop("proved_op")
