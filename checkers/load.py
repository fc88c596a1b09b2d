"""From a sealed history to the rows that the checks share.

The design of the whole: one scan of ``mops`` makes *rows*, narrow and numeric; one exchange by key puts
all rows of a key on one task; every per-key check is an aggregation or a window below that exchange.
The columns travel through the exchange inside one struct, so that each check asks for the very same
exchange and Spark runs it once (see :mod:`checkers.session`).

A row's ``fate`` is what is known of its send by the definitions: outside transactions the status of
the step, inside them the type of the transaction, and *info* for every send with acks=0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from checkers.promises import PromiseOverride, producer_table
from histories.meta import Meta

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


@dataclass(frozen=True)
class History:
    """A history as Spark sees it."""

    folder: Path
    meta: Meta
    ops: DataFrame
    mops: DataFrame
    producers: DataFrame
    """producer, safe, idempotent, single, acks_zero."""
    keys: DataFrame
    """key, unclean, exempt, compacted, raw_complete, raw_start, committed_complete, committed_start."""
    void: bool


def open_history(spark: SparkSession, folder: Path, meta: Meta, override: PromiseOverride) -> History:
    def table(name: str) -> DataFrame:
        return spark.read.parquet(str(folder / name))

    producers = spark.createDataFrame(
        producer_table(meta, override),
        "producer int, safe boolean, idempotent boolean, single boolean, acks_zero boolean",
    )
    keys = spark.createDataFrame(
        _key_table(folder, meta, override),
        "key int, unclean boolean, exempt boolean, compacted boolean, raw_complete boolean, raw_start long, "
        "committed_complete boolean, committed_start long",
    )
    return History(folder, meta, table("ops"), table("mops"), producers, keys, bool(override.void))


_KeyRow = tuple[int, bool, bool, bool, bool, int, bool, int]


def _key_table(folder: Path, meta: Meta, override: PromiseOverride) -> list[_KeyRow]:
    """Settings and final scans of each key; small, so the driver makes it."""
    complete: dict[tuple[int, str], int] = {}
    for row in pq.read_table(folder / "coverage").to_pylist():
        if row["complete"]:
            complete[(row["key"], row["isolation"])] = row["log_start"] or 0
    table: list[_KeyRow] = []
    for key, info in enumerate(meta.keys):
        topic = meta.topics[info.topic]
        unclean = topic.unclean_leader_election if override.unclean is None else override.unclean
        raw = complete.get((key, "read_uncommitted"))
        committed = complete.get((key, "read_committed"))
        compacted = "compact" in topic.cleanup_policy
        table.append(
            (
                key,
                unclean,
                info.deleted,
                compacted,
                raw is not None,
                raw or 0,
                committed is not None,
                committed or 0,
            )
        )
    return table


def rows(history: History) -> DataFrame:
    """The shared rows, exchanged by key. Every per-key check starts from this very frame."""
    from pyspark.sql import functions as fn

    acks_zero = history.producers.where("acks_zero").select(fn.col("producer"), fn.lit(True).alias("acks_zero"))
    zero = [row.producer for row in acks_zero.select("producer").collect()] if _has_acks_zero(history.meta) else []
    flagged = history.mops.withColumn("acks_zero", fn.coalesce(fn.col("producer").isin(zero), fn.lit(False)))
    narrow = flagged.where("defect IS NULL AND (value IS NOT NULL OR kind NOT IN ('send', 'poll'))").selectExpr(
        *_columns()
    )
    packed = narrow.select("key", fn.struct(*[name for name in narrow.columns if name != "key"]).alias("row"))
    return packed.repartition("key").select("key", "row.*")


def _has_acks_zero(meta: Meta) -> bool:
    return any(each.acks == 0 for each in meta.producers)


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
