"""Elections that somebody asks for: preferred replicas, unclean ones by hand, and the automatic rebalance.

The preferred leader of a partition is the first of its replicas. After a broker was away it leads nothing; the rebalance
looks every ``leader.imbalance.check.interval.seconds`` and moves leadership back where a broker misses more than
``leader.imbalance.per.broker.percentage`` of the partitions that prefer it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum

from system_under_test.controller.context import PartitionPhase
from system_under_test.controller.core import Core
from system_under_test.controller.events import PreferredElectionRequested, TermEvent
from system_under_test.controller.partition_states import PartitionStateMachine, Strategy
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.types import TopicPartition
from system_under_test.world import Watcher
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import MalformedNode

log = logging.getLogger(__name__)


class ElectionType(Enum):
    PREFERRED = 0
    UNCLEAN = 1


class Elections:
    def __init__(self, core: Core, partitions: PartitionStateMachine, watch: Callable[[TermEvent], Watcher]) -> None:
        self._core = core
        self._context = core.context
        self._partitions = partitions
        self._watch = watch

    async def requested(self) -> None:
        """``/admin/preferred_replica_election`` may have come; it goes when it is done."""
        path = nodes.PREFERRED_REPLICA_ELECTION
        data = await self._core.store.data(path, self._watch(PreferredElectionRequested()))
        if data is None:
            return
        try:
            wanted = nodes.decode_partition_list(data, "preferred replica election")
        except MalformedNode as error:
            log.error("%s is deleted: %s", path, error)
        else:
            await self.elect(wanted, ElectionType.PREFERRED)
        await self._core.store.delete(path)

    async def elect(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> dict[TopicPartition, ApiError | None]:
        """The outcome of each; ELECTION_NOT_NEEDED where all is well."""
        results: dict[TopicPartition, ApiError | None] = {}
        electable: list[TopicPartition] = []
        for each in dict.fromkeys(partitions):
            refusal = self._refusal(each, kind)
            results[each] = refusal
            if refusal is None:
                electable.append(each)
        strategy = Strategy.PREFERRED if kind is ElectionType.PREFERRED else Strategy.OFFLINE_UNCLEAN
        code = (
            ErrorCode.preferred_leader_not_available
            if kind is ElectionType.PREFERRED
            else ErrorCode.eligible_leaders_not_available
        )
        failures = await self._partitions.handle(electable, PartitionPhase.ONLINE, strategy)
        for each, reason in failures.items():
            results[each] = ApiError(code, f"Failed to elect leader for partition {each}: {reason}")
        return results

    def _refusal(self, partition: TopicPartition, kind: ElectionType) -> ApiError | None:
        if not self._context.knows(partition):
            return ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
        if self._context.is_doomed(partition):
            return ApiError(ErrorCode.invalid_topic_exception, "The topic is being deleted")
        leadership = self._context.leadership.get(partition)
        if leadership is None:
            return ApiError(ErrorCode.leader_not_available, "The partition never had a leader.")
        leader = leadership.state.leader
        if kind is ElectionType.PREFERRED:
            needed = leader != self._context.assignment(partition).replicas[0]
        else:
            needed = not self._context.is_online(leader, partition)
        return None if needed else ApiError(ErrorCode.election_not_needed, "Leader election not needed.")

    async def rebalance(self, percentage: int) -> None:
        """Where too many leaderships are away from the broker that they prefer, bring back those that can come."""
        by_preferred: dict[int, list[TopicPartition]] = {}
        for each in self._context.partitions():
            replicas = self._context.assignment(each).replicas
            if replicas and each in self._context.leadership and not self._context.is_doomed(each):
                by_preferred.setdefault(replicas[0], []).append(each)
        for broker in sorted(by_preferred):
            preferring = by_preferred[broker]
            away = [each for each in preferring if self._context.leadership[each].state.leader != broker]
            if len(away) * 100 > percentage * len(preferring):
                await self.elect([each for each in away if self._can_lead(broker, each)], ElectionType.PREFERRED)

    def _can_lead(self, broker: int, partition: TopicPartition) -> bool:
        """While anything is reassigned nothing is moved besides, as in Kafka. An ISR that is out of date here does
        no harm: the election reads it again."""
        return (
            not self._context.reassigning
            and self._context.is_online(broker, partition)
            and broker in self._context.leadership[partition].state.isr
        )
