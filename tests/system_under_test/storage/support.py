"""Logs on simulated disks, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from system_under_test.protocol.batch import decode, encode, headers
from system_under_test.simulation.world import Host, SimulatedWorld, Simulation
from system_under_test.storage.config import LogConfig
from system_under_test.storage.epochs import EpochEntry
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition

FOLDER = "/data/t-0"
PARTITION = TopicPartition("t", 0)
SMALL = {"segment.bytes": "700", "index.interval.bytes": "150", "segment.ms": "1000000"}

Entry = tuple[int, int, bytes | None]
"""Offset, leader epoch, value."""


@contextmanager
def simulated_host(seed: int = 1) -> Iterator[Host]:
    with Simulation(seed) as simulation:
        yield simulation.host("disk")


def open_log(
    world: SimulatedWorld,
    *,
    was_clean: bool = True,
    recovery_point: int = 0,
    start_offset: int = 0,
    **overrides: str,
) -> Log:
    config = LogConfig.of({}, SMALL | {name.replace("_", "."): value for name, value in overrides.items()})
    return Log(
        world,
        FOLDER,
        PARTITION,
        config,
        was_clean=was_clean,
        recovery_point=recovery_point,
        start_offset=start_offset,
    )


def batch(*values: bytes, timestamp_ms: int = 0) -> bytes:
    return encode([(b"key", value) for value in values], timestamp_ms=timestamp_ms)


def fill(log: Log, count: int, epoch: int = 0, per_batch: int = 2) -> None:
    """``count`` batches; each value says where it lies and who wrote it."""
    for _ in range(count):
        offsets = range(log.end_offset, log.end_offset + per_batch)
        log.append_as_leader(batch(*(b"%d by %d" % (offset, epoch) for offset in offsets), timestamp_ms=1000), epoch)


def content(log: Log) -> list[Entry]:
    """Everything from the log's start on, read straight from the segments."""
    found: list[Entry] = []
    for segment in log.segments:
        for position, header in segment.headers():
            for record in decode(segment.file.read_at(position, header.size_bytes)):
                found.append((record.offset, header.partition_leader_epoch, record.value))
    return [each for each in found if each[0] >= log.start_offset]


def read_all(log: Log, max_bytes: int = 300, up_to: int | None = None) -> list[Entry]:
    """The same by :meth:`Log.read`, one fetch after the other."""
    up_to = log.end_offset if up_to is None else up_to
    offset = log.start_offset
    found: list[Entry] = []
    while offset < up_to:
        data = log.read(offset, max_bytes, up_to, at_least_one=True)
        if not data:
            break
        for position, header in headers(data):
            for record in decode(memoryview(data)[position:]):
                if record.offset >= offset:
                    found.append((record.offset, header.partition_leader_epoch, record.value))
            offset = header.next_offset
    return found


def epochs_in(entries: list[Entry]) -> list[EpochEntry]:
    """What the leader epochs of such a log must be."""
    found: list[EpochEntry] = []
    for offset, epoch, _ in entries:
        if not found or found[-1].epoch != epoch:
            found.append(EpochEntry(epoch, offset))
    return found
