"""The table ``replicas``, by key and broker, and where two of its logs begin to differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from checkers.load import NONE
from checkers.rows import Ints, starts_of
from checkers.scan import numbers

_BATCH = ("offset", "last_offset", "leader_epoch", "digest")


@dataclass(frozen=True)
class Log:
    """One replica of a key; the columns have an entry for each batch, in the order of their offsets."""

    key: int
    broker: int
    log_start: int
    high_watermark: int
    columns: dict[str, Ints]

    def between(self, low: int, high: int) -> dict[str, Ints]:
        """The batches that hold something at or above ``low`` and begin below ``high``."""
        chosen = (self.columns["last_offset"] >= low) & (self.columns["offset"] < high)
        return {name: column[chosen] for name, column in self.columns.items()}


def replica_logs(folder: Path) -> list[Log]:
    """Of a history; in the order of keys, then brokers. Empty where nobody looked at the replicas."""
    if not (folder / "replicas").is_dir():
        return []
    table = pq.read_table(folder / "replicas")
    if not table.num_rows:
        return []
    columns = {name: numbers(table, name) for name in ("key", "broker", "log_start", "high_watermark", *_BATCH)}
    order = np.lexsort((columns["offset"], columns["broker"], columns["key"]))
    columns = {name: column[order] for name, column in columns.items()}
    starts = starts_of(columns["key"], columns["broker"])
    return [_log(columns, start, end) for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]


def _log(columns: dict[str, Ints], start: int, end: int) -> Log:
    whole = {name: column[start:end] for name, column in columns.items()}
    is_batch = whole["offset"] != NONE
    batches = {name: whole[name][is_batch] for name in _BATCH}
    key, broker, log_start, high_watermark = (
        int(whole[name][0]) for name in ("key", "broker", "log_start", "high_watermark")
    )
    return Log(key, broker, log_start, high_watermark, batches)


def common(one: Log, other: Log) -> range:
    """What both have committed and kept: from the larger log start up to the smaller high watermark."""
    return range(max(one.log_start, other.log_start), min(one.high_watermark, other.high_watermark))


def first_difference(one: Log, other: Log) -> int | None:
    """The lowest offset in common at which the logs differ."""
    low, high = common(one, other).start, common(one, other).stop
    if low >= high:
        return None
    mine, theirs = one.between(low, high), other.between(low, high)
    shorter = min(len(mine["offset"]), len(theirs["offset"]))
    same = np.ones(shorter, dtype=bool)
    for name in _BATCH:
        same &= mine[name][:shorter] == theirs[name][:shorter]
    different = np.flatnonzero(~same)
    if len(different):
        return max(low, min(int(each["offset"][different[0]]) for each in (mine, theirs)))
    for each in (mine, theirs):
        if len(each["offset"]) > shorter:
            return max(low, int(each["offset"][shorter]))
    return None


def batches_around(folder: Path, key: int, brokers: tuple[int, ...], offset: int) -> list[dict[str, Any]]:
    """What each of these brokers has at this offset of the key, as evidence: digests in hexadecimal."""
    chosen = (
        (ds.field("key") == key)
        & ds.field("broker").isin(list(brokers))
        & (ds.field("offset").is_null() | ((ds.field("offset") <= offset) & (ds.field("last_offset") >= offset)))
    )
    rows = ds.dataset(folder / "replicas", format="parquet").to_table(filter=chosen).to_pylist()
    for row in rows:
        if row["digest"] is not None:
            row["digest"] = f"{row['digest'] % 2**64:016x}"
    return [{"table": "replicas", **{name: each for name, each in row.items() if each is not None}} for row in rows]
