"""Damage at every byte of the small files beside the logs: the broker's logs open, and the log says which file it was.

Only ``meta.properties`` keeps a broker from starting, as in Kafka: whose data this is cannot be guessed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pytest

from system_under_test.simulation.world import Host, SimulatedWorld
from system_under_test.storage.checkpoints import CheckpointError
from system_under_test.storage.log_manager import LogDirError, LogManager
from tests.system_under_test.storage.support import PARTITION, SMALL, Entry, content, fill, read_all, simulated_host

TOPIC_ID = uuid.UUID(int=0x1234)
START = 9
OF_THE_DIR = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
OF_THE_PARTITION = (f"{PARTITION}/leader-epoch-checkpoint", f"{PARTITION}/partition.metadata")


def loaded(world: SimulatedWorld) -> LogManager:
    manager = LogManager(world, ["/data"], 1, {}, cluster_id="c")
    manager.load({PARTITION.topic: SMALL})
    return manager


def prepared(host: Host, *, clean: bool) -> list[Entry]:
    """A dir with every file there is, several segments and epochs, and a log that begins within a segment."""
    manager = loaded(host.boot())
    log = manager.get_or_create(PARTITION, SMALL)
    log.assign_topic_id(TOPIC_ID)
    for epoch in (0, 3, 12):
        fill(log, 6, epoch)
    log.update_high_watermark(log.end_offset)
    log.flush()
    log.increment_start_offset(START)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    before = content(log)
    if clean:
        manager.shutdown()
    host.kill()
    return before


def damages(whole: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "missing", None
    for length in range(len(whole)):
        yield f"cut to {length}", whole[:length]
    for at in range(len(whole)):
        for bit in (0, 4, 7):
            yield f"bit {bit} of byte {at}", whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
    yield "zeros", bytes(len(whole))
    yield "twice", whole + whole


def damage(world: SimulatedWorld, path: str, damaged: bytes | None) -> None:
    if damaged is None:
        world.files.remove(path)
    else:
        world.files.write_atomically(path, damaged)


def whole_file(name: str) -> bytes:
    with simulated_host() as host:
        prepared(host, clean=False)
        return host.boot().files.read(f"/data/{name}")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", [*OF_THE_DIR, *OF_THE_PARTITION])
def test_a_damaged_checkpoint_costs_no_record(name: str, clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    named = 0
    for what, damaged in damages(whole_file(name)):
        with simulated_host() as host:
            before = prepared(host, clean=clean)
            world = host.boot()
            damage(world, f"/data/{name}", damaged)
            caplog.clear()
            with caplog.at_level(logging.WARNING, "system_under_test.storage"):
                manager = loaded(world)
            log = manager.get(PARTITION)
            assert log is not None, what
            named += any(name in record.getMessage() for record in caplog.records)
            assert log.start_offset <= log.high_watermark <= log.end_offset, what
            assert log.recovery_point <= log.end_offset, what
            if name.startswith("log-start"):
                # A number that is another one is believed: it is all that says where the log begins.
                assert content(log) == [each for each in content(log) if each in before or each[0] < START], what
            else:
                assert content(log) == before, what
            assert read_all(log) == content(log), what
            assert log.topic_id in (TOPIC_ID, None) or name.endswith("metadata"), what
            fill(log, 2, epoch=99)
            assert read_all(log) == content(log), what
    assert named > 20, f"only {named} damages of {name} are told of"


@pytest.mark.parametrize("clean", [True, False])
def test_every_small_file_is_gone(clean: bool) -> None:
    with simulated_host() as host:
        before = prepared(host, clean=clean)
        world = host.boot()
        for name in (*OF_THE_DIR, *OF_THE_PARTITION, "meta.properties"):
            world.files.remove(f"/data/{name}")
        log = loaded(world).get(PARTITION)
        assert log is not None
        assert [each for each in content(log) if each[0] >= START] == before
        assert log.topic_id is None
        log.assign_topic_id(TOPIC_ID)


def test_meta_properties_that_are_another_brokers_or_nobodys_stop_the_start() -> None:
    cases = list(damages(whole_file("meta.properties")))
    refused = kept = 0
    for what, damaged in cases:
        with simulated_host() as host:
            before = prepared(host, clean=False)
            world = host.boot()
            damage(world, "/data/meta.properties", damaged)
            try:
                log = loaded(world).get(PARTITION)
            except (CheckpointError, LogDirError) as error:
                refused += "/data" in str(error)
                continue
            assert log is not None, what
            assert content(log) == before, what
            kept += 1
    assert refused + kept == len(cases), "a refusal that does not name the dir"
    assert refused > 20
