"""A partition folder that Apache Kafka 3.9.1 wrote is opened, served and gone on with."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from system_under_test.protocol.batch import headers
from system_under_test.realworld.files import RealFiles
from system_under_test.storage.checkpoints import encode_topic_id
from system_under_test.storage.config import LogConfig
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition
from tests.system_under_test.storage.support import content, fill, read_all

KAFKA = Path(__file__).parents[2] / "fixtures" / "kafka-3.9.1" / "fixture-0"


class StoppedClock:
    def monotonic(self) -> float:
        return 0.0

    def time_ms(self) -> int:
        return 1_800_000_000_000


@dataclass(frozen=True)
class RealDisk:
    clock: StoppedClock = field(default_factory=StoppedClock)
    files: RealFiles = field(default_factory=RealFiles)
    random: Random = field(default_factory=lambda: Random(1))


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("while_running", [True, False])
def test_kafkas_folder(tmp_path: Path, was_clean: bool, while_running: bool) -> None:
    folder = tmp_path / "fixture-0"
    shutil.copytree(KAFKA, folder)
    if while_running:  # Kafka preallocates the indexes of an active segment
        for suffix, size in ((".index", 10_485_760), (".timeindex", 10_485_756)):
            with (folder / f"{0:020d}{suffix}").open("r+b") as index:
                index.truncate(size)
    config = LogConfig.of({}, {"segment.bytes": "16384", "index.interval.bytes": "2048"})
    log = Log(RealDisk(), str(folder), TopicPartition("fixture", 0), config, was_clean=was_clean)
    assert not log.opening.found_damage
    assert (log.start_offset, log.end_offset) == (0, 408)
    assert log.epochs.entries() == [(0, 0)]
    assert log.topic_id is not None
    assert encode_topic_id(log.topic_id) == "t3_xiyDkRzODlyG4kkYY3A"
    assert read_all(log, 3000) == content(log)
    assert len(content(log)) == 408
    stored = (folder / f"{0:020d}.log").read_bytes()
    assert b"".join(log.read(each.base_offset, 1, 408, at_least_one=True) for _, each in headers(stored)) == stored
    assert log.offset_of_max_timestamp() == (1795021036921, 407, 0)
    fill(log, 60, epoch=1)
    assert len(log.segments) == 2
    log.close_cleanly()
    if not was_clean and not while_running:
        recovered = (folder / f"{0:020d}.index").read_bytes()
        assert recovered.startswith((KAFKA / f"{0:020d}.index").read_bytes()), "our index is what Kafka wrote"
