"""From the frames of replicas' logs to the rows of ``replicas``, a frame at a time: a long run has very many batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from histories import journal_format as layout
from histories.schema import REPLICAS
from histories.seal_rows import Journals


def replica_tables(journals: Journals) -> Iterator[pa.Table]:
    for file, index in zip(journals.files, journals.indexes, strict=True):
        for at, length in _whole(file, index.replicas):
            yield _table(os.pread(file, length, at))


def _whole(file: int, frames: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The frames of logs whose last one is there. Half a log, of a recorder that was killed in the middle of it, would look
    like one that has lost the rest."""
    begun: list[tuple[int, int]] = []
    for at, length in frames:
        begun.append((at, length))
        *_, to_come = layout.REPLICA.unpack(os.pread(file, layout.REPLICA.size, at + layout.BODY_AT))
        if not to_come:
            yield from begun
            begun = []


def _table(frame: bytes) -> pa.Table:
    _, _, _, broker, key, log_start, high_watermark, count, _ = layout.REPLICA.unpack_from(frame, layout.BODY_AT)
    whole = {"broker": broker, "key": key, "log_start": log_start, "high_watermark": high_watermark}
    if not count:
        return pa.Table.from_pylist([whole], schema=REPLICAS)
    columns: dict[str, pa.Array] = {}
    at = layout.BODY_AT + layout.REPLICA.size
    for name, kind in layout.REPLICA_COLUMNS:
        column = np.frombuffer(frame, kind, count, at)
        columns[name] = pa.array(column)
        at += column.nbytes
    for name, value in whole.items():
        columns[name] = pa.repeat(pa.scalar(value, REPLICAS.field(name).type), count)
    return pa.table({name: columns[name] for name in REPLICAS.names}, schema=REPLICAS)
