"""One controllership: from a won election to the resignation. It starts with nothing but its epoch.

All that it knows it reads from ZooKeeper, in :meth:`Term.recover`; then it reacts to events, one after the other. Nothing
survives it: the next term, on this broker or on another, begins in the same way. So every step must leave behind in
ZooKeeper what its successor needs to finish it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from system_under_test.config import BrokerConfig
from system_under_test.controller.channels import Channels, PeersLike
from system_under_test.controller.context import (
    ControllerContext,
    PartitionPhase,
    ReplicaAssignment,
    ReplicaPhase,
)
from system_under_test.controller.core import Core
from system_under_test.controller.deletion import TopicDeletion
from system_under_test.controller.elections import Elections
from system_under_test.controller.events import (
    Answered,
    BrokersChanged,
    DeletionRequested,
    IsrsChanged,
    LogDirsFailed,
    PreferredElectionRequested,
    ReassignedIsrChanged,
    ReassignmentRequested,
    RebalanceDue,
    TermEvent,
    TopicModified,
    TopicsChanged,
    UncleanElectionEnabled,
)
from system_under_test.controller.membership import Membership
from system_under_test.controller.partition_states import PartitionStateMachine, Strategy
from system_under_test.controller.reassignment import Reassignments
from system_under_test.controller.replica_states import ReplicaStateMachine
from system_under_test.controller.requests import Outgoing
from system_under_test.controller.responses import deletions, leader_and_isr
from system_under_test.controller.store import ControllerStore
from system_under_test.failpoints import Failpoints
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body
from system_under_test.server.peer import Resolve
from system_under_test.types import TopicPartition
from system_under_test.world import Coordination, Watcher, WatchEvent
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import MalformedNode, TopicAssignment

log = logging.getLogger(__name__)

Enqueue = Callable[["Term", TermEvent], None]
FIRST_REBALANCE_S = 5.0
"""After an election: brokers that come back with the controller are given this time to catch up."""


@dataclass(frozen=True, slots=True)
class Won:
    """The outcome of an election."""

    epoch: int
    epoch_version: int
    """Of ``/controller_epoch``: what every write of this term is conditional on."""


class Term:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        zookeeper: Coordination,
        won: Won,
        make_peers: Callable[[Resolve], PeersLike],
        failpoints: Failpoints,
        enqueue: Enqueue,
    ) -> None:
        self.epoch = won.epoch
        self._config = config
        self._enqueue = enqueue
        self._rebalance: asyncio.TimerHandle | None = None
        self.context = ControllerContext(won.epoch, config.inter_broker_listener_name)
        self._store = ControllerStore(zookeeper, won.epoch_version, failpoints)
        channels = Channels(
            make_peers(self.context.endpoint), config.controller_socket_timeout_ms / 1000, failpoints, self._answered
        )
        self._core = Core(
            broker_id, self.context, self._store, channels, lambda: bool(config.unclean_leader_election_enable)
        )
        self._partitions = PartitionStateMachine(self._core)
        self._replicas = ReplicaStateMachine(self._core)
        self._deletion = TopicDeletion(self._core, self._partitions, self._replicas)
        self.reassignments = Reassignments(self._core, self._partitions, self._replicas, self._watch)
        self.elections = Elections(self._core, self._partitions, self._watch)
        self.membership = Membership(self._core, self._partitions, self._replicas, self._deletion, self.reassignments)

    def close(self) -> None:
        """Nothing more is sent."""
        self._core.channels.close()
        if self._rebalance is not None:
            self._rebalance.cancel()

    def _watch(self, event: TermEvent) -> Watcher:
        def fired(_path: str, what: WatchEvent) -> None:
            if what is not WatchEvent.LOST:
                self._enqueue(self, event)

        return fired

    def _answered(self, request: Outgoing, body: Body) -> None:
        self._enqueue(self, Answered(request, body))

    # -- failover

    async def recover(self) -> None:
        """Read everything, tell everybody, and finish what the predecessor left."""
        await self._forget_notifications(nodes.ISR_CHANGE_NOTIFICATION, IsrsChanged())
        await self._forget_notifications(nodes.LOG_DIR_EVENT_NOTIFICATION, LogDirsFailed())
        self.context.brokers = await self._store.live_brokers(self._watch(BrokersChanged()))
        for broker in self.context.broker_ids():
            self._core.channels.add(broker)
        await self._read_topics(await self._store.children(nodes.TOPICS, self._watch(TopicsChanged())))
        self.context.leadership.update(await self._store.states(self.context.partitions()))
        doomed = await self._store.children(nodes.DELETE_TOPICS, self._watch(DeletionRequested()))
        if self._config.delete_topic_enable:
            self._deletion.start(each for each in doomed if each in self.context.topic_ids)
        self.context.reassigning.update(
            each
            for each in self.context.partitions()
            if self.context.assignment(each).is_being_reassigned and not self.context.is_doomed(each)
        )
        batch = self._core.batch()
        batch.update_metadata(self.context.broker_ids(), self.context.partitions_with_leaders(), full=True)
        self._core.send(batch)
        self._partitions.start()
        await self._replicas.start()
        await self._partitions.bring_online()
        await self.reassignments.start()
        await self._deletion_requested(doomed)
        await self.elections.requested()
        if self._config.auto_leader_rebalance_enable:
            self._schedule_rebalance(FIRST_REBALANCE_S)

    async def _forget_notifications(self, folder: str, event: TermEvent) -> None:
        """What they tell is read anyway."""
        names = await self._store.children(folder, self._watch(event))
        await self._store.delete_all([f"{folder}/{name}" for name in names])

    async def _read_topics(self, topics: Iterable[str]) -> list[str]:
        """Take up topics with their assignments; those that were there to be read."""
        names = sorted(topics)
        found = await asyncio.gather(*(self._store.topic(each, self._watch(TopicModified(each))) for each in names))
        taken = [(name, each) for name, each in zip(names, found, strict=True) if each is not None]
        for name, stored in taken:
            self.context.add_topic(name, stored.topic_id)
            for partition, assignment in _assignments(name, stored).items():
                self.context.assign(partition, assignment)
        return [name for name, _ in taken]

    # -- events

    async def handle(self, event: TermEvent) -> None:
        match event:
            case BrokersChanged():
                await self.membership.changed(await self._store.live_brokers(self._watch(BrokersChanged())))
            case TopicsChanged():
                await self._topics_changed()
            case TopicModified(topic):
                await self._topic_modified(topic)
            case DeletionRequested():
                await self._deletion_requested(
                    await self._store.children(nodes.DELETE_TOPICS, self._watch(DeletionRequested()))
                )
            case ReassignmentRequested():
                await self.reassignments.requested()
            case ReassignedIsrChanged(partition):
                await self.reassignments.isr_changed(partition)
            case PreferredElectionRequested():
                await self.elections.requested()
            case IsrsChanged():
                await self._isrs_changed()
            case LogDirsFailed():
                await self._log_dirs_failed()
            case UncleanElectionEnabled(name):
                await self._partitions.bring_online(name)
            case RebalanceDue():
                await self.elections.rebalance(self._config.leader_imbalance_per_broker_percentage)
                self._schedule_rebalance(self._config.leader_imbalance_check_interval_seconds)
            case Answered(request, body):
                await self._take_answer(request, body)

    async def _topics_changed(self) -> None:
        there = await self._store.children(nodes.TOPICS, self._watch(TopicsChanged()))
        for topic in sorted(self.context.topic_ids.keys() - set(there)):
            log.warning("topic %s was removed from ZooKeeper by somebody else", topic)
            self._drop(topic)
        new = await self._read_topics(each for each in there if each not in self.context.topic_ids)
        await self._create([each for topic in new for each in self.context.partitions_of(topic)])

    async def _topic_modified(self, topic: str) -> None:
        if topic not in self.context.topic_ids:
            return
        stored = await self._store.topic(topic, self._watch(TopicModified(topic)))
        if stored is None:
            return  # the topics' own watch tells, or garbage that stays without effect
        if stored.topic_id != self.context.topic_ids[topic]:
            log.warning("topic %s was replaced by another of its name", topic)
            self._drop(topic)
            self.context.add_topic(topic, stored.topic_id)
        wanted = _assignments(topic, stored)
        added = [each for each in wanted if not self.context.knows(each)]
        if topic in self.context.doomed:
            if added:
                log.warning("partitions added to %s, which is being deleted, are taken back", topic)
                known = self.context.partitions_of(topic)
                await self._store.restore_assignment(
                    topic, {each.partition: self.context.assignment(each) for each in known}
                )
            return
        for each in added:
            self.context.assign(each, wanted[each])
        await self._create(added)

    def _drop(self, topic: str) -> None:
        """Forget a topic that nobody asked this controller to delete; brokers forget it too."""
        self.context.doomed.add(topic)
        batch = self._core.batch()
        batch.update_metadata(self.context.broker_ids(), self.context.partitions_of(topic))
        self._core.send(batch)
        self.context.remove_topic(topic)

    async def _create(self, partitions: list[TopicPartition]) -> None:
        replicas = [each for each in self.context.replicas() if each.partition in set(partitions)]
        await self._partitions.handle(partitions, PartitionPhase.NEW)
        await self._replicas.handle(replicas, ReplicaPhase.NEW)
        await self._partitions.handle(partitions, PartitionPhase.ONLINE, Strategy.OFFLINE)
        await self._replicas.handle(replicas, ReplicaPhase.ONLINE)

    async def _deletion_requested(self, wanted: list[str]) -> None:
        unknown = [each for each in wanted if each not in self.context.topic_ids]
        if unknown or not self._config.delete_topic_enable:
            marks = unknown if self._config.delete_topic_enable else wanted
            await self._store.delete_all([nodes.delete_topic_path(each) for each in marks])
        doomed = [each for each in wanted if each in self.context.topic_ids and self._config.delete_topic_enable]
        await self.reassignments.forget(doomed)
        await self._deletion.doom(doomed)

    async def _isrs_changed(self) -> None:
        folder = nodes.ISR_CHANGE_NOTIFICATION
        names = await self._store.children(folder, self._watch(IsrsChanged()))
        changed: dict[TopicPartition, None] = {}
        for data in await self._notifications(folder, names):
            try:
                changed.update(dict.fromkeys(nodes.decode_partition_list(data, "ISR change")))
            except MalformedNode as error:
                log.error("%s", error)
        known = [each for each in sorted(changed) if self.context.knows(each)]
        self.context.leadership.update(await self._store.states(known))
        if known:
            batch = self._core.batch()
            batch.update_metadata(self.context.broker_ids(), known)
            self._core.send(batch)
        await self._store.delete_all([f"{folder}/{name}" for name in names])

    async def _log_dirs_failed(self) -> None:
        folder = nodes.LOG_DIR_EVENT_NOTIFICATION
        names = await self._store.children(folder, self._watch(LogDirsFailed()))
        brokers: set[int] = set()
        for data in await self._notifications(folder, names):
            try:
                brokers.add(nodes.decode_log_dir_event(data))
            except MalformedNode as error:
                log.error("%s", error)
        await self.membership.folders_failed(sorted(brokers))
        await self._store.delete_all([f"{folder}/{name}" for name in names])

    async def _notifications(self, folder: str, names: list[str]) -> list[bytes]:
        found = await asyncio.gather(*(self._store.data(f"{folder}/{name}") for name in names))
        return [each for each in found if each is not None]

    async def _take_answer(self, request: Outgoing, body: Body) -> None:
        live = self.context.brokers.get(request.broker)
        if live is None or live.epoch != request.broker_epoch:
            return  # the answer of an earlier incarnation
        if getattr(body, "error_code", ErrorCode.none) is not ErrorCode.none:
            log.warning("broker %d answers %s to %s", request.broker, body.error_code.name, request.api.name)
        if request.api is ApiKey.LEADER_AND_ISR:
            failed, served = leader_and_isr(request, body)
            await self.membership.leader_and_isr_answered(request.broker, failed, served)
        elif request.api is ApiKey.STOP_REPLICA and request.deletes:
            deleted, kept = deletions(request, body)
            await self._deletion.failed(kept)
            await self._deletion.succeeded(deleted)

    def _schedule_rebalance(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._rebalance = loop.call_later(delay_s, self._enqueue, self, RebalanceDue())


def _assignments(topic: str, stored: TopicAssignment) -> dict[TopicPartition, ReplicaAssignment]:
    return {
        TopicPartition(topic, number): ReplicaAssignment(
            replicas, stored.adding_replicas.get(number, ()), stored.removing_replicas.get(number, ())
        )
        for number, replicas in stored.partitions.items()
    }
