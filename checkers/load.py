"""From a sealed history to the rows that the checks share.

The design of the whole: one scan of ``mops`` makes *rows*, narrow and numeric; one exchange by key puts
all rows of a key on one task, and there they are kept (columnar, in memory while they fit and on disk
beyond); every per-key check is an aggregation or a window below that exchange, and needs no other.

Settings of producers and topics become literals of the plan rather than joins: there are few of them,
and a plan with few joins is what makes a small history quick.

A row's ``fate`` is what is known of its send by the definitions: outside transactions the status of
the step, inside them the type of the transaction, and *info* for every send with acks=0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.promises import PromiseOverride, Promises, one_of
from histories.meta import Meta
from histories.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OK, INFO, FAIL = 0, 1, 2
"""Codes of ``fate``."""

ROWS = """
    key, value, offset, process, op, mop, pos, invoke_ns, complete_ns, commit_ns,
    kind = 'send' AS sent,
    kind = 'poll' AS polled,
    kind NOT IN ('send', 'poll') AS boundary,
    f = 'txn' AS txn,
    type = 'ok' AS op_ok,
    phase = 'final' AS final,
    COALESCE(isolation = 'read_committed', false) AS committed_only,
    COALESCE(producer, -1) AS producer,
    worker,
    CAST(CASE WHEN kind <> 'send' THEN NULL
              WHEN acks_zero THEN 1
              WHEN f = 'txn' THEN CASE type WHEN 'ok' THEN 0 WHEN 'fail' THEN 2 ELSE 1 END
              WHEN status = 'ok' THEN 0 WHEN status = 'fail' THEN 2 ELSE 1 END AS tinyint) AS fate,
    COALESCE(kind = 'send' AND (status = 'ok' OR (acks_zero AND status <> 'fail')), false) AS delivered
"""


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
    promises: Promises
    keys: DataFrame
    """Settings and final scans of each key; the columns of KEYS."""
    unclean: str
    compacted: str
    """SQL conditions on ``key``."""
    void: bool


def open_history(spark: SparkSession, folder: Path, meta: Meta, override: PromiseOverride) -> History:
    def table(name: str) -> DataFrame:
        return spark.read.schema(_spark_schema(TABLES[name])).parquet(str(folder / name))

    keys = _key_table(folder, meta, override)
    return History(
        folder,
        meta,
        table("ops"),
        table("mops"),
        Promises.of(meta, override),
        spark.createDataFrame(pa.Table.from_pylist(keys, KEYS)),
        one_of("key", [row["key"] for row in keys if row["unclean"]]),
        one_of("key", [row["key"] for row in keys if row["compacted"]]),
        bool(override.void),
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
    for part in sorted((folder / "ops").glob("*.parquet")):
        footer = pq.read_metadata(part)
        column = footer.schema.names.index("f")
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(column).statistics
            if statistics is None or not statistics.has_min_max or statistics.max == "txn":
                return True
    return False


def rows(history: History) -> DataFrame:
    """The shared rows, exchanged by key and kept. Every per-key check starts from this very frame."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as fn

    flagged = history.mops.withColumn("acks_zero", fn.expr(history.promises.acks_zero))
    narrow = flagged.where("defect IS NULL AND (value IS NOT NULL OR kind NOT IN ('send', 'poll'))").selectExpr(
        *_columns()
    )
    cores = history.ops.sparkSession.sparkContext.defaultParallelism
    parts = max(cores, min(2000, history.meta.counts.get("mops", 0) // 500_000))
    return narrow.repartition(parts, "key").persist(StorageLevel.MEMORY_AND_DISK)


def _columns() -> list[str]:
    """The projections of ROWS, one by one; no projection has a comma at its top level but the first line."""
    columns: list[str] = []
    depth = 0
    current = ""
    for letter in ROWS:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            columns.append(current.strip())
            current = ""
        else:
            current += letter
    return [*columns, current.strip()]
