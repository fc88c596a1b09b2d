"""The first pass of sealing: where each operation's frames are, and in which order operations began.

One row per operation goes to an index file on disk (a memory map, which the kernel may drop and load
again), so an operation that completes hours after its invocation, or never, costs its row and no buffer.
A worker's rows are then sorted in runs of bounded size, and ``merged`` merges the runs of all workers into
one order: by invocation, ties by worker, then by the worker's own count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from histories import journal_format as layout
from histories.errors import HistoryError
from histories.journal_format import NULL, Frame
from histories.journal_reader import Bytes, Chunk, Header, JournalReader, Places

RUN_ROWS: Final = 262_144
MERGE_ROWS: Final = 32_768
MIN_BLOCK_ROWS: Final = 1024

ROW: Final = np.dtype(
    [
        ("invoke_ns", "<i8"),
        ("op", "<i8"),
        ("invoke_at", "<i8"),
        ("complete_at", "<i8"),  # 0: open; byte 0 of a journal is its header
        ("commit_ns", "<i8"),
        ("invoke_length", "<u4"),
        ("complete_length", "<u4"),
        ("process", "<i4"),
        ("journal", "<i4"),
    ]
)
Rows = NDArray[Any]


@dataclass
class JournalIndex:
    """What the first pass learns of one journal."""

    path: Path
    number: int
    """Its place among the journals of the run, which are sorted by worker."""
    header: Header
    rows: Rows
    runs: list[tuple[int, int]]
    processes: NDArray[np.int32]
    torn_bytes: int
    texts: list[str] = field(default_factory=list)
    """Text number n is at n - 1."""
    events: list[dict[str, Any]] = field(default_factory=list)
    coverage: list[dict[str, Any]] = field(default_factory=list)
    replicas: list[tuple[int, int]] = field(default_factory=list)
    """Where the frames of replicas' logs begin, and how long they are."""


def index_journal(reader: JournalReader, number: int, index_path: Path) -> JournalIndex:
    assert reader.header is not None
    index = JournalIndex(reader.path, number, reader.header, np.empty(0, ROW), [], np.empty(0, np.int32), torn_bytes=0)
    index_path.write_bytes(b"")
    count = 0
    for chunk in reader.chunks():
        fresh = _invocations(reader.path, chunk, number, count)
        if len(fresh):
            with index_path.open("ab") as file:
                file.write(fresh.tobytes())
        before, count = count, count + len(fresh)
        # An empty file cannot be mapped; a completion before any invocation is refused all the same.
        rows = np.memmap(index_path, ROW, "r+") if count else np.empty(0, ROW)
        _note_completions(reader.path, chunk, rows, before)
        _note_commits(reader.path, chunk, rows, before)
        _note_rare(reader.path, chunk, index)
    index.torn_bytes = reader.torn_bytes
    if count:
        index.rows = np.memmap(index_path, ROW, "r+")
        index.processes = _one_at_a_time(reader.path, index.rows)
        index.runs = _sort_runs(index.rows)
    return index


