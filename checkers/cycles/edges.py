"""What the keys of one partition say: data edges, anomalies that need no cycle, and who was seen when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from checkers.load import NONE

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Columns = Mapping[str, Ints]

ROW = ("op", "mop", "pos", "kind", "key", "value", "type", "complete_at")
"""Columns of ``elements`` as the checks take them."""
EDGE = ("src", "dst", "kind", "key", "value", "other")
"""``value`` is what the edge's source wrote or read (NONE: nothing yet), ``other`` what its target did."""
WRITE, READ = range(2)
OK, FAIL, INFO = range(3)
"""Codes of ``kind`` and ``type``: the places in Access and Outcome."""


class Edge(IntEnum):
    WW = 0
    WR = 1
    RW = 2
    PROCESS = 3
    REALTIME = 4


@dataclass(frozen=True)
class ItemCase:
    """One case of an anomaly of one key: what, where, and between which transactions."""

    anomaly: str
    key: int
    value: int | None
    op: int
    other_op: int | None = None
    mop: int | None = None


@dataclass
class Counted:
    """All cases are counted, a few are kept."""

    most: int | None
    counts: dict[str, int] = field(default_factory=dict)
    cases: list[ItemCase] = field(default_factory=list)

    def add(self, anomaly: str, op: Ints, key: Ints, value: Ints, other_op: Ints | None = None) -> None:
        if not op.size:
            return
        self.counts[anomaly] = self.counts.get(anomaly, 0) + int(op.size)
        for place in np.argsort(op, kind="stable")[: self.most].tolist():
            self.cases.append(
                ItemCase(
                    anomaly, int(key[place]), _known(value[place]), int(op[place]),
                    None if other_op is None else _known(other_op[place]),
                )
            )  # fmt: skip


def _known(number: np.int64) -> int | None:
    return None if number == NONE else int(number)


@dataclass
class KeysReport:
    edges: dict[str, Ints]
    seen_op: Ints
    """Transactions of which a value was read, each once, with the first completion of such a read in ``seen_at``."""
    seen_at: Ints
    found: Counted
    rewritten: int = 0
    """Values that were written twice to one key: nothing is sure of such a key, so it is left out."""


def edges_of(parts: list[tuple[Edge, Ints, Ints, Ints, Ints, Ints]]) -> dict[str, Ints]:
    """Edges of several kinds in one table; none from a transaction to itself."""
    columns: dict[str, list[Ints]] = {name: [] for name in EDGE}
    for kind, src, dst, key, value, other in parts:
        apart = src != dst
        for name, column in zip(
            EDGE, (src, dst, np.full(src.size, int(kind), np.int64), key, value, other), strict=True
        ):
            columns[name].append(column[apart])
    return {name: np.concatenate(each) if each else np.empty(0, np.int64) for name, each in columns.items()}


@dataclass(frozen=True)
class Writes:
    """The writes of a partition, by (key, value): found by binary search."""

    ids: Ints
    row: Ints

    @staticmethod
    def of(ids: Ints, row: Ints) -> Writes:
        order = np.argsort(ids, kind="stable")
        ids, row = ids[order], row[order]
        fresh = np.ones(ids.size, np.bool_)
        fresh[1:] = ids[1:] != ids[:-1]
        return Writes(ids[fresh], row[fresh])

    def find(self, wanted: Ints) -> Ints:
        """The row of each write, or -1."""
        if not self.ids.size:
            return np.full(wanted.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self.ids, wanted), self.ids.size - 1)
        return np.where(self.ids[place] == wanted, self.row[place], -1)


def by_key(rows: Columns) -> dict[str, Ints]:
    """Rows in the order of (key, op, mop, pos), from rows in the order of (op, mop, pos), without the reads of failed
    transactions. ``id`` is one number for each (key, value), in the order of keys; zero above the key's own for NONE."""
    keep = np.flatnonzero((rows["kind"] == WRITE) | (rows["type"] != FAIL))
    order = keep[np.argsort(rows["key"][keep], kind="stable")]
    sorted_rows = {name: column[order] for name, column in rows.items()}
    key, value = sorted_rows["key"], sorted_rows["value"]
    rank = np.cumsum(np.append(0, key[1:] != key[:-1])[: key.size])
    sorted_rows["id"] = (rank << 41) + np.where(value == NONE, 0, value + 1)
    return sorted_rows


def unique_writes(rows: dict[str, Ints]) -> tuple[dict[str, Ints], Ints, Writes, int]:
    """Rows, as of :func:`by_key`; which of them write; the writes themselves; and how many values were written again.

    Keys to which a value was written twice are left out: whose write a read saw, nobody knows there, and a retry of what
    had failed would make a good read a dirty one.
    """
    write_rows = np.flatnonzero(rows["kind"] == WRITE)
    writes = Writes.of(rows["id"][write_rows], write_rows)
    rewritten = write_rows.size - writes.ids.size
    if not rewritten:
        return rows, write_rows, writes, 0
    ids = np.sort(rows["id"][write_rows])
    doubtful = ids[1:][ids[1:] == ids[:-1]] >> 41
    keep = ~np.isin(rows["id"] >> 41, doubtful)
    return (*unique_writes({name: column[keep] for name, column in rows.items()})[:3], rewritten)


def all_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Every pair of places with equal numbers in ``left`` and ``right``."""
    order = np.argsort(right, kind="stable")
    low = np.searchsorted(right[order], left, side="left")
    count = np.searchsorted(right[order], left, side="right") - low
    ends = np.cumsum(count)
    total = int(ends[-1]) if ends.size else 0
    inside = np.arange(total) - np.repeat(ends - count, count)
    return np.repeat(np.arange(left.size), count), order[np.repeat(low, count) + inside]


def first_seen(op: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Each transaction once, with the least time."""
    order = np.lexsort((at, op))
    op, at = op[order], at[order]
    fresh = np.ones(op.size, np.bool_)
    fresh[1:] = op[1:] != op[:-1]
    return op[fresh], at[fresh]


def starts(*columns: Ints) -> Ints:
    """Where runs of equal rows begin."""
    fresh = np.ones(columns[0].size, np.bool_)
    if fresh.size:
        fresh[1:] = False
        for column in columns:
            fresh[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(fresh)


def overwritten(op: Ints, key: Ints, kind: Ints) -> Bools:
    """Of rows in the order of (key, op, mop, pos): writes after which their transaction writes the key again."""
    last = np.zeros(op.size, np.bool_)
    writes = np.flatnonzero(kind == WRITE)
    later = (op[writes][1:] == op[writes][:-1]) & (key[writes][1:] == key[writes][:-1])
    last[writes[:-1]] = later
    return last


def updates_lost(key: Ints, op: Ints, read: Ints, found: Counted) -> None:
    """Committed transactions that read one version (``read``: the same number for the same) of a key and wrote the key."""
    order = np.lexsort((op, read, key))
    key, op, read = key[order], op[order], read[order]
    begin = starts(key, read)
    size = np.diff(np.append(begin, key.size))
    twice = begin[size > 1]
    found.add(
        "lost-update",
        op[twice],
        key[twice],
        np.full(twice.size, NONE, np.int64),
        op[np.minimum(twice + 1, op.size - 1)],
    )
