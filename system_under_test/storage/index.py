"""Sparse indexes of a segment: ``.index`` (relative offset → position) and ``.timeindex`` (timestamp → relative offset).

Entries have a fixed size and rise, so a lookup is a binary search on the file. An index only says where to begin
to look: losing entries costs time, never data, and a whole one can always be rebuilt from its log. A file may end
in zeros (Kafka preallocates active indexes, a crash leaves them so): such entries are not counted.
"""

from __future__ import annotations

import logging
import struct
from typing import Generic, NamedTuple, TypeVar

from system_under_test.world import File, Files

_log = logging.getLogger(__name__)

_BLOCK_ENTRIES = 256
"""A binary search ends by reading so many entries at once."""

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


EntryT = TypeVar("EntryT", OffsetEntry, TimeEntry)


class _Index(Generic[EntryT]):
    """What both have in common. The file is opened when it is first needed: most old segments are never read."""

    struct: struct.Struct

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._file: File | None = None
        self._max_entries = max_bytes // self.struct.size
        self._count = -1
        self._last: EntryT | None = None

    def _entry(self, raw: tuple[int, int]) -> EntryT:
        raise NotImplementedError

    def _open(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
            self._count = self._file.size() // self.struct.size
            self._drop_zeros(self._file)
            self._last = self._at(self._count - 1) if self._count else None
        return self._file

    def _drop_zeros(self, file: File) -> None:
        """Find the last entry that is not all zeros, from the end, block by block."""
        size = self.struct.size
        while self._count:
            start = max(0, self._count - _BLOCK_ENTRIES)
            block = file.read_at(start * size, (self._count - start) * size)
            kept = len(block.rstrip(b"\0"))
            if kept:
                self._count = start + -(-kept // size)
                return
            self._count = start

    def _at(self, number: int) -> EntryT:
        raw = self._open().read_at(number * self.struct.size, self.struct.size)
        first, second = self.struct.unpack(raw)
        return self._entry((first, second))

    def is_there(self) -> bool:
        return self._files.exists(self.path)

    def count(self) -> int:
        self._open()
        return self._count

    def last_entry(self) -> EntryT | None:
        self._open()
        return self._last

    def is_full(self) -> bool:
        return self.count() >= self._max_entries

    def entries(self) -> list[EntryT]:
        file = self._open()
        raw = file.read_at(0, self._count * self.struct.size)
        return [self._entry((first, second)) for first, second in self.struct.iter_unpack(raw)]

    def _append(self, entry: EntryT, first: int, second: int) -> None:
        """A full disk may refuse it: then the index has one entry less, and that is fine."""
        file = self._open()
        end = self._count * self.struct.size
        try:
            file.write_at(end, self.struct.pack(first, second))
        except OSError as problem:
            _log.warning("%s: an entry could not be written: %s", self.path, problem)
            file.truncate(end)
            return
        self._count += 1
        self._last = entry

    def _largest_at_most(self, key: int) -> EntryT | None:
        """The last entry whose first field (as stored) is at most ``key``."""
        file = self._open()
        size = self.struct.size
        low, high = 0, self._count
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.struct.unpack(file.read_at(middle * size, size))[0] <= key:
                low = middle
            else:
                high = middle
        found = None
        for raw in self.struct.iter_unpack(file.read_at(low * size, (high - low) * size)):
            if raw[0] > key:
                break
            found = raw
        return None if found is None else self._entry((found[0], found[1]))

    def truncate_to_offset(self, offset: int) -> None:
        """Keep entries below ``offset``."""
        while self.count():
            assert self._last is not None
            if self._last.offset < offset:
                break
            self._count -= 1
            self._last = self._at(self._count - 1) if self._count else None
        self._open().truncate(self._count * self.struct.size)

    def reset(self) -> None:
        """Empty, to be filled anew."""
        file = self._open()
        file.truncate(0)
        self._count, self._last = 0, None

    def trim(self) -> None:
        """Cut off what is no entry."""
        file = self._open()
        if file.size() != self._count * self.struct.size:
            file.truncate(self._count * self.struct.size)

    def sync(self) -> None:
        self._open().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class OffsetIndex(_Index[OffsetEntry]):
    """Each entry: the last offset of a batch, and where that batch begins."""

    struct = OFFSET_ENTRY

    def _entry(self, raw: tuple[int, int]) -> OffsetEntry:
        return OffsetEntry(self.base_offset + raw[0], raw[1])

    def append(self, offset: int, position: int) -> None:
        last = self.last_entry()
        assert last is None or offset > last.offset, f"{self.path}: offset {offset} after {last}"
        self._append(OffsetEntry(offset, position), offset - self.base_offset, position)

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that contains ``offset``."""
        entry = self._largest_at_most(offset - self.base_offset)
        return 0 if entry is None else entry.position

    def problem(self, log_size: int) -> str | None:
        """What makes it unfit for use, as far as one look at its end can tell."""
        if not self.is_there():
            return "is missing"
        last = self.last_entry()
        if last is not None and (last.offset < self.base_offset or not 0 <= last.position < log_size):
            return f"ends with offset {last.offset} at {last.position}, in a log of {log_size} bytes"
        return None


class TimeIndex(_Index[TimeEntry]):
    """Each entry: the largest timestamp so far, and the last offset of the batch that has it."""

    struct = TIME_ENTRY

    def _entry(self, raw: tuple[int, int]) -> TimeEntry:
        return TimeEntry(raw[0], self.base_offset + raw[1])

    def is_full(self) -> bool:
        """One place stays free for the entry that is written when a segment is closed."""
        return self.count() >= self._max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Only larger timestamps make an entry."""
        last = self.last_entry()
        if timestamp < 0 or (last is not None and (timestamp <= last.timestamp or offset < last.offset)):
            return
        self._append(TimeEntry(timestamp, offset), timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first record whose timestamp is ``timestamp`` or later."""
        entry = self._largest_at_most(timestamp)
        return self.base_offset if entry is None else entry.offset

    def problem(self) -> str | None:
        if not self.is_there():
            return "is missing"
        last = self.last_entry()
        if last is not None and (last.timestamp < 0 or last.offset < self.base_offset):
            return f"ends with timestamp {last.timestamp} at offset {last.offset}"
        return None
