"""One replica's log: a folder of segments, where it starts and ends, and what its leader epochs were.

Everything here is synchronous, and atomic for whoever runs on the same loop. How it survives crashes is told in
:mod:`system_under_test.storage.recovery`; what a leader checks in :mod:`system_under_test.storage.validation`.
"""

from __future__ import annotations

import logging
import struct
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from system_under_test.protocol.batch import BatchHeader, CorruptBatch, check_crc, headers
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.storage.checkpoints import (
    PARTITION_METADATA,
    CheckpointError,
    read_partition_metadata,
    write_partition_metadata,
)
from system_under_test.storage.config import LogConfig
from system_under_test.storage.epochs import LeaderEpochCache
from system_under_test.storage.producer_snapshots import ProducerSnapshots
from system_under_test.storage.producer_state import BatchMetadata, ProducerStateManager
from system_under_test.storage.recovery import RecoveryReport, load_producers, open_log
from system_under_test.storage.retention import segments_to_delete
from system_under_test.storage.segment import Placed, Segment, StorageWorld
from system_under_test.storage.validation import REST_AT, AppendOrigin, Batch, validate
from system_under_test.types import TopicPartition
from system_under_test.world import Buffer, Files

_log = logging.getLogger(__name__)

_PREFIX = struct.Struct(">qii")
"""Base offset, length, leader epoch: the bytes of a batch that its leader writes."""


class OffsetOutOfRange(ApiError):
    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(ErrorCode.offset_out_of_range, f"{offset} is not within {start_offset} and {end_offset}")


class AppendInfo(NamedTuple):
    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """-1 unless the topic's timestamps are LogAppendTime."""
    log_start_offset: int
    record_count: int
    size_bytes: int
    is_duplicate: bool = False
    """Nothing was appended: the offsets are those that the batch got when it came for the first time."""


@dataclass(frozen=True, slots=True)
class DoomedFile:
    """Renamed already; to be removed when ``due_s`` of the monotonic clock has come."""

    path: str
    due_s: float


DAY_MS = 86_400_000


def _nothing(_: Log) -> None:
    """The default of a log that nobody manages."""


def _topic_id(files: Files, path: str) -> uuid.UUID | None:
    """Unreadable is as good as missing: the controller tells it with the next LeaderAndIsr. The records are worth more."""
    try:
        return read_partition_metadata(files, path)
    except CheckpointError as problem:
        _log.warning("%s: ignored", problem)
        return None


