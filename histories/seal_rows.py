"""The second pass of sealing: from the frames of some operations to the rows of ``ops`` and ``mops``.

Everything here works on whole columns. The frames of a batch are read into one buffer; their steps are
taken out column by column; the steps of a completion are paired with those of its invocation by kind and
by place among that kind (the third send with the third send). What the completion does not say of a send is
unknown: its status is info and it never came back. Steps that only the completion knows, such as polled
records, are rows of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from histories import journal_format as layout
from histories.errors import HistoryError
from histories.journal_format import NULL, NULL_INT32
from histories.journal_reader import Bytes, Places
from histories.schema import MOPS, OPS, Kind, Outcome
from histories.seal_index import JournalIndex, Rows, heads

READ_GAP: Final = 4096
"""Frames at most so far apart are read together."""

_SEND: Final = layout.KIND_CODES.index(Kind.SEND)
_POLL: Final = layout.KIND_CODES.index(Kind.POLL)
_INFO: Final = layout.OUTCOME_CODES.index(Outcome.INFO)
# What the steps of an operation are when nothing else is said: those of a poll are polled records.
_KIND_OF_F: Final = np.array(
    [layout.KIND_CODES.index(Kind(f)) if f in set(map(str, Kind)) else _SEND for f in map(str, layout.F_CODES)],
    np.uint8,
)

Column = NDArray[Any]
Columns = dict[str, Column]


@dataclass(frozen=True)
class Journals:
    """The open journals of a run, with what all batches share."""

    files: Sequence[int]
    indexes: Sequence[JournalIndex]
    workers: NDArray[np.int32]
    text_maps: Sequence[NDArray[np.int64]]
    """By journal: from the number of a text there to its place in ``texts``; null is -1."""
    texts: Sequence[str]


def batch_tables(journals: Journals, rows: Rows, first_op: int) -> tuple[pa.Table, pa.Table]:
    """The rows of ``ops`` and of ``mops`` for operations in the order of the history."""
    data, invoke_at, complete_at = _read_frames(journals, rows)
    invoked = heads(data, invoke_at, layout.INVOKE_DTYPE)
    done = np.flatnonzero(rows["complete_at"])
    completed = heads(data, complete_at[done], layout.COMPLETE_DTYPE)
    ops = _operations(journals, rows, invoked, done, completed, first_op)
    asked = _steps(data, invoke_at, invoked, np.arange(len(rows)), layout.INVOKE_DTYPE.itemsize, invoked["code"])
    told = _steps(data, complete_at[done], completed, done, layout.COMPLETE_DTYPE.itemsize, invoked["code"][done])
    steps = _paired(journals, rows, asked, told)
    return _ops_table(journals, ops), _mops_table(ops, steps)


def _read_frames(journals: Journals, rows: Rows) -> tuple[Bytes, Places, Places]:
    """One buffer with all frames of these operations, and where they begin in it (open ones: nowhere)."""
    at = np.concatenate([rows["invoke_at"], rows["complete_at"]])
    length = np.concatenate([rows["invoke_length"], rows["complete_length"]]).astype(np.int64)
    journal = np.concatenate([rows["journal"], rows["journal"]])
    places = np.zeros(len(at), np.int64)
    pieces: list[bytes] = []
    filled = 0
    for number in np.unique(journal):
        which = np.flatnonzero((journal == number) & (at > 0))
        which = which[np.argsort(at[which])]
        start, end = at[which], at[which] + length[which]
        breaks = np.flatnonzero(start[1:] - end[:-1] > READ_GAP) + 1
        firsts, lasts = np.append(0, breaks), np.append(breaks, len(which)) - 1
        range_start, range_size = start[firsts], end[lasts] - start[firsts]
        for offset, size in zip(range_start.tolist(), range_size.tolist(), strict=True):
            piece = os.pread(journals.files[number], size, offset)
            if len(piece) != size:
                raise HistoryError(f"{journals.indexes[number].path}: became shorter while it was sealed")
            pieces.append(piece)
        range_place = filled + np.append(0, np.cumsum(range_size)[:-1])
        places[which] = start + np.repeat(range_place - range_start, lasts - firsts + 1)
        filled += int(range_size.sum())
    data = np.frombuffer(b"".join(pieces), np.uint8)
    return data, places[: len(rows)], places[len(rows) :]


def _operations(
    journals: Journals, rows: Rows, invoked: Column, done: Places, completed: Column, first_op: int
) -> Columns:
    count = len(rows)
    outcome = np.full(count, _INFO, np.uint8)
    complete_ns = np.full(count, NULL)
    commit_ns = rows["commit_ns"].copy()
    error = np.full(count, -1)
    outcome[done] = completed["code"]
    complete_ns[done] = completed["complete_ns"]
    commit_ns[done] = np.where(completed["commit_ns"] == NULL, commit_ns[done], completed["commit_ns"])
    txn_id = np.full(count, -1)
    for number in np.unique(rows["journal"]):
        text_map = journals.text_maps[number]
        here = np.flatnonzero(rows["journal"] == number)
        txn_id[here] = text_map[invoked["txn_id"][here]]
        ended_here = np.flatnonzero(rows["journal"][done] == number)
        error[done[ended_here]] = text_map[completed["error"][ended_here]]
    return {
        "op": np.arange(first_op, first_op + count),
        "process": rows["process"],
        "worker": journals.workers[rows["journal"]],
        "instance": invoked["instance"],
        "f": invoked["code"],
        "type": outcome,
        "invoke_ns": rows["invoke_ns"],
        "complete_ns": complete_ns,
        "commit_ns": commit_ns,
        "phase": invoked["phase"],
        "isolation": invoked["isolation"].astype(np.int32) - 1,
        "acks": invoked["acks"],
        "producer": invoked["producer"],
        "txn_id": txn_id,
        "error": error,
    }


def _steps(data: Bytes, at: Places, head: Column, owner: Places, fixed: int, f: Column) -> Columns:
    """The steps of these frames, with ``owner``: the place of their operation in the batch."""
    counts = head["steps"].astype(np.int64)
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    within = np.arange(total) - np.repeat(first, counts)
    kinds = np.repeat(_KIND_OF_F[f], counts)
    columns: Columns = {
        "owner": np.repeat(owner, counts),
        "kind": kinds,
        "status": np.zeros(total, np.uint8),
        "defect": np.zeros(total, np.uint8),
        "key": np.full(total, NULL_INT32, np.int32),
        "mop": np.zeros(total, np.int32),
        "pos": np.zeros(total, np.int32),
        **{name: np.full(total, NULL) for name in ("value", "offset", "invoke_ns", "complete_ns")},
    }
    placed = np.zeros(total, np.bool_)
    for mask in np.unique(head["columns"][counts > 0]):
        frames = np.flatnonzero((head["columns"] == mask) & (counts > 0))
        size = counts[frames]
        steps = np.repeat(first[frames], size) + (inside := _counted(size))
        column_at = at[frames] + fixed
        for name, code in layout.COLUMNS:
            if not mask & layout.BIT[name]:
                continue
            kind = layout.NUMPY_TYPE[code]
            # Wide columns come first, so every column is aligned to its own width.
            items = data[: len(data) // 8 * 8].view(kind)
            columns[name][steps] = items[np.repeat(column_at // kind.itemsize, size) + inside]
            column_at = column_at + size * kind.itemsize
        if mask & layout.BIT["mop"]:
            placed[steps] = True
    polled = columns["kind"] == _POLL
    columns["mop"] = np.where(placed, columns["mop"], np.where(polled, 0, within)).astype(np.int32)
    columns["pos"] = np.where(placed, columns["pos"], np.where(polled, within, 0)).astype(np.int32)
    return columns


def _counted(sizes: Places) -> Places:
    """0, 1, 2 ... anew for each size."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _paired(journals: Journals, rows: Rows, asked: Columns, told: Columns) -> Columns:
    """One row per step: what was asked for, with what was told of it, and what was only told."""
    code, other = _pairing_code(asked), _pairing_code(told)
    order = np.argsort(code, kind="stable")
    found = np.searchsorted(code, other, sorter=order)
    partner = order[np.minimum(found, max(len(order) - 1, 0))] if len(order) else np.zeros(len(other), int)
    known = (found < len(order)) & (code[partner] == other) if len(order) else np.zeros(len(other), np.bool_)
    pairs, from_told = partner[known], np.flatnonzero(known)
    _refuse_contradictions(journals, rows, asked, told, pairs, from_told, ~known)
    for name in ("offset", "invoke_ns", "complete_ns"):
        given = told[name][from_told]
        asked[name][pairs] = np.where(given == NULL, asked[name][pairs], given)
    asked["status"][pairs] = told["status"][from_told]
    asked["defect"][pairs] = told["defect"][from_told]
    deleted = told["key"][from_told] == -1
    asked["key"][pairs[deleted]] = -1
    was_told = np.zeros(len(asked["owner"]), np.bool_)
    was_told[pairs] = True
    asked["told"] = was_told
    told["told"] = np.ones(len(known), np.bool_)
    alone = np.flatnonzero(~known)
    steps = {name: np.concatenate([asked[name], told[name][alone]]) for name in asked}
    owner, mop, pos = steps["owner"], steps["mop"], steps["pos"]
    sorted_already = (owner[1:] > owner[:-1]) | (
        (owner[1:] == owner[:-1]) & ((mop[1:] > mop[:-1]) | ((mop[1:] == mop[:-1]) & (pos[1:] >= pos[:-1])))
    )
    if not sorted_already.all():
        order = np.lexsort((pos, mop, owner))
        steps = {name: column[order] for name, column in steps.items()}
    return steps


