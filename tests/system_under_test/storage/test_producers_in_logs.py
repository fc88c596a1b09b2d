"""What a log knows of producers is what its batches say: after rolls, truncations, retention, and any end of a life."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from system_under_test.config import BrokerConfig
from system_under_test.protocol.batch import encode
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.simulation.loop import Killed
from system_under_test.simulation.world import Host, SimulatedWorld
from system_under_test.storage.log import Log
from system_under_test.storage.log_manager import LogManager
from system_under_test.storage.segment import Segment
from tests.system_under_test.storage.support import FOLDER, PARTITION, SMALL, open_log, simulated_host

Known = dict[int, tuple[int, list[tuple[int, int]]]]
"""By producer id: its epoch, and first sequence and first offset of its last batches."""


@pytest.fixture
def host() -> Iterator[Host]:
    with simulated_host() as host:
        yield host


def send(log: Log, producer: int, sequence: int, *, epoch: int = 0, count: int = 1) -> tuple[int, bool]:
    """The first offset, and whether it was there already."""
    now_ms = log._world.clock.time_ms()
    batch = encode(
        [(b"key", b"%d of %d" % (sequence + each, producer)) for each in range(count)],
        timestamp_ms=now_ms,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    info = log.append_as_leader(batch, 0)
    return info.first_offset, info.is_duplicate


def send_many(log: Log, batches: int, first: int = 0) -> None:
    """Of three producers in turn; the third one raises its epoch each time."""
    for number in range(first, first + batches):
        for producer in (1, 2):
            send(log, producer, 2 * number, count=2)
        send(log, 3, 0, epoch=number)


def said_by(log: Log) -> Known:
    """By its batches."""
    found: Known = {}
    for header in log.headers():
        epoch, batches = found.get(header.producer_id, (header.producer_epoch, []))
        if epoch != header.producer_epoch:
            batches = []
        batches = [*batches, (header.base_sequence, header.base_offset)][-5:]
        found[header.producer_id] = header.producer_epoch, batches
    return found


def said_in(segment: Segment, producer: int) -> tuple[int, int]:
    """First sequence and first offset of the producer's last batch in it."""
    of_it = [header for _, header in segment.headers() if header.producer_id == producer]
    return of_it[-1].base_sequence, of_it[-1].base_offset


def known_by(log: Log) -> Known:
    return {
        producer: (state.epoch, [(each.first_sequence, each.first_offset) for each in state.batches])
        for producer, state in log.producers.producers.items()
    }


def agree(log: Log) -> None:
    """A snapshot keeps one batch of each producer: what is known is the end of what the batches say."""
    said, known = said_by(log), known_by(log)
    assert known.keys() == said.keys()
    for producer, (epoch, batches) in known.items():
        assert batches
        assert (epoch, batches) == (said[producer][0], said[producer][1][-len(batches) :])


def snapshots(world: SimulatedWorld) -> list[int]:
    return [int(each.removesuffix(".snapshot")) for each in world.files.list(FOLDER) if each.endswith(".snapshot")]


def test_a_batch_that_comes_again_is_answered_and_not_appended(host: Host) -> None:
    log = open_log(host.boot())
    assert send(log, 5, 0, count=3) == (0, False)
    assert send(log, 5, 3) == (3, False)
    assert send(log, 5, 0, count=3) == (0, True)
    assert log.end_offset == 4
    with pytest.raises(ApiError) as refused:
        send(log, 5, 5)
    assert refused.value.code is ErrorCode.out_of_order_sequence_number
    assert log.end_offset == 4
    assert known_by(log) == said_by(log)


