"""Brokers that come, die, come back unseen, and leave in good order."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from system_under_test.controller.context import LiveBroker, PartitionPhase, Replica, ReplicaPhase
from system_under_test.controller.core import Core
from system_under_test.controller.deletion import TopicDeletion
from system_under_test.controller.partition_states import PartitionStateMachine, Strategy
from system_under_test.controller.reassignment import Reassignments
from system_under_test.controller.replica_states import VALID_SOURCES, ReplicaStateMachine
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.types import TopicPartition

log = logging.getLogger(__name__)
_R = ReplicaPhase
UNKNOWN_BROKER_EPOCH = -1


class Membership:
    def __init__(
        self,
        core: Core,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletion,
        reassignments: Reassignments,
    ) -> None:
        self._core = core
        self._context = core.context
        self._partitions = partitions
        self._replicas = replicas
        self._deletion = deletion
        self._reassignments = reassignments

    async def changed(self, registered: dict[int, LiveBroker]) -> None:
        """Compare who is registered with who was known. A broker whose epoch changed died and came back between two
        looks: its replicas leave their ISRs as if its death had been seen, for it may have come back with less data."""
        known = self._context.brokers
        came = sorted(registered.keys() - known.keys())
        died = sorted(known.keys() - registered.keys())
        bounced = sorted(
            each for each in registered.keys() & known.keys() if registered[each].epoch != known[each].epoch
        )
        log.info("brokers: new %s, dead %s, bounced %s, all %s", came, died, bounced, sorted(registered))
        for broker in (*died, *bounced):
            self._core.channels.remove(broker)
            del self._context.brokers[broker]
        if died or bounced:
            await self._failed([*died, *bounced])
        for broker in sorted((*came, *bounced)):
            self._context.brokers[broker] = registered[broker]
            self._core.channels.add(broker)
        if came or bounced:
            await self._started(sorted((*came, *bounced)))

    async def _started(self, brokers: list[int]) -> None:
        batch = self._core.batch()
        batch.update_metadata([each for each in self._context.broker_ids() if each not in brokers], [])
        batch.update_metadata(brokers, self._context.partitions_with_leaders(), full=True)
        self._core.send(batch)
        hosted = self._context.replicas_on(brokers)
        # A replica that was deleted already stays so.
        await self._replicas.handle([each for each in hosted if self._may(each, _R.ONLINE)], _R.ONLINE)
        await self._partitions.bring_online()
        await self._reassignments.resume(lambda assignment: any(each in brokers for each in assignment.target))
        await self._deletion.retry({each.partition.topic for each in hosted})

    async def _failed(self, brokers: Iterable[int]) -> None:
        for broker in brokers:
            self._context.offline_folders.pop(broker, None)
            self._context.shutting_down.discard(broker)
        await self.replicas_offline(self._context.replicas_on(brokers))

    async def replicas_offline(self, replicas: list[Replica]) -> None:
        """New leaders first, for clients wait for them; then the ISRs."""
        leaderless = self._context.partitions_without_live_leader()
        await self._partitions.handle(leaderless, PartitionPhase.OFFLINE)
        await self._partitions.bring_online()
        staying = [each for each in replicas if not self._context.is_doomed(each.partition)]
        await self._replicas.handle(staying, _R.OFFLINE)
        await self._deletion.failed([each for each in replicas if self._context.is_doomed(each.partition)])
        if not leaderless:
            batch = self._core.batch()
            batch.update_metadata(self._context.broker_ids(), [])
            self._core.send(batch)

    async def folders_failed(self, brokers: Iterable[int]) -> None:
        """Ask these brokers for all their replicas: their answers say which of them are lost."""
        hosted = self._context.replicas_on(brokers)
        await self._replicas.handle([each for each in hosted if self._may(each, _R.ONLINE)], _R.ONLINE)

    async def leader_and_isr_answered(
        self, broker: int, failed: list[TopicPartition], served: list[TopicPartition]
    ) -> None:
        """``failed``: the broker is alive, but the folder of these replicas is not."""
        lost = self._context.offline_folders.setdefault(broker, set())
        new = [each for each in failed if each not in lost and self._context.knows(each)]
        lost.difference_update(served)
        lost.update(new)
        if new:
            log.error("broker %d cannot serve %s: a log folder failed", broker, ", ".join(map(str, new)))
            await self.replicas_offline([Replica(each, broker) for each in new])

    async def controlled_shutdown(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Take leadership and ISR membership from a broker that wants to stop; what it still leads."""
        live = self._context.brokers.get(broker)
        if live is None:
            raise ApiError(ErrorCode.broker_not_available, f"Broker id {broker} does not exist.")
        if broker_epoch not in (UNKNOWN_BROKER_EPOCH, live.epoch):
            raise ApiError(
                ErrorCode.stale_broker_epoch, f"broker epoch {broker_epoch} is not {live.epoch}, which is registered"
            )
        self._context.shutting_down.add(broker)
        hosted = [each.partition for each in self._context.replicas_on([broker]) if self._is_replicated(each.partition)]
        led = [each for each in hosted if self._leader(each) == broker]
        followed = [each for each in hosted if self._leader(each) != broker]
        await self._partitions.handle(led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        await self._replicas.handle([Replica(each, broker) for each in followed], _R.OFFLINE)
        return [each for each in hosted if self._leader(each) == broker]

    def _is_replicated(self, partition: TopicPartition) -> bool:
        """One without another replica is only closed; a doomed one is nobody's."""
        return (
            len(self._context.assignment(partition).replicas) > 1
            and partition in self._context.leadership
            and not self._context.is_doomed(partition)
        )

    def _leader(self, partition: TopicPartition) -> int:
        return self._context.leadership[partition].state.leader

    def _may(self, replica: Replica, phase: ReplicaPhase) -> bool:
        return self._context.replica_phase(replica) in VALID_SOURCES[phase]
