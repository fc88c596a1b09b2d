"""Sealing: the journals of all workers become one history, sorted, paired, in bounded memory.

Two passes. The first (``seal_index``) notes where the frames of each operation lie and sorts operations by
their invocation; the second (``seal_rows``) fetches the frames in that order and makes rows of them. So
memory holds a batch at a time, whatever the size of the history and however long an operation stays open;
only events and scans, of which a run has thousands and not millions, are held as a whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from histories.errors import HistoryError
from histories.journal_format import SUFFIX
from histories.journal_reader import JournalReader
from histories.meta import Meta
from histories.recorded import CoverageRow, RecordedEvent
from histories.schema import COVERAGE, EVENTS
from histories.seal_index import JournalIndex, Rows, index_journal, merged
from histories.seal_replicas import replica_tables
from histories.seal_rows import Journals, batch_tables
from histories.store import Run
from histories.writer import HistoryWriter

BATCH_BYTES: Final = 8 * 1024 * 1024


def seal(
    journal_dir: Path,
    out: Path,
    meta: Meta,
    coverage: Iterable[CoverageRow] = (),
    events: Iterable[RecordedEvent] = (),
) -> Meta:
    """Write the history of a run to the folder ``out``. Returns its meta, as stored there."""
    readers = _readers(journal_dir, meta)
    with HistoryWriter(out) as writer, ExitStack() as cleanup:
        scratch = out / ".sealing"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        cleanup.callback(shutil.rmtree, scratch, ignore_errors=True)
        indexes = [index_journal(reader, number, scratch / f"{number}.index") for number, reader in enumerate(readers)]
        _refuse_shared_processes(indexes)
        journals = _open(indexes, cleanup)
        first_op = 0
        for rows in merged(indexes):
            for piece in _pieces(rows):
                ops, mops = batch_tables(journals, piece, first_op)
                writer.write("ops", ops)
                writer.write("mops", mops)
                first_op += len(piece)
        writer.write("coverage", _coverage(indexes, coverage))
        writer.write("events", _events(indexes, events))
        for table in replica_tables(journals):
            writer.write("replicas", table)
        return writer.close(meta)


def seal_leftover(run_folder: Path) -> Meta:
    """Seal the journal that a run left behind when it died. A run that is sealed already stays as it is."""
    run = Run(run_folder.name, run_folder)
    if run.sealed:
        return Meta.read(run.history / "meta.json")
    if run.running:
        raise HistoryError(f"{run_folder}: still running (process {run.running}); wait for its end")
    if not run.meta.exists():
        raise HistoryError(f"{run_folder}: no meta.json, so this is not the folder of a run")
    meta = replace(Meta.read(run.meta), interrupted=True)
    try:
        run.claim()  # so that two do not seal it at once
        try:
            sealed = seal(run.journal, run.history, meta)
        finally:
            run.release()
    except OSError as error:
        raise HistoryError(
            f"{run_folder}: cannot be sealed: {error.strerror or error}; make room, and check it again"
        ) from None
    # The brokers' data, which the run would have deleted. The journal stays: it is all the dead have left.
    shutil.rmtree(run_folder / "data", ignore_errors=True)
    return sealed


def _readers(journal_dir: Path, meta: Meta) -> list[JournalReader]:
    """The journals of a run in the order of their workers, without those that died before they began."""
    paths = sorted(journal_dir.glob(f"*{SUFFIX}"))
    if not paths:
        raise HistoryError(f"{journal_dir}: no journal (*{SUFFIX}) in it; the run recorded nothing")
    begun = []
    for path in paths:
        reader = JournalReader(path)
        if reader.header is None:
            continue
        if reader.header.run_id != meta.run_id:
            raise HistoryError(
                f"{path}: the journal of run {reader.header.run_id!r}, not of {meta.run_id!r}; "
                "move it out of this folder"
            )
        begun.append((reader.header.worker, path.name, reader))
    return [reader for _, _, reader in sorted(begun, key=lambda each: each[:2])]


def _refuse_shared_processes(indexes: list[JournalIndex]) -> None:
    for place, index in enumerate(indexes):
        for other in indexes[:place]:
            shared = np.intersect1d(index.processes, other.processes)
            if len(shared):
                raise HistoryError(
                    f"{index.path}: process {shared[0]} is also in {other.path.name}; a process belongs to one worker"
                )


def _open(indexes: list[JournalIndex], cleanup: ExitStack) -> Journals:
    files = []
    for index in indexes:
        file = os.open(index.path, os.O_RDONLY | os.O_CLOEXEC)
        cleanup.callback(os.close, file)
        files.append(file)
    places: dict[str, int] = {}
    text_maps = [np.array([-1, *(places.setdefault(text, len(places)) for text in index.texts)]) for index in indexes]
    workers = np.array([index.header.worker for index in indexes], np.int32)
    return Journals(files, indexes, workers, text_maps, list(places))


def _pieces(rows: Rows) -> Iterator[Rows]:
    """Cut a batch so that the frames of each piece fit into memory, be it one operation at a time."""
    sizes = rows["invoke_length"].astype(np.int64) + rows["complete_length"]
    until = np.cumsum(sizes)
    start = 0
    while start < len(rows):
        taken = int(until[start - 1]) if start else 0
        stop = max(int(np.searchsorted(until, taken + BATCH_BYTES, side="right")), start + 1)
        yield rows[start:stop]
        start = stop


def _coverage(indexes: list[JournalIndex], more: Iterable[CoverageRow]) -> pa.Table:
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for row in [*(row for index in indexes for row in index.coverage), *map(asdict, more)]:
        key = (row["key"], str(row["isolation"]))
        row = {**row, "isolation": key[1]}
        if rows.setdefault(key, row) != row:
            raise HistoryError(f"coverage of key {key[0]}, {key[1]}, is told twice, differently; a key is scanned once")
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=COVERAGE)


def _events(indexes: list[JournalIndex], more: Iterable[RecordedEvent]) -> pa.Table:
    rows = [row for index in indexes for row in index.events]
    rows.extend(map(asdict, more))
    for row in rows:
        if row["time_ns"] is None:
            raise HistoryError(f"event {row['kind']!r} has no time; it is stamped when emitted")
    rows.sort(key=lambda row: row["time_ns"])
    return pa.Table.from_pylist(rows, schema=EVENTS)