class Log:
    """``on_roll`` is told when a segment was closed and wants to be synced, ``on_truncate`` when the recovery point
    was lowered and must be checkpointed before anything else is appended."""

    def __init__(
        self,
        world: StorageWorld,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        was_clean: bool = True,
        recovery_point: int = 0,
        start_offset: int = 0,
        high_watermark: int = 0,
        producer_expiration_ms: int = DAY_MS,
        on_roll: Callable[[Log], None] = _nothing,
        on_truncate: Callable[[Log], None] = _nothing,
    ) -> None:
        opened = open_log(
            world,
            directory,
            config,
            was_clean=was_clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            producer_expiration_ms=producer_expiration_ms,
        )
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.start_offset = opened.start_offset
        self.end_offset = opened.end_offset
        self.recovery_point = opened.recovery_point
        self.epochs: LeaderEpochCache = opened.epochs
        self.producers: ProducerStateManager = opened.producers
        """As of the log's end."""
        self._snapshots: ProducerSnapshots = opened.snapshots
        self.opening: RecoveryReport = opened.report
        self.high_watermark = min(max(high_watermark, self.start_offset), self.end_offset)
        self.topic_id: uuid.UUID | None = _topic_id(world.files, f"{directory}/{PARTITION_METADATA}")
        self.last_flush_s = world.clock.monotonic()
        self._world = world
        self._segments = opened.segments
        self._bases = [each.base_offset for each in opened.segments]
        self._doomed: list[DoomedFile] = []
        self._names_unsynced = True
        self._unfinished: tuple[Callable[[int], None], int] | None = None
        """A cut that the disk let fail half way, and its offset."""
        self._on_roll = on_roll
        self._on_truncate = on_truncate

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.start_offset}..{self.end_offset}, HW {self.high_watermark})"

    @property
    def size_bytes(self) -> int:
        return sum(each.size for each in self._segments)

    @property
    def active_segment(self) -> Segment:
        return self._segments[-1]

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Written once, to ``partition.metadata``."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise ApiError(
                ErrorCode.inconsistent_topic_id, f"{self.topic_partition} is {self.topic_id}, not {topic_id}"
            )
        write_partition_metadata(self._world.files, f"{self.directory}/{PARTITION_METADATA}", topic_id)
        self.topic_id = topic_id

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.active_segment.update_config(config)

    # Appending

    def append_as_leader(
        self, records: Buffer, leader_epoch: int, *, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendInfo:
        """Validate, give offsets and the epoch, write. The caller's buffer is left as it is."""
        self._check_whole()
        now_ms = self._world.clock.time_ms()
        batches = validate(records, self.config, now_ms, origin)
        repeated = self._repeated(batches) if origin is AppendOrigin.CLIENT else None
        if repeated is not None:
            stamp = repeated.timestamp  # Kafka tells it as the append time, whatever the topic's timestamps are
            return AppendInfo(
                repeated.first_offset, repeated.last_offset, stamp, stamp, self.start_offset, 0, 0, is_duplicate=True
            )
        first_offset = offset = self.end_offset
        buffers: list[Buffer] = []
        placed: list[Placed] = []
        record_count = size = 0
        newest = -1
        for batch in batches:
            header = batch.header
            buffers.append(_PREFIX.pack(offset, header.batch_length, leader_epoch))
            buffers.append(batch.data[REST_AT:])
            last_offset = offset + header.last_offset_delta
            placed.append(Placed(last_offset, header.max_timestamp, header.size_bytes))
            record_count += header.record_count
            size += header.size_bytes
            newest = max(newest, header.max_timestamp)
            offset = last_offset + 1
        self.epochs.assign(leader_epoch, first_offset)
        self._write(first_offset, buffers, placed, size, newest, now_ms)
        for batch, place in zip(batches, placed, strict=True):
            if batch.header.producer_id >= 0:
                self.producers.update(batch.header, place.last_offset - batch.header.last_offset_delta)
        self._flush_if_due()
        stamped = self.config.message_timestamp_type == "LogAppendTime"
        return AppendInfo(
            first_offset, offset - 1, newest, now_ms if stamped else -1, self.start_offset, record_count, size
        )

    def _repeated(self, batches: Sequence[Batch]) -> BatchMetadata | None:
        """The batch in the log that a producer has sent again. Raises what its sequence or epoch is refused for."""
        header = batches[0].header
        if header.producer_id < 0:
            return None
        assert len(batches) == 1, "clients send one batch for a partition at a time"
        if header.is_transactional:
            # Nobody coordinates transactions here, so none can be open that this batch belongs to.
            raise ApiError(ErrorCode.invalid_txn_state, f"producer {header.producer_id} is in no transaction")
        return self.producers.check(header)

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Write the leader's batches as they are; a partial one at the end is ignored.

        Raises CORRUPT_MESSAGE with nothing of the first bad batch written, and OFFSET_OUT_OF_RANGE when they do not lie at
        or behind the end of the log.
        """
        self._check_whole()
        view = memoryview(records)
        now_ms = self._world.clock.time_ms()
        first_offset: int | None = None
        record_count = total = 0
        newest = -1
        for first, run in self._runs(view):
            placed = [Placed(header.last_offset, header.max_timestamp, header.size_bytes) for _, header in run]
            start, size = run[0][0], sum(each.size_bytes for each in placed)
            newest_of_run = max(each.max_timestamp for each in placed)
            if first_offset is None:
                first_offset = first
            for _, header in run:
                epoch = header.partition_leader_epoch
                if epoch >= 0 and epoch != self.epochs.latest_epoch():
                    self.epochs.assign(epoch, header.base_offset)
            self._write(first, [view[start : start + size]], placed, size, newest_of_run, now_ms)
            self.producers.update_all(header for _, header in run)
            self._flush_if_due()
            total += size
            newest = max(newest, newest_of_run)
            record_count += sum(header.record_count for _, header in run)
        if first_offset is None:
            first_offset = self.end_offset
        return AppendInfo(first_offset, self.end_offset - 1, newest, -1, self.start_offset, record_count, total)

    def _runs(self, view: memoryview) -> Iterator[tuple[int, list[tuple[int, BatchHeader]]]]:
        """Checked batches in groups that fit a segment, each with its first offset."""
        run: list[tuple[int, BatchHeader]] = []
        size, expected = 0, self.end_offset
        try:
            for position, header in headers(view):
                check_crc(view, position, header)
                if header.base_offset < expected:
                    raise OffsetOutOfRange(header.base_offset, expected, expected)
                if run and size + header.size_bytes > self.config.segment_bytes:
                    yield run[0][1].base_offset, run
                    run, size = [], 0
                run.append((position, header))
                size += header.size_bytes
                expected = header.next_offset
        except CorruptBatch as problem:
            raise ApiError(ErrorCode.corrupt_message, str(problem)) from problem
        if run:
            yield run[0][1].base_offset, run

    def _write(
        self,
        first_offset: int,
        buffers: Sequence[Buffer],
        placed: Sequence[Placed],
        size: int,
        newest: int,
        now_ms: int,
    ) -> None:
        last_offset = placed[-1].last_offset
        try:
            if self.active_segment.should_roll(size, newest, last_offset, now_ms):
                self.roll()
            if not self.active_segment.takes_offset(last_offset):
                # Offsets jumped by 2**31: the empty segment at the log's end cannot hold them.
                self._replace_empty_active(first_offset)
            self.active_segment.append(buffers, placed)
            self.end_offset = last_offset + 1
        except OSError as problem:
            raise self._storage_error(problem) from problem

    def _check_whole(self) -> None:
        """Nothing may be appended to a log that was cut by halves. Where it ends is known when it is whole again."""
        if self._unfinished is not None:
            self._finish_cut()
            raise ApiError(
                ErrorCode.kafka_storage_error, f"{self.topic_partition}: its truncation was finished just now"
            )

    def _flush_if_due(self) -> None:
        """After all is noted of what was appended: it stays in the log, also when it cannot be synced."""
        if self.end_offset - self.recovery_point >= self.config.flush_messages:
            try:
                self.flush()
            except OSError as problem:
                raise self._storage_error(problem) from problem

    def _storage_error(self, problem: OSError) -> ApiError:
        _log.error("%s: append failed: %s", self.directory, problem)
        return ApiError(ErrorCode.kafka_storage_error, f"{self.topic_partition}: {problem}")

    def roll(self) -> None:
        """Begin a new segment exactly at the log's end. An empty active one is new enough."""
        if self.active_segment.size == 0:
            return
        self._snapshots.write(self.end_offset, self.producers.entries())
        self.active_segment.become_inactive()
        self._add_segment(self.end_offset)
        self._on_roll(self)

    def _add_segment(self, base_offset: int) -> None:
        self._segments.append(Segment.create(self._world, self.directory, base_offset, self.config))
        self._bases.append(base_offset)
        self._names_unsynced = True

    def _replace_empty_active(self, base_offset: int) -> None:
        assert self.active_segment.size == 0, f"{self.directory}: {base_offset} does not fit the active segment"
        self._doom(self.active_segment.mark_deleted())
        self._replace_last_segment(base_offset)

    # Reading

    def read(self, offset: int, max_bytes: int, up_to: int, *, at_least_one: bool) -> Buffer:
        """Whole batches from the one that contains ``offset``, all of whose offsets are below ``up_to``.

        Of one segment at most. With ``at_least_one`` the first batch may be larger than ``max_bytes``.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset >= min(up_to, self.end_offset):
            return b""
        try:
            number = bisect_right(self._bases, offset) - 1
            while number < len(self._segments):
                segment = self._segments[number]
                position = segment.locate(offset)
                if position < segment.size:
                    return segment.read(position, max_bytes, up_to, at_least_one=at_least_one)
                number += 1  # a gap at the end of this segment
        except CorruptBatch as problem:
            raise ApiError(ErrorCode.corrupt_message, str(problem)) from problem
        return b""

    def offset_for_timestamp(self, timestamp_ms: int, up_to: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record that is ``timestamp_ms`` or later, below ``up_to``."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            record = segment.first_record_at_or_after(timestamp_ms, self.start_offset)
            if record is not None:
                return None if record.offset >= up_to else self._with_epoch(record.timestamp, record.offset)
        return None

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record with the largest timestamp (KIP-734)."""
        newest = max(self._segments, key=lambda each: each.max_timestamp)
        if newest.max_timestamp < 0:
            return None
        record = newest.first_record_at_or_after(newest.max_timestamp, self.start_offset)
        return None if record is None else self._with_epoch(record.timestamp, record.offset)

    def _with_epoch(self, timestamp: int, offset: int) -> tuple[int, int, int]:
        epoch = self.epochs.epoch_for_offset(offset)
        return timestamp, offset, -1 if epoch is None else epoch

    def headers(self) -> Iterator[BatchHeader]:
        """Of every batch from the first segment on, in order."""
        for segment in self._segments:
            for _, header in segment.headers():
                yield header

    # Moving the ends

    def update_high_watermark(self, offset: int) -> None:
        """Kept within the log's start and end."""
        self.high_watermark = min(max(offset, self.start_offset), self.end_offset)

    def increment_start_offset(self, offset: int) -> None:
        """Records below ``offset`` are gone (DeleteRecords); whole segments below it go with the next retention."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(offset, self.start_offset, self.high_watermark)
        if offset > self.start_offset:
            self.epochs.truncate_from_start(offset)
            self.start_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Keep only batches that lie wholly below ``offset``: the log may end before it, never behind it."""
        assert offset >= 0, f"{self.directory}: truncation to {offset}"
        self._finish_cut()
        if offset < self.end_offset:
            self._cut(self._start_anew if offset < self._bases[0] else self._truncate, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and starts at ``offset``."""
        self._finish_cut()
        self._cut(self._start_anew, offset)

    def _cut(self, step: Callable[[int], None], offset: int) -> None:
        """Steps that can be repeated: the log's end moves last."""
        self._unfinished = (step, offset)
        self._finish_cut()

    def _finish_cut(self) -> None:
        """A cut that the disk let fail half way is repeated before anything else is done to the log."""
        if self._unfinished is not None:
            step, offset = self._unfinished
            step(offset)
            self._unfinished = None

    def _truncate(self, offset: int) -> None:
        _log.info("%s: truncated from %d to %d", self.directory, self.end_offset, offset)
        self._snapshots.remove_above(offset)
        while self._bases[-1] > offset:
            self._drop_last_segment()
        end = self.active_segment.truncate_to(offset)
        assert end <= offset, f"{self.directory}: ends at {end} after truncation to {offset}"
        self.epochs.truncate_from_end(end)
        if self.producers:
            load_producers(self.producers, self._snapshots, self._segments, end, self._world.clock.time_ms())
        self._ends_at(end, min(self.start_offset, end))

    def _start_anew(self, offset: int) -> None:
        _log.info("%s: dropped %d to %d, starts at %d", self.directory, self.start_offset, self.end_offset, offset)
        self._snapshots.remove_above(-1)
        self.producers.clear()
        while len(self._segments) > 1:
            self._drop_last_segment()
        self._doom(self.active_segment.mark_deleted())
        self.epochs.clear()
        self._replace_last_segment(offset)
        self._ends_at(offset, offset)

    def _drop_last_segment(self) -> None:
        self._doom(self.active_segment.mark_deleted())
        self._segments.pop()
        self._bases.pop()

    def _replace_last_segment(self, base_offset: int) -> None:
        self._segments[-1] = Segment.create(self._world, self.directory, base_offset, self.config)
        self._bases[-1] = base_offset
        self._names_unsynced = True

    def _ends_at(self, end_offset: int, start_offset: int) -> None:
        if self.recovery_point > end_offset:
            before, self.recovery_point = self.recovery_point, end_offset
            try:
                self._on_truncate(self)
            except OSError:
                self.recovery_point = before
                raise
        self.end_offset, self.start_offset = end_offset, start_offset
        self.update_high_watermark(self.high_watermark)

    # Retention and removal

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove whole segments that nobody may read any more; how many."""
        count, reasons = segments_to_delete(
            self._segments, self.config, self.start_offset, self.end_offset, self.high_watermark, now_ms
        )
        if count == len(self._segments):
            self.roll()
        if count:
            bases = ", ".join(str(each) for each in self._bases[:count])
            _log.info("%s: segments %s deleted (%s)", self.directory, bases, ", ".join(reasons))
        for _ in range(count):
            self._doom(self._segments[0].mark_deleted())
            del self._segments[0], self._bases[0]
            if self._bases[0] > self.start_offset:
                self.increment_start_offset(self._bases[0])
        if count:
            self._snapshots.remove_below(self._bases[0])
        return count

    def _doom(self, paths: list[str]) -> None:
        due_s = self._world.clock.monotonic() + self.config.file_delete_delay_ms / 1000
        self._doomed += [DoomedFile(path, due_s) for path in paths]

    def remove_doomed_files(self, now_s: float) -> None:
        """Remove deleted segments' files whose delay is over."""
        for each in self._doomed:
            if each.due_s <= now_s:
                self._world.files.remove(each.path)
        self._doomed = [each for each in self._doomed if each.due_s > now_s]

    # Durability

    def flush(self) -> None:
        self.flush_up_to(self.end_offset)

    def flush_up_to(self, offset: int) -> None:
        """Sync everything below ``offset``, in order, and move the recovery point there.

        The active segment's indexes are left alone: after anything but a clean shutdown they are written anew.
        """
        if offset <= self.recovery_point:
            return
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        for segment in self._segments[first:]:
            if segment.base_offset < offset:
                segment.sync(with_indexes=segment is not self.active_segment)
        if self._names_unsynced:
            self._world.files.sync_folder(self.directory)
            self._world.files.sync_folder(self.directory.rpartition("/")[0])
            self._names_unsynced = False
        self.recovery_point = offset
        self.last_flush_s = self._world.clock.monotonic()

    def close_cleanly(self) -> None:
        """Complete and sync everything: the next opening may trust it."""
        self._finish_cut()
        self.active_segment.become_inactive()
        self._snapshots.write(self.end_offset, self.producers.entries())
        self.flush()
        self.active_segment.sync(with_indexes=True)
        self.close()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
