"""Opening a log, after any end that its last life may have had.

What a crash leaves
-------------------
``kill -9`` loses nothing that was written: the page cache stays. The last write may be cut at any byte. A loss of power keeps what was
synced, and of the rest any part: a file may be shorter, hold garbage, or not be there. Two facts on disk tell
how far to trust a log:

* ``.kafka_cleanshutdown``: everything was synced. It is removed, and its removal synced, before anything is opened.
* the recovery point: everything below it was synced. It is checkpointed from time to time, so it may be too low,
  which costs time, but never too high, which would cost truth.

Without a clean shutdown every segment from the one that holds the recovery point is read byte for byte. The log is cut
at the first batch that is not whole, not valid, or not in order; segments behind the cut are removed. Both indexes
of each segment that was read are written anew, and so are the leader epochs from there on: they are what
the batches say, whatever the checkpoint said. The segments below are only looked at: an index that is
missing or does not fit is rebuilt.

A hole between two segments cannot be told from what compaction leaves, except above the recovery point: there a
segment always begins where the one before it ends, because :meth:`Log.roll` begins a new segment exactly at
the log's end. So a segment that lost its unsynced end in a loss of power, while its successor lost nothing, is noticed,
and the successor goes. (Compaction will have to sync what it writes and move the recovery point.)

Steps over several files, and what a crash between them leaves
---------------------------------------------------------------
roll        The old segment's indexes are completed, then the new files are made. A log file without indexes gets
            new ones. The old segment is synced later, by the manager; until then the recovery point stays below it.
truncate    Segments above are renamed to ``.deleted`` from the highest down, each rename synced before the next: what
            is left is always the log or a shorter log, never one with a hole. Then the last segment is cut
            and *the cut is synced*: else a loss of power could bring the old records back after new ones and a new
            leader epoch had been written in their place, and the epochs, which are synced, would vouch for the wrong records.
            Then indexes, then epochs: both are put right on opening if the crash comes before. At last the recovery
            point, if it lay above, is lowered and checkpointed before the next append can happen; a crash before that
            leaves it above the log's end, and opening lowers it in the same way. A disk that fails in between: the steps are
            repeated, by the next truncation or append, before anything else is done; the log's end moves last.
delete      Retention removes from the lowest up, each rename synced before the next. ``.log`` is renamed first:
            indexes without a log are orphans and removed. The log then starts at its first segment, or at the
            checkpointed log start if that is higher.
start anew  (``truncate_fully_and_start_at``) All segments go, highest first, then the epochs, then the new one is made. In
            between the log is shorter or empty: a follower that opens such a log starts over, as it was about to.
records     DeleteRecords moves the log's start in memory, trims the epochs, and is checkpointed later: a crash before
            that brings the records back, as in Kafka, but not the epochs below the start that was asked for. So an epoch
            cache that begins behind the log's start is completed from the batches.
checkpoint  Files are replaced atomically. The recovery point is written after the sync it tells of. The high watermark
            may be above what a loss of power left: it is lowered to the log's end.
producers   What is known of idempotent producers is a snapshot (``.snapshot``) and what the batches behind it say. A snapshot is
            written when a segment begins and at a clean shutdown, and holds for the log below its offset whatever
            comes later, with one exception: truncation. So truncation removes the snapshots above its target, and
            syncs that, before it touches the log; opening does the same after having found the log's end. One
            without a valid CRC is removed, and an older one, or the whole log, is read.
partition   A deleted partition's folder is renamed (``…-delete``) and the rename synced; such folders are removed on opening.

Opening is itself made of such steps and can be interrupted and repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from system_under_test.protocol.batch import CorruptBatch
from system_under_test.storage.checkpoints import LEADER_EPOCHS, CheckpointError, read_epochs, write_epochs
from system_under_test.storage.config import LogConfig
from system_under_test.storage.epochs import EpochEntry, LeaderEpochCache
from system_under_test.storage.producer_snapshots import ProducerSnapshots
from system_under_test.storage.producer_state import ProducerStateManager
from system_under_test.storage.scan import BadBatch, Found
from system_under_test.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES, Segment, StorageWorld
from system_under_test.world import Files

_log = logging.getLogger(__name__)

_NAME_DIGITS = 20


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did. Nothing but the counters of a clean opening is worth a line."""

    folder: str
    was_clean: bool
    recovered_segments: list[int] = field(default_factory=list)
    """Base offsets of those that were read byte for byte."""
    problem: str | None = None
    """Why the log was cut."""
    truncated_bytes: int = 0
    removed_segments: list[int] = field(default_factory=list)
    rebuilt_indexes: list[str] = field(default_factory=list)
    removed_files: list[str] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0

    @property
    def found_damage(self) -> bool:
        return self.problem is not None or bool(self.rebuilt_indexes) or bool(self.removed_segments)

    def __str__(self) -> str:
        parts = [f"{self.folder}: offsets {self.start_offset} to {self.end_offset}"]
        if self.recovered_segments:
            parts.append(f"read segments {_joined(self.recovered_segments)} byte for byte")
        if self.problem is not None:
            parts.append(f"cut {self.truncated_bytes} bytes ({self.problem})")
        if self.removed_segments:
            parts.append(f"removed segments {_joined(self.removed_segments)}")
        if self.rebuilt_indexes:
            parts.append(f"rebuilt indexes ({'; '.join(self.rebuilt_indexes)})")
        if self.removed_files:
            parts.append(f"removed {len(self.removed_files)} files of steps that were not finished")
        return "; ".join(parts)


