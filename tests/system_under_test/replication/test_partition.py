"""One partition: rules that need a log, and no other broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from system_under_test.protocol.batch import encode
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.replication.isr import IsrState, LagLimits
from system_under_test.replication.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    NOTHING_FOUND,
    OffsetFound,
    find_offset,
)
from system_under_test.replication.partition import Partition, StateChange
from system_under_test.simulation.world import Simulation
from system_under_test.storage.log_manager import LogManager
from system_under_test.types import TopicPartition

KEY = TopicPartition("t", 0)
NEW = StateChange(KEY, None, 1, 1, 0, (1, 2), 0, (1, 2, 3), True)


def batch(*values: bytes, at: int = 100) -> bytes:
    return encode([(None, value) for value in values], timestamp_ms=at)


def with_partition(check: Callable[[Partition], None]) -> None:
    with Simulation(1) as simulation:
        world = simulation.host("broker-1").boot()

        async def main() -> None:
            logs = LogManager(world, ["/data"], 1, {})
            logs.load({})
            log = logs.get_or_create(KEY, {"min.insync.replicas": "2"})
            check(Partition(KEY, 1, log, LagLimits(10.0), lambda _: True, frozenset()))

        async def outside() -> None:
            await world.node.start(main())

        simulation.run(outside())


def acknowledge(partition: Partition, broker_id: int, offset: int, now: float = 0.0) -> bool:
    replica = partition.remote(broker_id, partition.leader_epoch, -1)
    partition.follower_fetched(replica, offset, 0, -1, now)
    return partition.maybe_increment_high_watermark(now)


def test_the_high_watermark_stays_when_leadership_comes_and_rises_with_acknowledgements() -> None:
    def check(partition: Partition) -> None:
        partition.make_leader(NEW, 0.0)
        partition.append_as_leader(batch(b"a", b"b"), -1, 0.0)
        assert partition.log.high_watermark == 0
        assert acknowledge(partition, 2, 1)
        assert partition.log.high_watermark == 1
        assert not acknowledge(partition, 2, 0), "a late request takes nothing back"
        partition.make_leader(replace(NEW, leader_epoch=1, version=1), 1.0)
        assert partition.log.high_watermark == 1
        assert partition.leading().remotes[2].log_end_offset == -1, "what was fetched in another epoch does not count"
        assert partition.leading().epoch_start_offset == 2
        assert acknowledge(partition, 2, 2)

    with_partition(check)


def test_roles_are_fenced_by_epoch() -> None:
    def check(partition: Partition) -> None:
        partition.make_leader(replace(NEW, leader_epoch=4), 0.0)
        assert partition.leading(4) is partition.leading(-1)
        for epoch, code in ((3, ErrorCode.fenced_leader_epoch), (5, ErrorCode.unknown_leader_epoch)):
            with pytest.raises(ApiError) as refusal:
                partition.leading(epoch)
            assert refusal.value.code is code
        partition.make_follower(replace(NEW, leader=2, leader_epoch=5))
        with pytest.raises(ApiError) as refusal:
            partition.append_as_leader(batch(b"a"), 1, 0.0)
        assert refusal.value.code is ErrorCode.not_leader_or_follower
        with pytest.raises(AssertionError):
            partition.make_leader(replace(NEW, leader_epoch=5), 0.0)
        with pytest.raises(AssertionError):
            partition.make_leader(replace(NEW, leader_epoch=6, isr=(2, 3)), 0.0)

    with_partition(check)


def test_acks_all_is_judged_by_the_maximal_isr() -> None:
    def check(partition: Partition) -> None:
        partition.make_leader(NEW, 0.0)
        info, _ = partition.append_as_leader(batch(b"a"), -1, 0.0)
        assert partition.ack_state(1) is None
        acknowledge(partition, 2, 1)
        assert partition.ack_state(info.last_offset + 1) is ErrorCode.none
        # Committed, and then the ISR fell below the minimum before the answer was given.
        partition.propose_isr((1,))
        assert partition.ack_state(1) is ErrorCode.none
        partition.settle_isr((1,), 1, 0.0)
        assert partition.ack_state(1) is ErrorCode.not_enough_replicas_after_append
        with pytest.raises(ApiError) as refusal:
            partition.append_as_leader(batch(b"b"), -1, 0.0)
        assert refusal.value.code is ErrorCode.not_enough_replicas
        partition.append_as_leader(batch(b"b"), 1, 0.0)
        assert partition.log.high_watermark == 1, "below the minimum nothing is committed"
        partition.make_follower(replace(NEW, leader=2, leader_epoch=1))
        assert partition.ack_state(1) is ErrorCode.not_leader_or_follower

    with_partition(check)


def test_a_follower_outside_of_the_isr_is_waited_for_while_it_keeps_up() -> None:
    def check(partition: Partition) -> None:
        partition.make_leader(NEW, 0.0)
        acknowledge(partition, 3, 0, now=1.0)
        partition.append_as_leader(batch(b"a"), -1, 1.0)
        assert not acknowledge(partition, 2, 1, now=2.0), "broker 3 was caught up a second ago"
        assert partition.maybe_increment_high_watermark(12.0)
        assert partition.leading().isr == IsrState((1, 2), 0)

    with_partition(check)


def test_offsets_by_time_and_by_name() -> None:
    def check(partition: Partition) -> None:
        partition.make_leader(NEW, 0.0)
        for number, at in enumerate((100, 300, 200)):
            partition.append_as_leader(batch(b"%d" % number, at=at), -1, 0.0)

        def find(timestamp: int, *, is_consumer: bool = True) -> OffsetFound:
            return find_offset(
                partition, timestamp, -1, is_consumer=is_consumer, not_available=ErrorCode.offset_not_available
            )

        assert find(EARLIEST) == find(EARLIEST_LOCAL) == OffsetFound(-1, 0, 0)
        assert find(LATEST) == OffsetFound(-1, 0, 0)
        assert find(LATEST, is_consumer=False) == OffsetFound(-1, 3, 0)
        assert find(150) == NOTHING_FOUND, "not committed yet"
        acknowledge(partition, 2, 3)
        assert find(LATEST) == OffsetFound(-1, 3, 0)
        assert find(100) == find(0) == OffsetFound(100, 0, 0)
        assert find(101) == OffsetFound(300, 1, 0)
        assert find(MAX_TIMESTAMP) == OffsetFound(300, 1, 0)
        assert find(301) == find(LATEST_TIERED) == NOTHING_FOUND

    with_partition(check)


def test_a_new_leader_does_not_tell_an_end_that_lies_before_what_was_seen() -> None:
    """KIP-207."""

    def check(partition: Partition) -> None:
        partition.make_leader(NEW, 0.0)
        partition.append_as_leader(batch(b"a"), -1, 0.0)
        partition.make_leader(replace(NEW, leader_epoch=1, version=1), 0.0)
        for timestamp in (LATEST, 100):
            with pytest.raises(ApiError) as refusal:
                find_offset(partition, timestamp, 1, is_consumer=True, not_available=ErrorCode.offset_not_available)
            assert refusal.value.code is ErrorCode.offset_not_available
        acknowledge(partition, 2, 1)
        found = find_offset(partition, LATEST, 1, is_consumer=True, not_available=ErrorCode.offset_not_available)
        assert found == OffsetFound(-1, 1, 1)

    with_partition(check)
