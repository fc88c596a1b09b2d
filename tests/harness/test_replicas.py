"""What a broker has on disk, read for the table ``replicas``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from harness.replicas import replica_logs
from histories.recorded import ReplicaLog
from system_under_test.protocol.batch import assign, encode
from system_under_test.realworld.files import RealFiles
from system_under_test.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, write_offsets
from system_under_test.types import TopicPartition

T0 = TopicPartition("t", 0)
KEYS = [(0, "t", 0)]


def broker_with(
    folder: Path, segments: Mapping[int, Sequence[tuple[int, bytes]]], high_watermark: int | None, log_start: int = 0
) -> Path:
    """A log dir with one partition; of each segment the batches' leader epochs and values, a record each."""
    partition = folder / "t-0"
    partition.mkdir(parents=True)
    for base_offset, batches in segments.items():
        data = b""
        for number, (epoch, value) in enumerate(batches):
            batch = bytearray(encode([(None, value)], timestamp_ms=5))
            assign(batch, 0, base_offset + number, epoch)
            data += batch
        (partition / f"{base_offset:020d}.log").write_bytes(data)
    if high_watermark is not None:
        write_offsets(RealFiles(), str(folder / HIGH_WATERMARKS), {T0: high_watermark})
    if log_start:
        write_offsets(RealFiles(), str(folder / LOG_START_OFFSETS), {T0: log_start})
    return folder


def read(log_dirs: Mapping[int, Path]) -> dict[int, ReplicaLog]:
    found = {log.broker: log for log in replica_logs(log_dirs, KEYS, deadline_s=0.0)}
    assert all(log.key == 0 for log in found.values())
    return found


def test_batches_of_all_segments_with_offsets_epochs_and_marks(tmp_path: Path) -> None:
    one = broker_with(tmp_path / "1", {0: [(0, b"a"), (0, b"b")], 2: [(3, b"c")]}, 3, log_start=1)
    other = broker_with(tmp_path / "2", {2: [(3, b"c")]}, 3)
    logs = read({1: one, 2: other})
    assert logs[1].offset.tolist() == logs[1].last_offset.tolist() == [0, 1, 2]
    assert logs[1].leader_epoch.tolist() == [0, 0, 3]
    assert [(each.log_start, each.high_watermark) for each in logs.values()] == [(1, 3), (2, 3)]
    assert logs[1].digest[2] == logs[2].digest[0]
    assert len(set(logs[1].digest.tolist())) == 3


def test_a_single_flipped_bit_is_another_digest(tmp_path: Path) -> None:
    folders = {n: broker_with(tmp_path / str(n), {0: [(0, b"a" * 100)]}, 1) for n in (1, 2)}
    segment = tmp_path / "2" / "t-0" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[-30] ^= 1
    segment.write_bytes(data)
    logs = read(folders)
    assert logs[1].offset.tolist() == logs[2].offset.tolist()
    assert logs[1].digest.tolist() != logs[2].digest.tolist()


def test_what_cannot_be_read_ends_the_log(tmp_path: Path) -> None:
    folder = broker_with(tmp_path / "1", {0: [(0, b"a"), (0, b"b")], 2: [(0, b"c")]}, 3)
    segment = folder / "t-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    assert read({1: folder})[1].offset.tolist() == [0]


def test_a_segment_that_retention_takes_meanwhile(tmp_path: Path) -> None:
    folder = broker_with(tmp_path / "1", {0: [(0, b"a")], 1: [(0, b"b")]}, 2)
    first = folder / "t-0" / f"{0:020d}.log"
    first.unlink()
    first.symlink_to(folder / "gone")  # listed, and not there when it is opened
    (log,) = read({1: folder}).values()
    assert (log.log_start, log.offset.tolist()) == (1, [1])


def test_a_replica_without_records_and_a_broker_without_the_replica(tmp_path: Path) -> None:
    empty = broker_with(tmp_path / "1", {0: []}, 0)
    (tmp_path / "2").mkdir()
    logs = read({1: empty, 2: tmp_path / "2"})
    assert set(logs) == {1}
    assert logs[1].offset.tolist() == []


@pytest.mark.parametrize("mark", [None, 1])
def test_a_checkpoint_that_stays_behind_is_taken_as_it_is(mark: int | None, tmp_path: Path) -> None:
    folder = broker_with(tmp_path / "1", {0: [(0, b"a"), (0, b"b")]}, mark)
    assert read({1: folder})[1].high_watermark == (mark or 0)