def _joined(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class OpenedLog:
    segments: list[Segment]
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshots: ProducerSnapshots
    report: RecoveryReport


def open_log(
    world: StorageWorld,
    folder: str,
    config: LogConfig,
    *,
    was_clean: bool,
    recovery_point: int,
    start_offset: int,
    producer_expiration_ms: int,
) -> OpenedLog:
    """``recovery_point`` and ``start_offset`` as checkpointed (0 when they are not)."""
    files = world.files
    files.make_folder(folder)
    report = RecoveryReport(folder, was_clean)
    epochs_path = f"{folder}/{LEADER_EPOCHS}"
    entries: list[EpochEntry] = []
    try:
        entries = read_epochs(files, epochs_path)
    except CheckpointError as problem:
        # The batches know their epochs: read all of them.
        report.rebuilt_indexes.append(str(problem))
        was_clean, recovery_point = False, 0
    epochs = LeaderEpochCache(entries, lambda kept: write_epochs(files, epochs_path, kept))

    opening = _Opening(world, folder, config, report, epochs)
    segments = opening.listed_segments()
    end_offset = opening.trust(segments) if was_clean else opening.recover(segments, recovery_point)
    if segments:
        start_offset = max(start_offset, segments[0].base_offset)
        if end_offset < start_offset:
            _log.warning("%s: ends at %d, before its start %d: starts anew there", folder, end_offset, start_offset)
            opening.remove_from(segments, 0)
            epochs.clear()
    producers, snapshots = ProducerStateManager(producer_expiration_ms), ProducerSnapshots(files, folder)
    if not segments:
        snapshots.remove_above(-1)
        segments.append(Segment.create(world, folder, start_offset, config))
        end_offset = start_offset
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    opening.complete_epochs(segments, start_offset, end_offset)
    load_producers(producers, snapshots, segments, end_offset, world.clock.time_ms())
    snapshots.remove_strays({each.base_offset for each in segments})
    report.start_offset, report.end_offset = start_offset, end_offset
    if report.found_damage:
        _log.warning("opened %s", report)
    elif report.recovered_segments:
        _log.info("opened %s", report)
    recovery_point = min(recovery_point, end_offset)
    return OpenedLog(segments, start_offset, end_offset, recovery_point, epochs, producers, snapshots, report)


def load_producers(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    end_offset: int,
    now_ms: int,
) -> None:
    """As of ``end_offset``, the end of these segments: from the last snapshot that is not above it, and the batches behind."""
    snapshots.remove_above(end_offset)
    snapshots.remove_below(segments[0].base_offset)
    known_to, entries = snapshots.latest() or (segments[0].base_offset, [])
    producers.load(entries, now_ms)
    for number, segment in enumerate(segments):
        if known_to < (segments[number + 1].base_offset if number + 1 < len(segments) else end_offset):
            try:
                producers.update_all(header for _, header in segment.headers(known_to))
            except (BadBatch, CorruptBatch) as problem:
                _log.warning("%s: producers stay unknown: %s", segment.path(LOG_SUFFIX), problem)


@dataclass(frozen=True, slots=True)
class _Opening:
    world: StorageWorld
    folder: str
    config: LogConfig
    report: RecoveryReport
    epochs: LeaderEpochCache

    @property
    def files(self) -> Files:
        return self.world.files

    def listed_segments(self) -> list[Segment]:
        """In order. What a step that was not finished left behind is removed."""
        names = self.files.list(self.folder)
        logs = {name for name in names if name.endswith(LOG_SUFFIX) and _is_base_offset(name[: -len(LOG_SUFFIX)])}
        bases = []
        for name in names:
            if name in logs:
                bases.append(int(name[: -len(LOG_SUFFIX)]))
            elif name.endswith((DELETED_SUFFIX, ".tmp")) or self._is_orphan(name, logs):
                self.files.remove(f"{self.folder}/{name}")
                self.report.removed_files.append(name)
        return [Segment(self.world, self.folder, base, self.config) for base in sorted(bases)]

    def _is_orphan(self, name: str, logs: set[str]) -> bool:
        stem, dot, suffix = name.partition(".")
        return dot + suffix in SUFFIXES and _is_base_offset(stem) and stem + LOG_SUFFIX not in logs

    def trust(self, segments: list[Segment]) -> int:
        """After a clean shutdown. The end of the log is looked at all the same: appends go there."""
        if not segments:
            return 0
        for segment in segments[:-1]:
            self._check_indexes(segment)
        active = segments[-1]
        if self._check_indexes(active):
            try:
                return active.open_trusting_index()
            except BadBatch as problem:
                _log.warning("%s: %s, in spite of a clean shutdown", active.path(LOG_SUFFIX), problem)
        else:
            active.close()
        return self.recover(segments, active.base_offset)

    def recover(self, segments: list[Segment], recovery_point: int) -> int:
        """Read from the recovery point on, cut at the first bad batch; the log's end."""
        if not segments:
            return 0
        first = 0
        while first + 1 < len(segments) and segments[first + 1].base_offset <= recovery_point:
            self._check_indexes(segments[first])
            first += 1
        self.epochs.truncate_from_end(segments[first].base_offset)
        end_offset = segments[first].base_offset
        number = first
        while number < len(segments):
            segment = segments[number]
            if number > first and segment.base_offset != end_offset:
                self.report.problem = f"segment {segment.base_offset} should begin at {end_offset}"
                self.remove_from(segments, number)
                break
            size = segment.file.size()
            result = segment.recover(segments[number + 1].base_offset if number + 1 < len(segments) else None)
            self.report.recovered_segments.append(segment.base_offset)
            end_offset = result.next_offset
            self._assign_epochs(result.batches)
            number += 1
            if result.problem is not None:
                self.report.problem = f"segment {segment.base_offset}: {result.problem}"
                self.report.truncated_bytes = size - result.valid_bytes
                self.remove_from(segments, number)
        return end_offset

    def _assign_epochs(self, batches: list[Found]) -> None:
        """Only changes are assigned: each is a write."""
        for _, header in batches:
            epoch = header.partition_leader_epoch
            if epoch >= 0 and epoch != self.epochs.latest_epoch():
                self.epochs.assign(epoch, header.base_offset)

    def complete_epochs(self, segments: list[Segment], start_offset: int, end_offset: int) -> None:
        """The epochs must tell of every record that is there."""
        known = self.epochs.entries()
        known_from = known[0].start_offset if known else end_offset
        if known_from <= start_offset:
            return
        missing: list[EpochEntry] = []
        try:
            for segment in segments:
                if segment.base_offset >= known_from:
                    break
                for _, header in segment.headers():
                    offset, epoch = max(header.base_offset, start_offset), header.partition_leader_epoch
                    if offset >= known_from:
                        break
                    if header.last_offset >= start_offset and epoch > (missing[-1].epoch if missing else -1):
                        missing.append(EpochEntry(epoch, offset))
        except BadBatch as problem:
            _log.warning("%s: leader epochs below %d stay unknown: %s", self.folder, known_from, problem)
            return
        if missing:
            rest = known[1:] if known and missing[-1].epoch == known[0].epoch else known
            self.epochs.replace_all(missing + rest)
            self.report.rebuilt_indexes.append(f"{LEADER_EPOCHS} began at {known_from}, the log at {start_offset}")

    def _check_indexes(self, segment: Segment) -> bool:
        """Rebuild what is missing or does not fit. False when the log itself is not in order."""
        size = segment.file.size()
        problems = [
            f"{path.rpartition('/')[2]} {problem}"
            for path, problem in (
                (segment.index.path, segment.index.problem(size)),
                (segment.times.path, segment.times.problem()),
            )
            if problem is not None
        ]
        segment.open_inactive()
        if not problems:
            return True
        self.report.rebuilt_indexes += problems
        try:
            segment.rebuild_indexes()
        except BadBatch as problem:
            _log.warning("%s: %s", segment.path(LOG_SUFFIX), problem)
            return False
        return True

    def remove_from(self, segments: list[Segment], number: int) -> None:
        """Highest first, so that a crash in between leaves no hole."""
        while len(segments) > number:
            segment = segments.pop()
            self.report.removed_segments.append(segment.base_offset)
            for path in segment.mark_deleted():
                self.files.remove(path)


def _is_base_offset(stem: str) -> bool:
    return len(stem) == _NAME_DIGITS and stem.isdigit()
