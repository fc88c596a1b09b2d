"""ISRs in ZooKeeper: conditional writes of ``/brokers/topics/T/partitions/P/state``."""

from __future__ import annotations

from collections.abc import Callable

from system_under_test.types import TopicPartition
from system_under_test.world import Check, Coordination, SetData
from system_under_test.zookeeper.nodes import (
    PartitionState,
    broker_path,
    isr_change_notification,
    partition_state_path,
)


class ZooKeeperIsrStore:
    def __init__(self, coordination: Callable[[], Coordination]) -> None:
        """``coordination`` gives the session that is current."""
        self._coordination = coordination

    async def update(
        self, topic_partition: TopicPartition, state: PartitionState, version: int, joining: int | None
    ) -> int:
        write = SetData(partition_state_path(*topic_partition), state.encode(), version)
        if joining is None:
            return (await self._coordination().set(write.path, write.data, write.version)).version
        # The controller elects among registered brokers: one that is gone must not come back as a member.
        stats = await self._coordination().multi([Check(broker_path(joining), -1), write])
        stat = stats[1]
        assert stat is not None
        return stat.version

    async def read(self, topic_partition: TopicPartition) -> tuple[PartitionState, int]:
        data, stat = await self._coordination().get(partition_state_path(*topic_partition))
        return PartitionState.decode(data), stat.version

    async def broker_epoch(self, broker_id: int) -> int | None:
        stat = await self._coordination().exists(broker_path(broker_id))
        return None if stat is None else stat.czxid

    async def notify(self, partitions: list[TopicPartition]) -> None:
        path, data = isr_change_notification(partitions)
        await self._coordination().create(path, data, sequential=True)
