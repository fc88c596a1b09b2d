"""All logs of a broker: opening and closing them, where new ones go, and the work that is due from time to time.

Each log dir has checkpoint files of its own, for the logs that lie in it. High watermarks are checkpointed by whoever
moves them (the replica manager calls :meth:`LogManager.checkpoint_high_watermarks`); the rest is :meth:`LogManager.run`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

from system_under_test.config import BrokerConfig
from system_under_test.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointError,
    MetaProperties,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from system_under_test.storage.config import LogConfig
from system_under_test.storage.log import DoomedFile, Log
from system_under_test.storage.recovery import RecoveryReport
from system_under_test.storage.segment import StorageWorld
from system_under_test.types import TopicPartition

_log = logging.getLogger(__name__)

DELETE_SUFFIX = "-delete"
LOCK = ".lock"
"""Held by the broker that runs. Opening a log cuts off what is not whole: of a log that somebody writes, that is the rest
of a batch."""
_LEFT_ALONE = ("-stray", "-future")
_NAME_LIMIT = 255
_NEVER_MS = 100 * 365 * 24 * 3_600_000
_REMOVAL_INTERVAL_MS = 1_000
_NO_BROKER_EPOCH = -1
"""What a broker with ZooKeeper writes into its clean-shutdown file."""


class LogDirError(Exception):
    """The log dirs are not fit for this broker; the message says what to change."""


def generated_broker_id(world: StorageWorld, log_dirs: Sequence[str]) -> int | None:
    """The id that an earlier life of this broker left in its ``meta.properties``."""
    for log_dir in log_dirs:
        meta = read_meta_properties(world.files, log_dir)
        if meta is not None:
            return meta.broker_id
    return None


class LogManager:
    def __init__(
        self,
        world: StorageWorld,
        log_dirs: Sequence[str],
        broker_id: int,
        defaults: Mapping[str, str],
        *,
        cluster_id: str | None = None,
    ) -> None:
        if not log_dirs or len(set(log_dirs)) != len(log_dirs):
            raise LogDirError(f"log.dirs: one or more different folders are needed, not {list(log_dirs)}")
        self.log_dirs: tuple[str, ...] = tuple(each.rstrip("/") for each in log_dirs)
        self.offline_dirs: dict[str, str] = {}
        """Dirs that could not be read, and why."""
        self._loaded_dirs: list[str] = []
        """Dirs all of whose logs were opened."""
        self.reports: list[RecoveryReport] = []
        """What opening each log found, in order."""
        self._world = world
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._defaults = dict(defaults)
        self._intervals = BrokerConfig(self._defaults)
        self._logs: dict[TopicPartition, Log] = {}
        self._dir_of: dict[TopicPartition, str] = {}
        self._loaded_high_watermarks: dict[TopicPartition, int] = {}
        self._doomed_folders: list[DoomedFile] = []
        self._to_flush: dict[TopicPartition, None] = {}
        self._flush_wanted = asyncio.Event()

    # Opening

    def load(self, topic_configs: Mapping[str, Mapping[str, str]]) -> None:
        """Open every log. A dir that cannot be read is left out, as long as one is left."""
        for log_dir in self.log_dirs:
            try:
                self._load_dir(log_dir, topic_configs)
                self._loaded_dirs.append(log_dir)
            except OSError as problem:
                _log.error("log dir %s is offline: %s", log_dir, problem)
                self.offline_dirs[log_dir] = str(problem)
                for each in self._in_dir(log_dir):
                    del self._logs[each.topic_partition], self._dir_of[each.topic_partition]
        if len(self.offline_dirs) == len(self.log_dirs):
            raise LogDirError(f"no log dir can be used: {self.offline_dirs}")
        # Opening may have lowered recovery points, and dropped what belonged to logs that are gone:
        # that has to be on disk before anything is appended.
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()

    def _load_dir(self, log_dir: str, topic_configs: Mapping[str, Mapping[str, str]]) -> None:
        files = self._world.files
        if not files.is_folder(log_dir):
            files.make_folder(log_dir)
            files.sync_folder(log_dir.rpartition("/")[0] or "/")
        if not files.lock(f"{log_dir}/{LOCK}"):
            raise LogDirError(f"{log_dir}: another broker that runs uses this dir; stop it, or change log.dirs")
        self._check_meta(log_dir)
        was_clean = take_clean_shutdown(files, log_dir)
        recovery_points = self._read_offsets(log_dir, RECOVERY_POINTS)
        start_offsets = self._read_offsets(log_dir, LOG_START_OFFSETS)
        high_watermarks = self._read_offsets(log_dir, HIGH_WATERMARKS)
        for name in files.list(log_dir):
            folder = f"{log_dir}/{name}"
            if not files.is_folder(folder):
                continue
            if name.endswith(DELETE_SUFFIX):
                _log.info("%s: its deletion is completed", folder)
                files.remove(folder)
                continue
            partition = _parsed(name)
            if partition is None:
                _log.warning("%s: not a partition, left alone", folder)
                continue
            if partition in self._logs:
                raise LogDirError(f"{partition} is in {self._dir_of[partition]} and in {log_dir}: remove one of them")
            self._loaded_high_watermarks[partition] = high_watermarks.get(partition, 0)
            self._open(
                partition,
                log_dir,
                LogConfig.of_stored(self._defaults, topic_configs.get(partition.topic, {})),
                was_clean=was_clean,
                recovery_point=recovery_points.get(partition, 0),
                start_offset=start_offsets.get(partition, 0),
            )

    def _check_meta(self, log_dir: str) -> None:
        meta = read_meta_properties(self._world.files, log_dir)
        if meta is None:
            write_meta_properties(self._world.files, log_dir, MetaProperties(self._broker_id, self._cluster_id))
            return
        if meta.broker_id != self._broker_id:
            raise LogDirError(
                f"{log_dir} belongs to broker {meta.broker_id}, this is broker {self._broker_id}: "
                "change broker.id, or use another dir"
            )
        if self._cluster_id is not None and meta.cluster_id not in (None, self._cluster_id):
            raise LogDirError(
                f"{log_dir} belongs to cluster {meta.cluster_id}, this is cluster {self._cluster_id}: "
                "check zookeeper.connect, or use another dir"
            )
        if self._cluster_id is not None and meta.cluster_id is None:
            write_meta_properties(self._world.files, log_dir, MetaProperties(self._broker_id, self._cluster_id))

    def _read_offsets(self, log_dir: str, name: str) -> dict[TopicPartition, int]:
        """An unreadable checkpoint is as good as none: recovery then reads more, and offsets begin lower."""
        try:
            return read_offsets(self._world.files, f"{log_dir}/{name}")
        except CheckpointError as problem:
            _log.warning("%s: ignored", problem)
            return {}

    def _open(
        self,
        partition: TopicPartition,
        log_dir: str,
        config: LogConfig,
        *,
        was_clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
    ) -> Log:
        log = Log(
            self._world,
            f"{log_dir}/{partition}",
            partition,
            config,
            was_clean=was_clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            high_watermark=self._loaded_high_watermarks.get(partition, 0),
            producer_expiration_ms=self._intervals.producer_id_expiration_ms,
            on_roll=self._rolled,
            on_truncate=self._truncated,
        )
        self._logs[partition] = log
        self._dir_of[partition] = log_dir
        self.reports.append(log.opening)
        return log

    # Logs

    def get(self, partition: TopicPartition) -> Log | None:
        return self._logs.get(partition)

    def all_logs(self) -> Sequence[Log]:
        """In order of topic and partition."""
        return [self._logs[each] for each in sorted(self._logs)]

    def dir_of(self, partition: TopicPartition) -> str:
        return self._dir_of[partition]

    def get_or_create(self, partition: TopicPartition, overrides: Mapping[str, str]) -> Log:
        """A new log goes to the dir that has the fewest."""
        log = self._logs.get(partition)
        if log is not None:
            return log
        config = LogConfig.of_stored(self._defaults, overrides)
        usable = [each for each in self.log_dirs if each not in self.offline_dirs]
        log_dir = min(usable, key=lambda each: sum(1 for _ in self._in_dir(each)))
        return self._open(partition, log_dir, config, was_clean=True)

    def delete(self, partition: TopicPartition) -> None:
        """Rename the folder at once, remove it later: a new log of the same name may be made meanwhile."""
        log = self._logs.pop(partition, None)
        if log is None:
            return
        log_dir = self._dir_of.pop(partition)
        self._loaded_high_watermarks.pop(partition, None)
        self._to_flush.pop(partition, None)
        log.close()
        doomed = f"{log_dir}/{_doomed_name(partition, uuid.UUID(int=self._world.random.getrandbits(128)).hex)}"
        self._world.files.replace(log.directory, doomed)
        self._world.files.sync_folder(log_dir)
        due_s = self._world.clock.monotonic() + log.config.file_delete_delay_ms / 1000
        self._doomed_folders.append(DoomedFile(doomed, due_s))
        _log.info("%s is deleted: renamed to %s", partition, doomed)
        # No checkpoint may speak of it any more: a new log of that name would believe it after a crash.
        for name, value in _CHECKPOINTS:
            self._checkpoint(log_dir, name, value)

    def update_defaults(self, defaults: Mapping[str, str], topic_config: Callable[[str], Mapping[str, str]]) -> None:
        """The broker's own settings have changed."""
        self._defaults = dict(defaults)
        for topic in sorted({partition.topic for partition in self._logs}):
            self.update_config(topic, topic_config(topic))

    def update_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        config = LogConfig.of_stored(self._defaults, overrides)
        for partition, log in self._logs.items():
            if partition.topic == topic:
                log.update_config(config)

    def _in_dir(self, log_dir: str) -> list[Log]:
        return [self._logs[each] for each, its_dir in sorted(self._dir_of.items()) if its_dir == log_dir]

    # Checkpoints

    def high_watermark_checkpoint(self, partition: TopicPartition) -> int:
        """As it was when the log was opened; 0 for a new one."""
        return self._loaded_high_watermarks.get(partition, 0)

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint_all(HIGH_WATERMARKS, _high_watermark)

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint_all(RECOVERY_POINTS, _recovery_point)

    def checkpoint_log_start_offsets(self) -> None:
        self._checkpoint_all(LOG_START_OFFSETS, _log_start)

    def _checkpoint_all(self, name: str, value: Callable[[Log], int | None]) -> None:
        for log_dir in self.log_dirs:
            if log_dir not in self.offline_dirs:
                self._checkpoint(log_dir, name, value)

    def _checkpoint(self, log_dir: str, name: str, value: Callable[[Log], int | None]) -> None:
        values = ((each.topic_partition, value(each)) for each in self._in_dir(log_dir))
        offsets = {partition: offset for partition, offset in values if offset is not None}
        write_offsets(self._world.files, f"{log_dir}/{name}", offsets)

    def _truncated(self, log: Log) -> None:
        self._checkpoint(self._dir_of[log.topic_partition], RECOVERY_POINTS, _recovery_point)

    # Work from time to time

    def _rolled(self, log: Log) -> None:
        self._to_flush[log.topic_partition] = None
        self._flush_wanted.set()

    async def run(self) -> None:
        """Until cancelled: checkpoints, retention, removal of deleted files, syncs by interval and after rolls."""
        intervals = self._intervals
        await asyncio.gather(
            self._flush_closed_segments(),
            self._every(intervals.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points),
            self._every(intervals.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_start_offsets),
            self._every(intervals.log_retention_check_interval_ms, self.delete_old_segments),
            self._every(intervals.log_flush_scheduler_interval_ms, self.flush_dirty_logs),
            self._every(_REMOVAL_INTERVAL_MS, self.remove_doomed),
            self._every(intervals.producer_id_expiration_check_interval_ms, self.remove_expired_producers),
        )

    async def _every(self, interval_ms: int, job: Callable[[], None]) -> None:
        if interval_ms > _NEVER_MS:
            return
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                job()
            except OSError as problem:
                _log.error("%s failed, it is tried again: %s", job.__name__, problem)

    async def _flush_closed_segments(self) -> None:
        """As Kafka does after a roll, so that little is left to sync or to recover; one log per turn of the loop."""
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted.clear()
            for partition in list(self._to_flush):
                self._to_flush.pop(partition, None)
                log = self._logs.get(partition)
                if log is not None:
                    try:
                        log.flush_up_to(log.active_segment.base_offset)
                    except OSError as problem:
                        _log.error("%s: its closed segments could not be synced: %s", partition, problem)
                await asyncio.sleep(0)

    def delete_old_segments(self) -> None:
        now_ms = self._world.clock.time_ms()
        for log in self.all_logs():
            log.delete_old_segments(now_ms)

    def remove_expired_producers(self) -> None:
        now_ms = self._world.clock.time_ms()
        for log in self.all_logs():
            expired = log.producers.remove_expired(now_ms)
            if expired:
                _log.info("%s: %d producers have expired", log.topic_partition, len(expired))

    def flush_dirty_logs(self) -> None:
        """Those whose ``flush.ms`` has passed since their last sync."""
        now_s = self._world.clock.monotonic()
        for log in self.all_logs():
            if (now_s - log.last_flush_s) * 1000 >= log.config.flush_ms:
                log.flush()

    def remove_doomed(self) -> None:
        now_s = self._world.clock.monotonic()
        for log in self._logs.values():
            log.remove_doomed_files(now_s)
        for each in self._doomed_folders:
            if each.due_s <= now_s:
                self._world.files.remove(each.path)
        self._doomed_folders = [each for each in self._doomed_folders if each.due_s > now_s]

    def shutdown(self) -> None:
        """Sync and checkpoint everything, then say so. A dir in which that fails is recovered at the next start.

        Of a start that was refused half way, other dirs are left alone: their logs, or their owner, are not known.
        """
        for log_dir in self._loaded_dirs:
            try:
                for log in self._in_dir(log_dir):
                    log.close_cleanly()
                for name, value in _CHECKPOINTS:
                    self._checkpoint(log_dir, name, value)
                write_clean_shutdown(self._world.files, log_dir, _NO_BROKER_EPOCH)
            except OSError as problem:
                _log.error("%s: not shut down cleanly: %s", log_dir, problem)


def _high_watermark(log: Log) -> int | None:
    return log.high_watermark


def _recovery_point(log: Log) -> int | None:
    return log.recovery_point


def _log_start(log: Log) -> int | None:
    """Only where the first segment does not tell."""
    return log.start_offset if log.start_offset > log.segments[0].base_offset else None


_CHECKPOINTS: tuple[tuple[str, Callable[[Log], int | None]], ...] = (
    (RECOVERY_POINTS, _recovery_point),
    (LOG_START_OFFSETS, _log_start),
    (HIGH_WATERMARKS, _high_watermark),
)


def _parsed(name: str) -> TopicPartition | None:
    topic, _, number = name.rpartition("-")
    if name.endswith(_LEFT_ALONE) or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def _doomed_name(partition: TopicPartition, unique: str) -> str:
    suffix = f"-{partition.partition}.{unique}{DELETE_SUFFIX}"
    return partition.topic[: _NAME_LIMIT - len(suffix)] + suffix