def _pairing_code(steps: Columns) -> Column:
    """A number that is the same for the n-th step of a kind in an operation, asked for or told."""
    group = steps["owner"] * len(layout.KIND_CODES) + steps["kind"]
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else order
    ordinal = np.empty(len(group), np.int64)
    ordinal[order] = _counted(np.diff(np.append(starts, len(group))))
    code: Column = (group << 32) + ordinal
    return code


def _refuse_contradictions(
    journals: Journals,
    rows: Rows,
    asked: Columns,
    told: Columns,
    pairs: Places,
    from_told: Places,
    alone: NDArray[np.bool_],
) -> None:
    """A completion that speaks of other sends than its invocation is a defect of the recording."""

    def refuse(step: int, what: str) -> None:
        row = rows[told["owner"][step]]
        raise HistoryError(
            f"{journals.indexes[row['journal']].path}: byte {row['complete_at']}: completion of operation "
            f"{row['op']} {what}"
        )

    unasked = np.flatnonzero(alone & (told["kind"] == _SEND))
    if len(unasked):
        refuse(int(unasked[0]), "tells of more sends than its invocation asked for")
    for name, silent in (("value", (NULL,)), ("key", (NULL_INT32, -1))):
        given = told[name][from_told]
        other = (given != asked[name][pairs]) & ~np.isin(given, silent)
        # A seek may be asked for without a value and end with one; a send never.
        other &= told["kind"][from_told] == _SEND
        if other.any():
            step = np.flatnonzero(other)[0]
            what = f"tells of {name} {given[step]} where {asked[name][pairs[step]]} was sent"
            refuse(int(from_told[step]), what)


