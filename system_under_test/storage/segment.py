"""One segment: a ``.log`` of batches as they came over the wire, and its two sparse indexes.

Named by its base offset. Only the last segment of a log, the active one, is written to.
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple, Protocol

from system_under_test.protocol.batch import HEADER_BYTES, CorruptBatch, Record, decode, read_header
from system_under_test.storage.config import LogConfig
from system_under_test.storage.index import OffsetIndex, TimeIndex
from system_under_test.storage.scan import MAX_RELATIVE_OFFSET, BadBatch, Found, Scan, scan, walk_headers
from system_under_test.world import Buffer, Clock, File, Files

_log = logging.getLogger(__name__)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DELETED_SUFFIX = ".deleted"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

_STEP = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta: all that reading needs of a header."""
_STEP_BYTES = _STEP.size
_SMALLEST_LENGTH = HEADER_BYTES - 12
_REMEMBERED_POSITIONS = 32


class StorageWorld(Protocol):
    """What storage needs of a :class:`~system_under_test.world.World`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def files(self) -> Files: ...

    @property
    def random(self) -> Random: ...


class Placed(NamedTuple):
    """A batch that is about to be written: what the indexes need to know."""

    last_offset: int
    max_timestamp: int
    size_bytes: int


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{suffix}"


class Segment:
    def __init__(self, world: StorageWorld, folder: str, base_offset: int, config: LogConfig) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.created_ms = world.clock.time_ms()
        self.is_broken = False
        """A failed write could not be taken back: nothing may be appended behind it."""
        self._folder = folder
        self._files = world.files
        self._config = config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        self._jitter_ms = world.random.randrange(jitter_ms) if jitter_ms else 0
        self._file: File | None = None
        self._preallocated = False
        self._first_timestamp: int | None = None
        self._bytes_since_index_entry = 0
        self._positions: dict[int, int] = {}
        """Where readings ended: most readers go on from there, and need no index then."""
        index_bytes = config.segment_index_bytes
        self.index = OffsetIndex(self._files, self.path(INDEX_SUFFIX), base_offset, index_bytes)
        self.times = TimeIndex(self._files, self.path(TIME_INDEX_SUFFIX), base_offset, index_bytes)

    @staticmethod
    def create(world: StorageWorld, folder: str, base_offset: int, config: LogConfig) -> Segment:
        """A new, empty one. What a crash left of an earlier try is emptied."""
        segment = Segment(world, folder, base_offset, config)
        segment._file = world.files.open(segment.path(LOG_SUFFIX), create=True)
        if segment._file.size():
            segment._file.truncate(0)
        if config.preallocate:
            segment._file.truncate(config.segment_bytes)
            segment._preallocated = True
        segment.index.reset()
        segment.times.reset()
        return segment

    def path(self, suffix: str) -> str:
        return segment_path(self._folder, self.base_offset, suffix)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path(LOG_SUFFIX))
        return self._file

    def update_config(self, config: LogConfig) -> None:
        """From the next append on. The size of the indexes stays."""
        self._config = config

    # Opening

    def open_trusting_index(self) -> int:
        """Take the segment as it is; the next offset. Only what lies behind the last index entry is walked over.

        Raises :class:`BadBatch` when that does not end with a whole batch.
        """
        self.size = self.file.size()
        last = self.index.last_entry()
        next_offset = self.base_offset
        expected_last = None if last is None else last.offset
        for _, header in walk_headers(self.file, 0 if last is None else last.position, self.size):
            if header.base_offset < next_offset or (expected_last is not None and header.base_offset > expected_last):
                raise BadBatch(0, "the index does not fit the log")
            expected_last = None
            next_offset = header.next_offset
        self._load_largest_timestamp()
        return next_offset

    def open_inactive(self) -> None:
        """An old segment: its indexes were completed when it was closed."""
        self.size = self.file.size()
        self._load_largest_timestamp_entry()

    def recover(self, ends_at: int | None = None) -> Scan:
        """Check every byte, cut the log at the first bad batch, write both indexes anew. ``ends_at``: see ``scan``."""
        size = self.file.size()
        result = scan(self.file, size, self.base_offset, ends_at)
        if result.valid_bytes < size:
            self.file.truncate(result.valid_bytes)
        self._index_anew(result.batches)
        self.size = result.valid_bytes
        return result

    def rebuild_indexes(self) -> None:
        """From the log's headers; raises :class:`BadBatch` where they end before the log does."""
        self._index_anew(walk_headers(self.file, 0, self.size))

    def _index_anew(self, batches: Iterator[Found] | Sequence[Found]) -> None:
        self.index.reset()
        self.times.reset()
        self._forget_derived()
        for position, header in batches:
            self._note(position, Placed(header.last_offset, header.max_timestamp, header.size_bytes))
        self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def _forget_derived(self) -> None:
        self.max_timestamp, self.offset_of_max_timestamp = -1, self.base_offset
        self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self._positions.clear()

    def _load_largest_timestamp_entry(self) -> None:
        last = self.times.last_entry()
        self.max_timestamp, self.offset_of_max_timestamp = (-1, self.base_offset) if last is None else last

    def _load_largest_timestamp(self) -> None:
        """The last time index entry, and whatever is larger behind it."""
        self._load_largest_timestamp_entry()
        start = self.locate(self.offset_of_max_timestamp) if self.max_timestamp >= 0 else 0
        for _, header in walk_headers(self.file, start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset

    # Writing

    def should_roll(self, more_bytes: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether these batches should go to a new segment."""
        if self.size == 0:
            return False
        return (
            self.size > self._config.segment_bytes - more_bytes
            or self._age_ms(max_timestamp, now_ms) > self._config.segment_ms - self._jitter_ms
            or self.index.is_full()
            or self.times.is_full()
            or not self.takes_offset(last_offset)
        )

    def takes_offset(self, offset: int) -> bool:
        """Indexes have 32 bits for the distance to the base offset."""
        return offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def _age_ms(self, timestamp: int, now_ms: int) -> int:
        """By the records' own time where they have one: a copy of old data rolls as the original did."""
        first = self.first_timestamp()
        return timestamp - first if first >= 0 and timestamp >= 0 else now_ms - self.created_ms

    def first_timestamp(self) -> int:
        if self._first_timestamp is None:
            if self.size == 0:
                return -1
            self._first_timestamp = read_header(self.file.read_at(0, HEADER_BYTES)).max_timestamp
        return self._first_timestamp

    def append(self, buffers: Sequence[Buffer], batches: Sequence[Placed]) -> None:
        """Write the buffers, which hold exactly these batches, in one call. On an error nothing was appended."""
        if self.is_broken:
            raise OSError(errno.EIO, "a failed write could not be taken back", self.path(LOG_SUFFIX))
        position = self.size
        try:
            if self._preallocated:
                self.file.write_at(position, b"".join(buffers))
            else:
                written_at = self.file.append(*buffers)
                assert written_at == position, f"{self.path(LOG_SUFFIX)}: ends at {written_at}, not at {position}"
        except OSError:
            self._take_back(position)
            raise
        for batch in batches:
            self._note(position, batch)
            position += batch.size_bytes
        self.size = position

    def _take_back(self, position: int) -> None:
        """Half a batch must not stay where the next one goes."""
        try:
            self.file.truncate(position)
            self._preallocated = False
        except OSError:
            self.is_broken = True
            _log.error("%s: a failed write could not be taken back; read only from now on", self.path(LOG_SUFFIX))

    def _note(self, position: int, batch: Placed) -> None:
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
        if self._first_timestamp is None:
            self._first_timestamp = batch.max_timestamp if position == 0 else None
        if self._bytes_since_index_entry > self._config.index_interval_bytes and not self.index.is_full():
            self.index.append(batch.last_offset, position)
            self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += batch.size_bytes

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that contains ``offset`` and all behind it; the next offset.

        The cut is synced: see :mod:`system_under_test.storage.recovery`.
        """
        position = self.locate(offset)
        self.file.truncate(position)
        self._preallocated = False
        self.size = position
        self._forget_derived()
        self.file.sync()
        self.index.truncate_to_offset(offset)
        self.times.truncate_to_offset(offset)
        return self.open_trusting_index()

    def become_inactive(self) -> None:
        """No more appends: complete the time index, give back what was preallocated."""
        self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.index.trim()
        self.times.trim()
        if self._preallocated:
            self.file.truncate(self.size)
            self._preallocated = False

    def sync(self, *, with_indexes: bool) -> None:
        self.file.sync()
        if with_indexes:
            self.index.sync()
            self.times.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self.index.close()
        self.times.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files, the log first: without it the rest is an orphan. Their new paths; the folder is synced.

        May be repeated after an error."""
        self.close()
        renamed = []
        for suffix in SUFFIXES:
            path = self.path(suffix)
            if self._files.exists(path):
                self._files.replace(path, path + DELETED_SUFFIX)
            if self._files.exists(path + DELETED_SUFFIX):
                renamed.append(path + DELETED_SUFFIX)
        self._files.sync_folder(self._folder)
        return renamed

    # Reading

    def locate(self, offset: int) -> int:
        """Position of the first batch whose last offset is at least ``offset``; the size when there is none."""
        known = self._positions.get(offset)
        if known is not None:
            return known
        if offset <= self.base_offset:
            return 0
        start = self.index.lookup(offset)
        try:
            return self._locate_from(start, offset)
        except BadBatch as problem:
            if start == 0:
                raise CorruptBatch(f"{self.path(LOG_SUFFIX)}: {problem}") from problem
            _log.warning("%s: does not fit its log (%s); written anew", self.path(INDEX_SUFFIX), problem)
        try:
            self.rebuild_indexes()
            return self._locate_from(self.index.lookup(offset), offset)
        except BadBatch as problem:
            raise CorruptBatch(f"{self.path(LOG_SUFFIX)}: {problem}") from problem

    def _locate_from(self, start: int, offset: int) -> int:
        if start >= self.size > 0 and start > 0:
            raise BadBatch(start, "beyond the log's end")
        for position, header in walk_headers(self.file, start, self.size):
            if header.base_offset < self.base_offset or (position == start > 0 and header.base_offset > offset):
                raise BadBatch(position, f"base offset {header.base_offset} is not what the index says")
            if header.last_offset >= offset:
                return position
        return self.size

    def read(self, position: int, max_bytes: int, up_to: int, *, at_least_one: bool) -> Buffer:
        """Whole batches from ``position`` that end below offset ``up_to``, in ``max_bytes`` or, if need be, just one."""
        available = self.size - position
        chunk = self.file.read_at(position, min(max(max_bytes, 0), available))
        length = len(chunk)
        end, next_offset = 0, -1
        step = _STEP.unpack_from
        while length - end >= _STEP_BYTES:
            base_offset, batch_length, last_offset_delta = step(chunk, end)
            batch_end = end + 12 + batch_length
            if batch_end > length or base_offset + last_offset_delta >= up_to:
                break
            if batch_length < _SMALLEST_LENGTH:
                raise CorruptBatch(f"{self.path(LOG_SUFFIX)}: position {position + end}: length {batch_length}")
            end, next_offset = batch_end, base_offset + last_offset_delta + 1
        if end == 0:
            if not at_least_one or available <= 0:
                return b""
            header = read_header(self.file.read_at(position, HEADER_BYTES))
            if header.last_offset >= up_to:
                return b""
            if header.size_bytes > available:
                raise CorruptBatch(f"{self.path(LOG_SUFFIX)}: position {position}: the batch reaches beyond the end")
            chunk = self.file.read_at(position, header.size_bytes)
            end, next_offset = header.size_bytes, header.next_offset
        self._remember(next_offset, position + end)
        return chunk if end == len(chunk) else memoryview(chunk)[:end]

    def _remember(self, offset: int, position: int) -> None:
        positions = self._positions
        positions[offset] = position
        if len(positions) > _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]

    def headers(self, offset: int = 0) -> Iterator[Found]:
        """Every batch's header in order, from the batch that contains ``offset`` on. Raises :class:`BadBatch`."""
        return walk_headers(self.file, self.locate(offset), self.size)

    def first_record_at_or_after(self, timestamp: int, start_offset: int) -> Record | None:
        """The first record, from ``start_offset`` on, whose timestamp is ``timestamp`` or later."""
        start = self.locate(max(self.times.lookup(timestamp), start_offset))
        for position, header in walk_headers(self.file, start, self.size):
            if header.max_timestamp < timestamp:
                continue
            for record in decode(self.file.read_at(position, header.size_bytes)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record
        return None