def heads(data: Bytes, places: Places, kind: np.dtype[Any]) -> NDArray[Any]:
    """The fixed fields of frames that begin at these places, as one structured array."""
    words = data[: len(data) // 8 * 8].view("<i8")
    picked = words[(places // 8)[:, None] + np.arange(kind.itemsize // 8)]
    head: NDArray[Any] = picked.view(kind)[:, 0]
    return head


def _invocations(path: Path, chunk: Chunk, number: int, count: int) -> Rows:
    which = chunk.of(Frame.INVOKE)
    head = heads(chunk.data, chunk.places[which], layout.INVOKE_DTYPE)
    rows = np.zeros(len(which), ROW)
    rows["invoke_ns"], rows["op"], rows["process"] = head["invoke_ns"], head["op"], head["process"]
    rows["invoke_at"] = chunk.file_offset + chunk.places[which]
    rows["invoke_length"] = head["length"]
    rows["commit_ns"] = NULL
    rows["journal"] = number
    wrong = np.flatnonzero(rows["op"] != np.arange(count, count + len(rows)))
    if len(wrong):
        row = rows[wrong[0]]
        raise HistoryError(
            f"{path}: byte {row['invoke_at']}: operation {row['op']} where {count + wrong[0]} is next; "
            "the file is not one worker's journal"
        )
    return rows


def _completed_ops(
    path: Path, chunk: Chunk, frame: Frame, kind: np.dtype[Any], before: int, what: str
) -> tuple[Places, NDArray[Any]]:
    """File offsets and fields of the frames that refer to operations, each of which must have begun."""
    which = chunk.of(frame)
    head = heads(chunk.data, chunk.places[which], kind)
    at = chunk.file_offset + chunk.places[which]
    begun = before + np.searchsorted(chunk.of(Frame.INVOKE), which)
    unknown = np.flatnonzero((head["op"] < 0) | (head["op"] >= begun))
    if len(unknown):
        first = unknown[0]
        raise HistoryError(f"{path}: byte {at[first]}: {what} of unknown operation {head['op'][first]}")
    return at, head


def _note_completions(path: Path, chunk: Chunk, rows: Rows, before: int) -> None:
    at, head = _completed_ops(path, chunk, Frame.COMPLETE, layout.COMPLETE_DTYPE, before, "completion")
    ops = head["op"]
    again = rows["complete_at"][ops] != 0
    first_of_each = np.unique(ops, return_index=True)[1]
    if len(first_of_each) != len(ops):
        repeated = np.ones(len(ops), np.bool_)
        repeated[first_of_each] = False
        again |= repeated
    if again.any():
        first = np.flatnonzero(again)[0]
        raise HistoryError(f"{path}: byte {at[first]}: operation {ops[first]} completes a second time")
    rows["complete_at"][ops] = at
    rows["complete_length"][ops] = head["length"]


def _note_commits(path: Path, chunk: Chunk, rows: Rows, before: int) -> None:
    _, head = _completed_ops(path, chunk, Frame.COMMIT_REQUESTED, layout.COMMIT_REQUESTED_DTYPE, before, "commit")
    rows["commit_ns"][head["op"]] = head["commit_ns"]


def _note_rare(path: Path, chunk: Chunk, index: JournalIndex) -> None:
    for number in chunk.of(Frame.TEXT):
        start = int(chunk.places[number])
        frame = chunk.data[start : start + int(chunk.lengths[number])].tobytes()
        _, _, _, text_number, size = layout.TEXT.unpack_from(frame, layout.BODY_AT)
        if text_number != len(index.texts) + 1:
            at = chunk.file_offset + start
            raise HistoryError(f"{path}: byte {at}: text {text_number} where {len(index.texts) + 1} is next")
        begin = layout.BODY_AT + layout.TEXT.size
        index.texts.append(frame[begin : begin + size].decode())
    index.events.extend(chunk.document(int(number)) for number in chunk.of(Frame.EVENT))
    index.replicas.extend(
        (chunk.file_offset + int(chunk.places[number]), int(chunk.lengths[number]))
        for number in chunk.of(Frame.REPLICA)
    )
    index.coverage.extend(chunk.document(int(number)) for number in chunk.of(Frame.COVERAGE))


def _one_at_a_time(path: Path, rows: Rows) -> NDArray[np.int32]:
    """Refuse a process that begins an operation while one is open. Returns the processes seen."""
    last: Rows = np.empty(0, ROW)
    for start in range(0, len(rows), RUN_ROWS):
        window = np.concatenate([last, rows[start : start + RUN_ROWS]])
        window = window[np.argsort(window["process"], kind="stable")]
        earlier, later = window[:-1], window[1:]
        same = earlier["process"] == later["process"]
        still_open = (earlier["complete_at"] == 0) | (earlier["complete_at"] > later["invoke_at"])
        wrong = np.flatnonzero(same & still_open)
        if len(wrong):
            worst = wrong[np.argmin(later["invoke_at"][wrong])]
            row = later[worst]
            raise HistoryError(
                f"{path}: byte {row['invoke_at']}: process {row['process']} begins operation {row['op']} "
                f"while its operation {earlier['op'][worst]} is open; a process does one at a time"
            )
        last = window[np.append(~same, True)]
    return np.ascontiguousarray(last["process"])


def _sort_runs(rows: Rows) -> list[tuple[int, int]]:
    """Sort in place by invocation, piece by piece; pieces that follow each other in time are one run."""
    runs: list[tuple[int, int]] = []
    for start in range(0, len(rows), RUN_ROWS):
        stop = min(start + RUN_ROWS, len(rows))
        times = rows["invoke_ns"][start:stop]
        if (times[1:] < times[:-1]).any():
            rows[start:stop] = rows[start:stop][np.argsort(times, kind="stable")]
        if runs and rows["invoke_ns"][start - 1] <= rows["invoke_ns"][start]:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return runs


def merged(indexes: Sequence[JournalIndex]) -> Iterator[Rows]:
    """All operations in the order of the history, in batches."""
    runs = [(index.rows, start, stop) for index in indexes for start, stop in index.runs]
    share = max(MERGE_ROWS // max(len(runs), 1), MIN_BLOCK_ROWS)
    size = share
    while runs:
        blocks = [rows[at : min(at + size, stop)] for rows, at, stop in runs]
        # Everything before the earliest end of a block that has more behind it is complete.
        ends = [
            int(block["invoke_ns"][-1])
            for block, (_, at, stop) in zip(blocks, runs, strict=True)
            if at + len(block) < stop
        ]
        if ends:
            taken = [int(np.searchsorted(block["invoke_ns"], min(ends), side="left")) for block in blocks]
        else:
            taken = [len(block) for block in blocks]
        if not any(taken):
            # A block of one single instant: ties can only be ordered when all of them are in sight.
            size *= 2
            continue
        size = share
        batch = np.concatenate([block[:count] for block, count in zip(blocks, taken, strict=True)])
        yield batch[np.lexsort((batch["op"], batch["journal"], batch["invoke_ns"]))]
        runs = [
            (rows, at + count, stop) for (rows, at, stop), count in zip(runs, taken, strict=True) if at + count < stop
        ]
