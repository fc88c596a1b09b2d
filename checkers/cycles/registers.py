"""Registers: transactions write values, each once, and read the last one. Nothing shows the order of versions whole.

What is inferred of it: the initial state comes before every version; and where a transaction reads a version and then
writes the key, the version it read comes before the one it wrote (writes follow reads). The first Elle always infers, the
second when asked (``wfr-keys?``); what its options ``sequential-keys?`` and ``linearizable-keys?`` would add is not
inferred. Where the inferred order of a key has a cycle (cyclic-versions), only the initial state counts there.

internal, future-read, G1a, G1b, lost-update and phantom are as for lists (:mod:`.lists`). Of a transaction counts, from outside, the
first read of a key before any write, and the last write.
"""

from __future__ import annotations

import numpy as np

from checkers.cycles.components import strong_components
from checkers.cycles.edges import (
    FAIL,
    OK,
    READ,
    Columns,
    Counted,
    Edge,
    Ints,
    KeysReport,
    Writes,
    all_pairs,
    by_key,
    edges_of,
    first_seen,
    overwritten,
    starts,
    unique_writes,
    updates_lost,
)
from checkers.load import NONE


def check_registers(rows: Columns, most: int | None) -> KeysReport:
    """All rows of some keys, in the order of their table."""
    rows, write_rows, writes, rewritten = unique_writes(by_key(rows))
    op, key, kind, value, ids, type_ = (rows[each] for each in ("op", "key", "kind", "value", "id", "type"))
    found = Counted(most)
    first = starts(key, op)
    middle = overwritten(op, key, kind)
    _reads(rows, writes, middle, found)
    _internal(rows, first, found)
    # From outside: first reads, last writes; of failed transactions nothing.
    read = first[(kind[first] == READ)]
    write = write_rows[~middle[write_rows] & (type_[write_rows] != FAIL)]
    group = np.repeat(np.arange(first.size), np.diff(np.append(first, op.size)))
    final = np.full(first.size, -1, np.int64)
    final[group[write]] = write
    updating = read[(final[group[read]] >= 0) & (type_[read] == OK)]
    updates_lost(key[updating], op[updating], ids[updating], found)
    # Who read what it wrote itself later has a future-read; no version comes before itself.
    follows = updating[(value[updating] != NONE) & (ids[updating] != ids[final[group[updating]]])]
    before, after = follows, final[group[follows]]
    cyclic = _cyclic(ids[before], ids[after])
    if cyclic.any():
        bad = before[cyclic][starts(key[before[cyclic]])]
        found.add("cyclic-versions", op[bad], key[bad], value[bad])
        innocent = ~np.isin(key[before], key[bad])
        before, after = before[innocent], after[innocent]
    writer = writes.find(ids[read])
    good = np.flatnonzero((writer >= 0) & (type_[writer] != FAIL) & ~middle[writer])
    wr = (Edge.WR, op[writer[good]], op[read[good]], key[read[good]], value[read[good]], value[read[good]])
    earlier = writes.find(ids[before])
    good = np.flatnonzero((earlier >= 0) & (type_[earlier] != FAIL) & ~middle[earlier])
    ww = (
        Edge.WW, op[earlier[good]], op[after[good]], key[after[good]], value[earlier[good]], value[after[good]],
    )  # fmt: skip
    # Who read the earlier version, by versions that are known to be followed; and who read nothing at all.
    left, right = all_pairs(ids[before], ids[read])
    nothing = read[value[read] == NONE]
    zero, every = all_pairs(ids[nothing] >> 41, ids[write] >> 41)
    source = np.concatenate([read[right], nothing[zero]])
    target = np.concatenate([after[left], write[every]])
    rw = (Edge.RW, op[source], op[target], key[target], value[source], value[target])
    all_reads = np.flatnonzero(kind == READ)
    written = writes.find(ids[all_reads])
    known = np.flatnonzero(written >= 0)
    seen = first_seen(op[written[known]], rows["complete_at"][all_reads[known]])
    return KeysReport(edges_of([wr, ww, rw]), *seen, found, rewritten)


def _reads(rows: Columns, writes: Writes, middle: np.ndarray[tuple[int], np.dtype[np.bool_]], found: Counted) -> None:
    op, key, value, type_ = rows["op"], rows["key"], rows["value"], rows["type"]
    read = np.flatnonzero((rows["kind"] == READ) & (value != NONE))
    written = writes.find(rows["id"][read])
    ok = type_[read] == OK
    aborted = np.flatnonzero(ok & (written >= 0) & (type_[written] == FAIL))
    found.add("G1a", op[read[aborted]], key[read[aborted]], value[read[aborted]], op[written[aborted]])
    half = np.flatnonzero(ok & (written >= 0) & middle[written] & (op[written] != op[read]))
    found.add("G1b", op[read[half]], key[read[half]], value[read[half]], op[written[half]])
    own = (written >= 0) & (op[written] == op[read])
    later = read[ok & own & (rows["mop"][written] > rows["mop"][read])]
    found.add("future-read", op[later], key[later], value[later])
    strange = read[written < 0]
    _, fresh = np.unique(rows["id"][strange], return_index=True)
    found.add("phantom", op[strange[fresh]], key[strange[fresh]], value[strange[fresh]])


def _internal(rows: Columns, first: Ints, found: Counted) -> None:
    """A read differs from what its transaction last read or wrote there; once per transaction and key."""
    value = rows["value"]
    inside = np.ones(value.size, np.bool_)
    inside[first] = False
    row = np.flatnonzero(inside & (rows["kind"] == READ) & (rows["type"] == OK))
    row = row[(value[row - 1] != NONE) & (value[row - 1] != value[row])]
    row = row[starts(rows["key"][row], rows["op"][row])]
    found.add("internal", rows["op"][row], rows["key"][row], value[row])


def _cyclic(before: Ints, after: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the steps from version to version lie on a cycle."""
    nodes, number = np.unique(np.concatenate([before, after]), return_inverse=True)
    src, dst = number[: before.size], number[before.size :]
    component = strong_components(nodes.size, src, dst)
    return np.asarray((component[src] >= 0) & (component[src] == component[dst]))