def test_transactions_are_refused(host: Host) -> None:
    log = open_log(host.boot())
    batch = encode([(b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    with pytest.raises(ApiError) as refused:
        log.append_as_leader(batch, 0)
    assert refused.value.code is ErrorCode.invalid_txn_state
    assert (log.end_offset, len(log.producers)) == (0, 0)


def test_a_follower_knows_the_same(host: Host) -> None:
    leader = open_log(host.boot())
    send_many(leader, 12)
    with simulated_host(2) as other:
        follower = open_log(other.boot(), segment_bytes="500")
        for segment in leader.segments:
            follower.append_as_follower(segment.file.read_at(0, segment.size))
        assert known_by(follower) == known_by(leader) == said_by(follower)
        assert send(follower, 1, 22, count=2) == send(leader, 1, 22, count=2)


def test_a_snapshot_lies_where_a_segment_begins_and_at_a_clean_end(host: Host) -> None:
    world = host.boot()
    log = open_log(world)
    send_many(log, 12)
    bases = [each.base_offset for each in log.segments[1:]]
    assert len(bases) >= 3
    assert snapshots(world) == bases
    end = log.end_offset
    log.close_cleanly()
    assert snapshots(world) == [*bases, end]
    host.kill()
    world = host.boot()
    log = open_log(world)
    agree(log)
    send_many(log, 6, 12)
    agree(log)
    log.close_cleanly()
    host.kill()
    world = host.boot()
    bases = [each.base_offset for each in open_log(world).segments[1:]]
    assert snapshots(world) == [*bases, log.end_offset], "that of the first shutdown is gone"


def test_after_a_clean_end_the_last_batch_of_each_is_known(host: Host) -> None:
    log = open_log(host.boot())
    for sequence in range(4):
        send(log, 1, sequence)
    log.close_cleanly()
    host.kill()
    log = open_log(host.boot())
    assert send(log, 1, 3) == (3, True)
    with pytest.raises(ApiError):
        send(log, 1, 2)
    assert send(log, 1, 4) == (4, False)


def test_a_damaged_snapshot_is_passed_over(host: Host) -> None:
    world = host.boot()
    log = open_log(world)
    send_many(log, 12)
    log.close_cleanly()
    for each in snapshots(world)[-2:]:
        world.files.open(f"{FOLDER}/{each:020d}.snapshot").write_at(12, b"damage")
    damaged = snapshots(world)[-2:]
    host.kill()
    world = host.boot()
    agree(open_log(world))
    assert not set(damaged) & set(snapshots(world))


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_without_snapshots_is_read(host: Host, was_clean: bool) -> None:
    world = host.boot()
    log = open_log(world)
    send_many(log, 12)
    log.close_cleanly()
    for each in snapshots(world):
        world.files.remove(f"{FOLDER}/{each:020d}.snapshot")
    host.kill()
    log = open_log(host.boot(), was_clean=was_clean)
    assert known_by(log) == said_by(log)


def test_every_truncation() -> None:
    with simulated_host() as first:
        log = open_log(first.boot())
        send_many(log, 9)
        end = log.end_offset
    for target in range(end):
        with simulated_host() as other:
            world = other.boot()
            log = open_log(world)
            send_many(log, 9)
            log.truncate_to(target)
            agree(log)
            assert all(each <= log.end_offset for each in snapshots(world))
            sequences = {producer: state.last_sequence + 1 for producer, state in log.producers.producers.items()}
            if 1 in sequences:
                assert send(log, 1, sequences[1]) == (log.end_offset - 1, False)
            agree(log)


def test_starting_anew_forgets_everybody(host: Host) -> None:
    world = host.boot()
    log = open_log(world)
    send_many(log, 9)
    log.truncate_fully_and_start_at(500)
    assert (len(log.producers), snapshots(world)) == (0, [])
    assert send(log, 1, 77) == (500, False)
    agree(log)


def test_retention_takes_snapshots_with_their_segments_and_forgets_nobody(host: Host) -> None:
    world = host.boot()
    log = open_log(world)
    send(log, 9, 0)
    send_many(log, 12)
    known = known_by(log)
    log.update_high_watermark(log.end_offset)
    log.delete_old_segments(world.clock.time_ms() + 10**12)
    assert log.start_offset == log.end_offset
    assert snapshots(world) == [log.start_offset]
    assert known_by(log) == known
    log.close_cleanly()
    host.kill()
    log = open_log(host.boot())
    assert known_by(log).keys() == known.keys()
    assert send(log, 9, 0) == (0, True)


def test_delete_records_forgets_nobody(host: Host) -> None:
    log = open_log(host.boot())
    send_many(log, 12)
    known = known_by(log)
    log.update_high_watermark(log.end_offset)
    log.increment_start_offset(log.end_offset - 1)
    log.delete_old_segments(0)
    assert known_by(log) == known


def test_silent_producers_are_forgotten_from_time_to_time(host: Host) -> None:
    world = host.boot()
    manager = LogManager(world, ["/data"], 1, {"producer.id.expiration.ms": "5000"}, cluster_id="c")
    manager.load({})
    log = manager.get_or_create(PARTITION, SMALL)
    send(log, 1, 0)
    manager.remove_expired_producers()
    assert len(log.producers) == 1
    host.clock_offset_ms += 5000
    send(log, 2, 0)
    manager.remove_expired_producers()
    assert list(log.producers.producers) == [2]
    assert BrokerConfig({}).producer_id_expiration_ms == 86_400_000


def opened(world: SimulatedWorld) -> LogManager:
    manager = LogManager(world, ["/data"], 1, {}, cluster_id="c")
    manager.load({PARTITION.topic: SMALL})
    return manager


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("seed", range(25))
def test_any_end_of_a_life(seed: int, power: bool) -> None:
    """Lives of random steps, each ended at a random operation on the disk; the next one knows what its log says."""
    with simulated_host(seed) as host:
        random = host._simulation.fork("test")
        for _ in range(8):
            manager = opened(host.boot())
            log = manager.get_or_create(PARTITION, SMALL)
            agree(log)
            host.disk.strike_after_operations(random.randint(1, 150), host.lose_power if power else host.kill)
            try:
                for _ in range(400):
                    _random_step(manager, log, random)
                    agree(log)
                manager.shutdown()
            except Killed:
                pass
            if host.alive:
                host.disk.spare()
                host.kill()


def _random_step(manager: LogManager, log: Log, random: Random) -> None:
    choice = random.randint(0, 12)
    if choice <= 7:
        producer = random.randint(1, 3)
        state = log.producers.producers.get(producer)
        if state is None or random.random() < 0.1:
            send(log, producer, 0, epoch=0 if state is None else state.epoch + 1)
        else:
            send(log, producer, state.last_sequence + 1, epoch=state.epoch, count=random.randint(1, 3))
    elif choice == 8:
        log.flush()
    elif choice == 9:
        log.truncate_to(random.randint(max(log.start_offset, log.end_offset - 20), log.end_offset))
    elif choice == 10:
        manager.checkpoint_recovery_points()
    elif choice == 11:
        log.roll()
    elif random.random() < 0.05:
        log.truncate_fully_and_start_at(log.end_offset + 10)


def test_a_snapshot_that_was_cut_off_never_comes_back() -> None:
    """Removed from the folder, but what if the folder was not synced, and other records have taken the place?"""
    for seed in range(12):
        with simulated_host(seed) as host:
            manager = opened(host.boot())
            log = manager.get_or_create(PARTITION, SMALL)
            for sequence in range(4):
                send(log, 1, sequence)
            manager.shutdown()
            host.kill()
            log = opened(host.boot()).get_or_create(PARTITION, SMALL)
            send(log, 1, 4)
            log.flush()  # the first one of a life syncs the folder
            log.truncate_to(2)
            for sequence in range(4):
                send(log, 2, sequence)
            assert len(log.segments) == 1, "a roll would sync the folder"
            log.flush()
            host.lose_power()
            log = opened(host.boot()).get_or_create(PARTITION, SMALL)
            assert log.end_offset == 6
            assert known_by(log) == said_by(log)


@pytest.mark.parametrize("as_leader", [True, False])
def test_a_batch_whose_sync_failed_lies_in_the_log_and_is_known(
    host: Host, monkeypatch: pytest.MonkeyPatch, as_leader: bool
) -> None:
    """The producer is told of an error and sends it again: that must not append it for a second time."""
    world = host.boot()
    log = open_log(world, flush_messages="1")
    send(log, 1, 0)
    copied = encode([(b"key", b"value")], base_offset=1, producer_id=1, producer_epoch=0, base_sequence=1)

    def failing(_: object) -> None:
        raise OSError(5, "input/output error")

    def append() -> None:
        if as_leader:
            send(log, 1, 1)
        else:
            log.append_as_follower(copied)

    with monkeypatch.context() as broken:
        broken.setattr(type(log.active_segment.file), "sync", failing)
        with pytest.raises(ApiError) as refused:
            append()
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert log.end_offset == 2
    agree(log)
    assert send(log, 1, 1) == (1, True)


def test_damage_behind_a_snapshot_in_mid_segment_does_not_stop_the_start(host: Host) -> None:
    """Nothing is known then of who wrote there; what lies in other segments is."""
    world = host.boot()
    log = open_log(world)
    send_many(log, 1)
    log.close_cleanly()
    (kept,) = snapshots(world)
    world = host.boot_again()
    log = open_log(world)
    send_many(log, 12, first=1)
    assert len(log.segments) > 2
    log.close_cleanly()
    for each in snapshots(world):
        if each > kept:
            world.files.open(f"{FOLDER}/{each:020d}.snapshot").write_at(12, b"damage")
    first = log.segments[0]
    position = first.locate(kept)
    first.file.write_at(position + 8, b"\x7f\xff\xff\xff")
    first.file.close()
    again = open_log(host.boot_again())
    assert again.end_offset == log.end_offset
    assert known_by(again)[1][1][-1] == said_in(again.segments[-1], 1)