def _ops_table(journals: Journals, ops: Columns) -> pa.Table:
    columns = dict(_repeated(ops))
    columns["op"] = pa.array(ops["op"])
    columns["instance"] = pa.array(ops["instance"])
    columns["invoke_ns"] = pa.array(ops["invoke_ns"])
    columns["complete_ns"] = _nullable(ops["complete_ns"], NULL)
    columns["acks"] = _nullable(ops["acks"], NULL_INT32)
    columns["txn_id"] = _texts(ops["txn_id"], journals.texts)
    columns["error"] = _texts(ops["error"], journals.texts)
    return _table(columns, OPS, len(ops["op"]))


def _mops_table(ops: Columns, steps: Columns) -> pa.Table:
    owner = steps["owner"]
    mine = {name: column[owner] for name, column in ops.items()}
    sends = steps["kind"] == _SEND
    status = np.where(steps["status"] == 0, _INFO, steps["status"].astype(np.int32) - 1)
    status = np.where(sends, status, -1)
    invoke_ns = np.where(steps["invoke_ns"] == NULL, mine["invoke_ns"], steps["invoke_ns"])
    # A send without a status never came back; anything else that was told came back with its operation.
    came_back = steps["told"] & (~sends | (steps["status"] != 0))
    complete_ns = np.where(came_back & (steps["complete_ns"] == NULL), mine["complete_ns"], steps["complete_ns"])
    # A step that the completion says nothing of, such as a seek, ends with its operation.
    complete_ns = np.where(~sends & ~steps["told"], mine["complete_ns"], complete_ns)
    columns = dict(_repeated(mine))
    columns["op"] = pa.array(mine["op"])
    columns["mop"] = pa.array(steps["mop"])
    columns["pos"] = pa.array(steps["pos"])
    columns["kind"] = _coded(steps["kind"], layout.KIND_CODES)
    columns["key"] = pa.array(steps["key"])
    columns["offset"] = _nullable(steps["offset"], NULL)
    columns["value"] = _nullable(steps["value"], NULL)
    columns["status"] = _coded(status, layout.OUTCOME_CODES)
    columns["invoke_ns"] = pa.array(invoke_ns)
    columns["complete_ns"] = _nullable(complete_ns, NULL)
    columns["defect"] = _coded(steps["defect"].astype(np.int32) - 1, layout.DEFECT_CODES)
    producer = np.where(sends, mine["producer"], NULL_INT32)
    columns["producer"] = _nullable(producer, NULL_INT32)
    return _table(columns, MOPS, len(owner))


