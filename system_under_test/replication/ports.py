"""What replication needs of the rest of a broker, and no more."""

from __future__ import annotations

import uuid
from typing import Protocol

from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.zookeeper.nodes import PartitionState


class Metadata(Protocol):
    """The part of the metadata cache that is used here."""

    def endpoint(self, broker_id: int) -> BrokerEndpoint | None:
        """Where a live broker is; None for one that is not alive."""
        ...

    def contains(self, topic_partition: TopicPartition) -> bool: ...

    def topic_name(self, topic_id: uuid.UUID) -> str | None: ...


class IsrStore(Protocol):
    """Where ISRs are kept. Every operation may raise a CoordinationError; Disconnected and SessionExpired leave it
    open whether a write took effect."""

    async def update(
        self, topic_partition: TopicPartition, state: PartitionState, version: int, joining: int | None
    ) -> int:
        """Write on condition of ``version``, and of the joining broker being registered; the new version."""
        ...

    async def read(self, topic_partition: TopicPartition) -> tuple[PartitionState, int]: ...

    async def broker_epoch(self, broker_id: int) -> int | None:
        """Of the broker that is registered under this id now."""
        ...

    async def notify(self, partitions: list[TopicPartition]) -> None:
        """Tell the controller whose ISRs have changed."""
        ...
