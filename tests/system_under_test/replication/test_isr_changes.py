"""What a leader makes of ZooKeeper's answers to its ISR changes, with a store that answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from system_under_test.failpoints import Failpoints
from system_under_test.replication.isr import IsrState, LagLimits
from system_under_test.replication.isr_changes import RETRY_S, IsrChanges, Propagation
from system_under_test.replication.partition import Partition, StateChange
from system_under_test.simulation.world import SimulatedWorld, Simulation
from system_under_test.storage.log_manager import LogManager
from system_under_test.types import TopicPartition
from system_under_test.world import BadVersion, Disconnected, NoNode, SessionExpired
from system_under_test.zookeeper.nodes import PartitionState

KEY = TopicPartition("t", 0)
LEADER = 1


class Store:
    """A node, and for each write whether it lands and what is answered."""

    def __init__(self, isr: tuple[int, ...], version: int) -> None:
        self.state, self.version = PartitionState(LEADER, 3, isr, 1), version
        self.fates: list[tuple[bool, type[Exception] | None]] = []
        self.writes: list[tuple[tuple[int, ...], int]] = []
        self.told: list[list[TopicPartition]] = []
        self.epochs: dict[int, int] = {}
        self.before_write: Callable[[], None] = lambda: None

    async def update(
        self, topic_partition: TopicPartition, state: PartitionState, version: int, joining: int | None
    ) -> int:
        assert topic_partition == KEY
        await asyncio.sleep(0.01)
        self.before_write()
        self.writes.append((state.isr, version))
        lands, error = self.fates.pop(0) if self.fates else (True, None)
        if lands:
            if version != self.version:
                raise BadVersion
            if joining is not None and joining not in self.epochs:
                raise NoNode
            self.state, self.version = state, self.version + 1
        if error is not None:
            raise error
        return self.version

    async def read(self, topic_partition: TopicPartition) -> tuple[PartitionState, int]:
        assert topic_partition == KEY
        await asyncio.sleep(0.01)
        return self.state, self.version

    async def broker_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    async def notify(self, partitions: list[TopicPartition]) -> None:
        self.told.append(partitions)


def bench(world: SimulatedWorld, isr: tuple[int, ...]) -> tuple[Partition, Store, IsrChanges]:
    logs = LogManager(world, ["/data"], LEADER, {})
    logs.load({})
    partition = Partition(KEY, LEADER, logs.get_or_create(KEY, {}), LagLimits(1.0), lambda _: True, frozenset())
    partition.make_leader(StateChange(KEY, None, 1, LEADER, 3, isr, 5, (1, 2, 3), True), 0.0)
    store = Store(isr, 5)
    store.epochs = {2: 20, 3: 30}
    return partition, store, IsrChanges(LEADER, world.clock, store, Failpoints(), lambda *_: None, Propagation(1, 2, 9))


def run(work: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]) -> None:
    with Simulation(1) as simulation:
        world = simulation.host("broker-1").boot()

        async def main() -> None:
            await world.node.start(work(world))

        simulation.run(main())


def test_an_accepted_change_is_in_force_and_told_once() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        telling = asyncio.ensure_future(changes.propagate())
        changes.shrink(partition, (2,))
        assert partition.leading().isr == IsrState((1, 2, 3), 5, (1, 3))
        await asyncio.sleep(0.1)
        assert partition.leading().isr == IsrState((1, 3), 6)
        assert store.told == []
        await asyncio.sleep(10)
        assert store.told == [[KEY]]
        assert (changes.shrinks, changes.expands) == (1, 0)
        telling.cancel()

    run(main)


@pytest.mark.parametrize("leader", [LEADER, 2])
def test_a_change_whose_leadership_ends_before_its_first_step_is_not_written(leader: int) -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        changes.shrink(partition, (2,))
        [task] = [each for each in asyncio.all_tasks() if each.get_name() == f"isr-change-{KEY}"]
        change = StateChange(KEY, None, 1, leader, 4, (1, 2, 3), 6, (1, 2, 3), False)
        if leader == LEADER:
            partition.make_leader(change, 0.0)
        else:
            partition.make_follower(change)
        await task
        assert store.writes == []

    run(main)


@pytest.mark.parametrize("error", [Disconnected, SessionExpired])
@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("retries", [0, 3])
def test_without_an_answer_the_old_isr_is_written_until_one_comes(
    error: type[Exception], landed: bool, retries: int
) -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1,))
        partition.leading().remotes[2].fetched(0, 0, 0, 1.0, 20)
        store.fates = [(landed, error), *([(False, Disconnected)] * retries)]
        pending: list[IsrState] = []
        store.before_write = lambda: pending.append(partition.leading().isr)
        changes.expand(partition, partition.leading().remotes[2])
        await asyncio.sleep(1 + retries * RETRY_S)
        assert all(each.maximal == (1, 2) for each in pending), "the larger one counts as long as nobody knows"
        assert store.writes == [((1, 2), 5)] + [((1,), 5)] * (retries + 1)
        assert partition.leading().isr == IsrState((1, 2) if landed else (1,), 6)
        assert (store.state.isr, store.version) == (partition.leading().isr.isr, 6)

    run(main)


def test_a_late_write_cannot_land_after_the_settling() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1,))
        store.fates = [(False, Disconnected)]
        changes.expand(partition, partition.leading().remotes[2])
        await asyncio.sleep(1)
        assert partition.leading().isr == IsrState((1,), 6)
        with pytest.raises(BadVersion):
            await store.update(KEY, PartitionState(LEADER, 3, (1, 2), 1), 5, 2)

    run(main)


def test_what_another_wrote_in_our_epoch_is_adopted_and_in_a_newer_one_awaited() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        store.state, store.version = PartitionState(LEADER, 3, (1, 3), 1), 8
        changes.shrink(partition, (3,))
        await asyncio.sleep(0.1)
        assert partition.leading().isr == IsrState((1, 3), 8)
        store.state, store.version = PartitionState(2, 4, (2, 3), 1), 9
        changes.shrink(partition, (3,))
        await asyncio.sleep(10)
        assert partition.leading().isr == IsrState((1, 3), 8, (1,))
        assert len(store.writes) == 2

    run(main)


def test_the_state_of_a_topic_that_was_made_again_is_not_adopted() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        store.state, store.version = PartitionState(LEADER, 3, (1,), 1), 0
        changes.shrink(partition, (3,))
        await asyncio.sleep(1)
        assert partition.leading().isr == IsrState((1, 2, 3), 5, (1, 2))

    run(main)


def test_a_newer_leader_and_isr_overtakes_a_change() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        change = StateChange(KEY, None, 1, LEADER, 4, (1, 2), 7, (1, 2, 3), False)

        def overtake() -> None:
            partition.make_leader(change, 1.0)

        store.before_write = overtake
        changes.shrink(partition, (3,))
        await asyncio.sleep(0.1)
        assert partition.leading().isr == IsrState((1, 2), 7)

    run(main)


def test_who_is_gone_or_was_replaced_does_not_join() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1,))
        replica = partition.leading().remotes[2]
        replica.fetched(0, 0, 0, 1.0, 19)
        changes.expand(partition, replica)
        await asyncio.sleep(0.1)
        assert store.writes == []
        assert partition.leading().isr == IsrState((1,), 5)
        replica.fetched(0, 0, 0, 1.0, -1)
        del store.epochs[2]
        changes.expand(partition, replica)
        await asyncio.sleep(1)
        assert partition.leading().isr == IsrState((1,), 6)
        assert store.state.isr == (1,)

    run(main)


def test_nothing_is_changed_during_a_shutdown() -> None:
    async def main(world: SimulatedWorld) -> None:
        partition, store, changes = bench(world, (1, 2, 3))
        await changes.close()
        changes.shrink(partition, (3,))
        await asyncio.sleep(1)
        assert store.writes == []
        assert partition.leading().isr == IsrState((1, 2, 3), 5)

    run(main)
