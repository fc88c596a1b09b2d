"""Lists: transactions append values, each once, and read whole lists.

The order of a key's versions is that of its longest read (of equally long ones, the first), each value once; every other read
should be a prefix of it. An append that nobody read comes after all that were read.

=====================  ===================================================================================
incompatible-order     a read of the key is no prefix of the longest
duplicate-elements     a read has a value twice
internal               a read contradicts what its own transaction read or appended before
future-read            a read has a value that its own transaction appended later
G1a                    a read has a value of a transaction that failed
G1b                    a read ends with a value after which its transaction appended to the list again
dirty-update           in the order of versions, a value of a failed transaction precedes one of a committed
lost-update            two committed transactions read the same version of a key and both appended to it
phantom                a read has a value that nobody appended
=====================  ===================================================================================
"""

from __future__ import annotations

import numpy as np

from checkers.cycles.edges import (
    FAIL,
    INFO,
    OK,
    READ,
    WRITE,
    Columns,
    Counted,
    Edge,
    Ints,
    KeysReport,
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

_MIX = np.uint64(0x9E3779B97F4A7C15)


def check_lists(rows: Columns, most: int | None) -> KeysReport:
    """All rows of some keys, in the order of their table."""
    return _Lists(by_key(rows), most).report()


class _Lists:
    def __init__(self, rows: dict[str, Ints], most: int | None) -> None:
        rows, self.write_rows, self.writes, self.rewritten = unique_writes(rows)
        self.rows = rows
        self.op, self.key, self.mop, self.value, self.id = (rows[each] for each in ("op", "key", "mop", "value", "id"))
        self.type = rows["type"]
        self.found = Counted(most)
        self.init = (self.id >> 41) << 41
        self.elements = np.flatnonzero(rows["kind"] == READ)
        # Reads: runs of rows of one micro-operation.
        element = self.elements
        begin = starts(self.op[element], self.key[element], self.mop[element])
        self.read = element[begin]
        """The first row of each read."""
        self.read_of = np.repeat(np.arange(begin.size), np.diff(np.append(begin, element.size)))
        size = np.diff(np.append(begin, element.size))
        self.length = np.where(self.value[self.read] == NONE, 0, size)
        self.last = self.read + size - 1
        self.place = np.arange(element.size) - np.repeat(begin, size)

    def report(self) -> KeysReport:
        written = self.writes.find(self.id[self.elements])
        known = self.value[self.elements] != NONE
        self._versions()
        self._reads(written, known)
        self._internal()
        self._updates()
        parts = [self._wr(), *self._ww_rw()]
        found = np.flatnonzero(written >= 0)
        seen = first_seen(self.op[written[found]], self.rows["complete_at"][self.elements[found]])
        return KeysReport(edges_of(parts), *seen, self.found, self.rewritten)

    def _versions(self) -> None:
        """The longest read of each key, and whether the others are prefixes of it."""
        key = self.key[self.read]
        order = np.lexsort((np.arange(key.size), -self.length, key))
        first = order[starts(key[order])] if order.size else order
        _, group = np.unique(key, return_inverse=True)
        longest = self.read[first][group[self.read_of]] if first.size else self.elements
        wrong = self.value[np.minimum(longest + self.place, self.value.size - 1)] != self.value[self.elements]
        wrong &= self.value[self.elements] != NONE
        bad = np.unique(self.read_of[wrong])
        bad = bad[starts(key[bad])] if bad.size else bad
        self.found.add(
            "incompatible-order", self.op[self.read[bad]], key[bad], self.value[self.last[bad]],
            self.op[self.read[first[group[bad]]]],
        )  # fmt: skip
        in_longest = np.zeros(self.read.size, np.bool_)
        in_longest[first] = True
        rows = self.elements[in_longest[self.read_of] & (self.value[self.elements] != NONE)]
        _, fresh = np.unique(self.id[rows], return_index=True)
        self.version_rows = rows[np.sort(fresh)]
        self.version_ids = self.id[self.version_rows]
        repeated = np.setdiff1d(np.arange(rows.size), fresh, assume_unique=True)
        self.doubtful = np.isin(key, self.key[rows[repeated]])
        self.doubtful[self.read_of[wrong]] = True

    def _reads(self, written: Ints, known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        element, ok = self.elements, self.type[self.elements] == OK
        aborted = np.flatnonzero(ok & known & (written >= 0) & (self.type[written] == FAIL))
        self._add("G1a", element[aborted], self.op[written[aborted]])
        phantom = np.flatnonzero(known & (written < 0))
        _, fresh = np.unique(self.id[element[phantom]], return_index=True)
        self._add("phantom", element[phantom[fresh]], None)
        future = np.flatnonzero(
            ok & (written >= 0) & (self.op[written] == self.op[element]) & (self.mop[written] > self.mop[element])
        )
        self._add("future-read", element[future], None)
        # A prefix of a list without duplicates has none; so only the others are sorted.
        some = np.flatnonzero(self.doubtful[self.read_of])
        some = some[np.lexsort((self.value[element[some]], self.read_of[some]))]
        again = some[1:][
            (self.read_of[some][1:] == self.read_of[some][:-1])
            & (self.value[element[some]][1:] == self.value[element[some]][:-1])
        ]
        _, fresh = np.unique(self.read_of[again], return_index=True)
        twice = again[fresh]
        self._add("duplicate-elements", element[twice[ok[twice]]], None)
        middle = overwritten(self.op, self.key, self.rows["kind"])
        writer = self.writes.find(self.id[self.last])
        half = np.flatnonzero(
            (self.type[self.last] == OK) & (writer >= 0) & middle[writer] & (self.op[writer] != self.op[self.last])
        )
        self._add("G1b", self.last[half], self.op[writer[half]])

    def _add(self, anomaly: str, rows: Ints, other: Ints | None) -> None:
        self.found.add(anomaly, self.op[rows], self.key[rows], self.value[rows], other)

    def _internal(self) -> None:
        """Only transactions that read a key after having read or written it are looked at one by one; they are few."""
        first = starts(self.key, self.op)
        group = np.repeat(np.arange(first.size), np.diff(np.append(first, self.op.size)))
        later = self.read[self.mop[self.read] != self.mop[first[group[self.read]]]]
        later = later[self.type[later] == OK]
        ends = np.append(first, self.op.size)
        wrong = []
        for number in np.unique(group[later]).tolist():
            at = self._contradiction(int(ends[number]), int(ends[number + 1]))
            if at is not None:
                wrong.append(at)
        self._add("internal", np.array(wrong, np.int64), None)

    def _contradiction(self, begin: int, end: int) -> int | None:
        known: list[int] | None = None
        tail: list[int] = []
        row = begin
        while row < end:
            stop = row + 1
            if self.rows["kind"][row] == WRITE:
                tail.append(int(self.value[row]))
                row = stop
                continue
            while stop < end and self.mop[stop] == self.mop[row]:
                stop += 1
            seen = [] if self.value[row] == NONE else self.value[row:stop].tolist()
            if known is not None:
                if seen != known + tail:
                    return row
            elif tail and seen[-len(tail) :] != tail:
                return row
            known, tail, row = seen, [], stop
        return None

    def _updates(self) -> None:
        # Versions in their order, without those whose fate nobody knows: a failed one right before a committed one.
        writer = self.writes.find(self.version_ids)
        sure = np.flatnonzero((writer >= 0) & (self.type[writer] != INFO))
        rows = writer[sure]
        dirty = np.flatnonzero(
            (self.key[rows][1:] == self.key[rows][:-1]) & (self.type[rows][:-1] == FAIL) & (self.type[rows][1:] == OK)
        )
        self._add("dirty-update", rows[1:][dirty], self.op[rows[:-1][dirty]])
        # One number for the content of each read.
        with np.errstate(over="ignore"):
            mixed = (self.value[self.elements].astype(np.uint64) + np.uint64(1)) * _MIX
            mixed = (mixed ^ (mixed >> np.uint64(29))) * (self.place.astype(np.uint64) * np.uint64(2) + np.uint64(3))
            mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
        begin = np.searchsorted(self.read_of, np.arange(self.read.size))
        content = np.add.reduceat(mixed, begin).view(np.int64) if begin.size else np.empty(0, np.int64)
        first = starts(self.key, self.op)
        is_first = np.zeros(self.op.size, np.bool_)
        is_first[first] = True
        writes = (
            self.write_rows[starts(self.key[self.write_rows], self.op[self.write_rows])]
            if self.write_rows.size
            else first[:0]
        )
        group = np.repeat(np.arange(first.size), np.diff(np.append(first, self.op.size)))
        has_write = np.zeros(first.size, np.bool_)
        has_write[group[writes]] = True
        mine = np.flatnonzero(is_first[self.read] & has_write[group[self.read]] & (self.type[self.read] == OK))
        updates_lost(self.key[self.read[mine]], self.op[self.read[mine]], content[mine], self.found)

    def _wr(self) -> tuple[Edge, Ints, Ints, Ints, Ints, Ints]:
        writer = self.writes.find(self.id[self.last])
        good = np.flatnonzero((writer >= 0) & (self.type[writer] != FAIL))
        row, value = self.last[good], self.value[self.last[good]]
        return Edge.WR, self.op[writer[good]], self.op[row], self.key[row], value, value

    def _ww_rw(self) -> list[tuple[Edge, Ints, Ints, Ints, Ints, Ints]]:
        """Of each append: who wrote, and who read, the version before it."""
        write = self.write_rows[self.type[self.write_rows] != FAIL]
        keys = self.id >> 41
        version_key = keys[self.version_rows]
        before = self.init[write].copy()
        # Unread: after the last version of the key.
        end = np.searchsorted(version_key, keys[write], side="right") - 1
        if version_key.size:
            mine = (end >= 0) & (version_key[end] == keys[write])
            before[mine] = self.version_ids[end[mine]]
            order = np.argsort(self.version_ids)
            place = order[np.minimum(np.searchsorted(self.version_ids[order], self.id[write]), order.size - 1)]
            read = self.version_ids[place] == self.id[write]
            follows = read & (place > 0) & (version_key[place - 1] == keys[write])
            before[read] = self.init[write][read]
            before[follows] = self.version_ids[place[follows] - 1]
        value = np.where(before == self.init[write], NONE, (before & ((1 << 41) - 1)) - 1)
        writer = self.writes.find(before)
        good = np.flatnonzero((writer >= 0) & (self.type[writer] != FAIL))
        ww = (
            Edge.WW, self.op[writer[good]], self.op[write[good]], self.key[write[good]], value[good],
            self.value[write[good]],
        )  # fmt: skip
        left, right = all_pairs(before, np.where(self.length == 0, self.init[self.read], self.id[self.last]))
        rw = (
            Edge.RW, self.op[self.read[right]], self.op[write[left]], self.key[write[left]], value[left],
            self.value[write[left]],
        )  # fmt: skip
        return [ww, rw]
