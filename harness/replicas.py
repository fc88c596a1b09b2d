"""What each broker has on disk after recovery: the table ``replicas``, read from the brokers' own segments.

The shipped broker and Apache Kafka keep logs and checkpoints in the same format, so one reader serves both. Brokers are
idle by then but alive: stopping them in good order would take longer, and prove no more. What is compared lies below
the *checkpointed* high watermarks, which follow the logs' ends with some delay; so these are waited for first, and
the segments are read after them: a log never ends below a high watermark that was written before.

A batch that cannot be read ends its log here. If that is below the high watermark, the log differs from the others.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from histories.recorded import ReplicaLog
from system_under_test.realworld.files import RealFiles
from system_under_test.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, CheckpointError, read_offsets
from system_under_test.storage.scan import BadBatch, walk_headers
from system_under_test.storage.segment import LOG_SUFFIX
from system_under_test.types import TopicPartition

CHECKPOINT_DEADLINE_S: Final = 12.0
"""Both brokers write high watermarks every five seconds; a broker that is dead or lags does not get there."""
_LOOK_EVERY_S: Final = 0.2
_WINDOW_BYTES: Final = 1 << 20
_files = RealFiles()


def replica_logs(
    log_dirs: Mapping[int, Path],
    keys: Iterable[tuple[int, str, int]],
    deadline_s: float = CHECKPOINT_DEADLINE_S,
) -> Iterator[ReplicaLog]:
    """The replicas of these keys (number, topic, partition), one after the other."""
    wanted = [(key, TopicPartition(topic, partition)) for key, topic, partition in keys]
    here = {
        (broker, each): _folder(folder, each)
        for broker, folder in sorted(log_dirs.items())
        for _, each in wanted
        if _folder(folder, each).is_dir()
    }
    _await_checkpoints(log_dirs, {place: _end_offset(folder) for place, folder in here.items()}, deadline_s)
    marks = {broker: _checkpoint(folder, HIGH_WATERMARKS) for broker, folder in log_dirs.items()}
    starts = {broker: _checkpoint(folder, LOG_START_OFFSETS) for broker, folder in log_dirs.items()}
    for key, partition in wanted:
        for broker in sorted(log_dirs):
            if (broker, partition) in here:
                folder = here[broker, partition]
                log_start, mark = starts[broker].get(partition, 0), marks[broker].get(partition, 0)
                yield _read(folder, broker, key, log_start, mark)


def _folder(log_dir: Path, partition: TopicPartition) -> Path:
    return log_dir / f"{partition.topic}-{partition.partition}"


def _segments(folder: Path) -> list[Path]:
    """In the order of their names, which are their base offsets with leading zeros."""
    return sorted(folder.glob(f"*{LOG_SUFFIX}"))


def _checkpoint(log_dir: Path, name: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(_files, str(log_dir / name))
    except CheckpointError:
        return {}  # nothing is known of this broker's high watermarks then, and nothing is compared


def _await_checkpoints(
    log_dirs: Mapping[int, Path], ends: Mapping[tuple[int, TopicPartition], int], deadline_s: float
) -> None:
    """Until every log of the brokers is committed up to its end by its own checkpoint, or the time is up."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        marks = {broker: _checkpoint(folder, HIGH_WATERMARKS) for broker, folder in log_dirs.items()}
        if all(marks[broker].get(partition, 0) >= end for (broker, partition), end in ends.items()):
            return
        time.sleep(_LOOK_EVERY_S)


def _end_offset(folder: Path) -> int:
    segments = _segments(folder)
    if not segments:
        return 0
    end = int(segments[-1].stem)
    file = _files.open(str(segments[-1]))
    try:
        for _, header in walk_headers(file, 0, file.size()):
            end = header.next_offset
    except BadBatch:
        pass  # what is behind it counts for nobody
    finally:
        file.close()
    return end


def _read(folder: Path, broker: int, key: int, log_start: int, high_watermark: int) -> ReplicaLog:
    first: int | None = None
    offset, last_offset, digest, leader_epoch = array("q"), array("q"), array("q"), array("i")
    for segment in _segments(folder):
        try:
            file = _files.open(str(segment))
        except FileNotFoundError:
            continue  # retention took it since it was listed; the log begins later now
        first = int(segment.stem) if first is None else first
        try:
            size = file.size()
            window, window_at = b"", 0
            for position, header in walk_headers(file, 0, size):
                at = position - window_at
                if at + header.size_bytes > len(window):
                    window, window_at, at = file.read_at(position, max(_WINDOW_BYTES, header.size_bytes)), position, 0
                digest.append(_digest(window[at : at + header.size_bytes]))
                offset.append(header.base_offset)
                last_offset.append(header.last_offset)
                leader_epoch.append(header.partition_leader_epoch)
        except BadBatch:
            break
        finally:
            file.close()
    return ReplicaLog(
        broker,
        key,
        max(log_start, first or 0),
        high_watermark,
        np.frombuffer(offset, np.int64),
        np.frombuffer(last_offset, np.int64),
        np.frombuffer(digest, np.int64),
        np.frombuffer(leader_epoch, np.int32),
    )


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)