def _repeated(ops: Columns) -> Columns:
    """The columns that both tables have of an operation."""
    return {
        "process": pa.array(ops["process"]),
        "worker": pa.array(ops["worker"]),
        "f": _coded(ops["f"], layout.F_CODES),
        "type": _coded(ops["type"], layout.OUTCOME_CODES),
        "phase": _coded(ops["phase"], layout.PHASE_CODES),
        "isolation": _coded(ops["isolation"], layout.ISOLATION_CODES),
        "commit_ns": _nullable(ops["commit_ns"], NULL),
    }


def _table(columns: Columns, schema: pa.Schema, count: int) -> pa.Table:
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def _nullable(numbers: Column, null: int) -> pa.Array:
    missing = numbers == null
    return pa.array(numbers, mask=missing) if missing.any() else pa.array(numbers)


def _coded(codes: Column, names: Sequence[str]) -> pa.DictionaryArray:
    """Text by its place in ``names``; a negative code is null."""
    codes = codes.astype(np.int32)
    dictionary = pa.array([str(name) for name in names], pa.string())
    return pa.DictionaryArray.from_arrays(_nullable(np.maximum(codes, -1), -1), dictionary)


def _texts(places: Column, texts: Sequence[str]) -> pa.DictionaryArray:
    # Only the texts of this batch: the dictionary of a column is written whole with every row group.
    used, codes = np.unique(places, return_inverse=True)
    skipped = int(len(used) > 0 and used[0] < 0)
    return _coded(codes - skipped, [texts[place] for place in used[skipped:]])
