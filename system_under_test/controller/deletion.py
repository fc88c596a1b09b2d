"""The deletion of topics.

A topic in ``/admin/delete_topics`` is *doomed*: no leader is elected for it any more, its metadata vanishes, then every
replica is taken offline and told to delete its data. When all have said that they did, the topic's nodes go.
A topic is *ineligible* while a broker with one of its replicas is dead or failed to delete; it is tried again when that
broker is back. Deletion cannot be taken back. It does not wait for a reassignment, as Kafka's does: without elections
that might never end; all replicas go, the old and the new.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from system_under_test.controller.context import PartitionPhase, Replica, ReplicaPhase
from system_under_test.controller.core import Core
from system_under_test.controller.partition_states import PartitionStateMachine
from system_under_test.controller.replica_states import VALID_SOURCES, ReplicaStateMachine

log = logging.getLogger(__name__)
_R = ReplicaPhase


class TopicDeletion:
    def __init__(self, core: Core, partitions: PartitionStateMachine, replicas: ReplicaStateMachine) -> None:
        self._core = core
        self._context = core.context
        self._partitions = partitions
        self._replicas = replicas

    def start(self, doomed: Iterable[str]) -> None:
        """Marks of a controller that has just read everything."""
        for topic in sorted(doomed):
            self._context.doomed.add(topic)
            if any(
                not self._context.is_online(each.broker, each.partition) for each in self._context.replicas_of(topic)
            ):
                self._context.deletion_ineligible.add(topic)

    async def doom(self, topics: Iterable[str]) -> None:
        self._context.doomed.update(topics)
        await self.resume()

    def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        for topic in sorted(set(topics) & self._context.doomed):
            log.info("deletion of %s waits: %s", topic, reason)
            self._context.deletion_ineligible.add(topic)

    async def retry(self, topics: Iterable[str]) -> None:
        """What made these ineligible may be over."""
        again = set(topics) & self._context.doomed
        if again:
            self._context.deletion_ineligible -= again
            await self.resume()

    async def failed(self, replicas: Iterable[Replica]) -> None:
        """These cannot delete their data now: their broker died, or said so."""
        concerned = [each for each in replicas if self._context.is_doomed(each.partition)]
        if not concerned:
            return
        to_offline = [each for each in concerned if self._may(each, _R.OFFLINE)]
        await self._replicas.handle(to_offline, _R.OFFLINE)
        await self._replicas.handle(
            [each for each in concerned if self._may(each, _R.DELETION_INELIGIBLE)], _R.DELETION_INELIGIBLE
        )
        self.mark_ineligible((each.partition.topic for each in concerned), "a replica cannot be deleted now")
        await self.resume()

    async def succeeded(self, replicas: Iterable[Replica]) -> None:
        done = [each for each in replicas if self._context.replica_phase(each) is _R.DELETION_STARTED]
        await self._replicas.handle(
            [each for each in done if self._context.is_doomed(each.partition)], _R.DELETION_SUCCESSFUL
        )
        await self.resume()

    async def resume(self) -> None:
        """Complete what is complete, begin what can begin."""
        eligible: list[str] = []
        for topic in sorted(self._context.doomed):
            phases = {self._context.replica_phase(each) for each in self._context.replicas_of(topic)}
            if phases <= {_R.DELETION_SUCCESSFUL}:
                await self._complete(topic)
            elif _R.DELETION_STARTED not in phases and topic not in self._context.deletion_ineligible:
                eligible.append(topic)
        if eligible:
            await self._begin(eligible)

    async def _begin(self, topics: list[str]) -> None:
        unseen = [topic for topic in topics if topic not in self._context.deletion_started]
        partitions = [each for topic in unseen for each in self._context.partitions_of(topic)]
        await self._partitions.handle(partitions, PartitionPhase.OFFLINE)
        await self._partitions.handle(partitions, PartitionPhase.NON_EXISTENT)
        self._context.deletion_started.update(unseen)
        batch = self._core.batch()
        gone = [each for topic in topics for each in self._context.partitions_of(topic)]
        batch.update_metadata(self._context.broker_ids(), gone)
        self._core.send(batch)
        await self._delete_replicas(topics)

    async def _delete_replicas(self, topics: list[str]) -> None:
        left = [
            each
            for topic in topics
            for each in self._context.replicas_of(topic)
            if self._context.replica_phase(each) is not _R.DELETION_SUCCESSFUL
        ]
        await self._replicas.handle([each for each in left if self._may(each, _R.OFFLINE)], _R.OFFLINE)
        alive = [each for each in left if self._context.is_online(each.broker, each.partition)]
        dead = [each for each in left if not self._context.is_online(each.broker, each.partition)]
        await self._replicas.handle(alive, _R.DELETION_STARTED)
        await self._replicas.handle(dead, _R.DELETION_INELIGIBLE)
        self.mark_ineligible((each.partition.topic for each in dead), "the broker of a replica is dead")

    async def _complete(self, topic: str) -> None:
        await self._replicas.handle(self._context.replicas_of(topic), _R.NON_EXISTENT)
        await self._core.store.delete_topic(topic)
        self._context.remove_topic(topic)
        log.info("topic %s is deleted", topic)

    def _may(self, replica: Replica, phase: ReplicaPhase) -> bool:
        return self._context.replica_phase(replica) in VALID_SOURCES[phase]
