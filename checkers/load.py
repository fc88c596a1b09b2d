"""What a check is given: the history's folder, its settings, and the codes that its rows are written in.

One scan of ``mops`` makes *rows*, narrow and numeric (:mod:`checkers.narrow`); one exchange by key puts all rows of
a key into one partition; there :mod:`checkers.partition` runs every per-key check on them at once, vectorised.
Spark distributes, exchanges and spills whole columns (:mod:`checkers.pipeline`); numpy sorts and compares them.

The price is that the rows of one key (about 100 bytes each) must fit into one worker's memory.
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

if TYPE_CHECKING:
    from pyspark import SparkContext

OK, INFO, FAIL = 0, 1, 2
"""Codes of ``fate``."""

FLAGS = (
    "sent", "polled", "boundary", "txn", "op_ok", "final", "committed_only", "defective", "refused", "acked", "checksum",
)  # fmt: skip
"""Booleans of a row, packed into the bits of ``flags`` in this order."""

NONE = -(2**63)
"""Stands for null in the columns of numbers."""


KEYS = pa.schema(
    {
        "unclean": pa.bool_(),
        "exempt": pa.bool_(),
        "compacted": pa.bool_(),
        "raw_complete": pa.bool_(),
        "raw_start": pa.int64(),
        "committed_complete": pa.bool_(),
        "committed_start": pa.int64(),
    }
)


@dataclass(frozen=True)
class History:
    """A history, and the Spark that checks it."""

    spark: SparkContext
    folder: Path
    meta: Meta
    keys: pa.Table
    """Settings and final scans of each key; the columns of KEYS."""
    override: PromiseOverride


def open_history(spark: SparkContext, folder: Path, meta: Meta, override: PromiseOverride) -> History:
    return History(spark, folder, meta, pa.Table.from_pylist(_key_table(folder, meta, override), KEYS), override)


def _key_table(folder: Path, meta: Meta, override: PromiseOverride) -> list[dict[str, Any]]:
    """Settings and final scans of each key; small, so the driver makes it."""
    complete: dict[tuple[int, str], int] = {}
    for row in pq.read_table(folder / "coverage").to_pylist():
        if row["complete"]:
            complete[(row["key"], row["isolation"])] = row["log_start"] or 0
    table: list[dict[str, Any]] = []
    for key, info in enumerate(meta.keys):
        topic = meta.topics[info.topic]
        raw, committed = (key, "read_uncommitted"), (key, "read_committed")
        table.append(
            {
                "unclean": topic.unclean_leader_election if override.unclean is None else override.unclean,
                "exempt": info.deleted,
                "compacted": "compact" in topic.cleanup_policy,
                "raw_complete": raw in complete,
                "raw_start": complete.get(raw, 0),
                "committed_complete": committed in complete,
                "committed_start": complete.get(committed, 0),
            }
        )
    return table


def has_transactions(folder: Path) -> bool:
    """Whether any operation is a transaction. ``txn`` is the last of all names of ``f``, so the
    largest one in the files' statistics tells."""
    return any(statistics is None or statistics.max == "txn" for statistics in _statistics(folder / "ops", "f"))


def has_strays(folder: Path) -> bool:
    """Whether any step may have an unknown key."""
    return any(statistics is None or statistics.min < 0 for statistics in _statistics(folder / "mops", "key"))


def _statistics(table: Path, column: str) -> Iterator[pq.Statistics | None]:
    """Least and greatest of a column, from the files' footers; None where they do not say."""
    for part in sorted(table.glob("*.parquet")):
        footer = pq.read_metadata(part)
        index = footer.schema.names.index(column)
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(index).statistics
            yield statistics if statistics is not None and statistics.has_min_max else None
