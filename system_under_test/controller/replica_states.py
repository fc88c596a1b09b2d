"""The states of a replica.

::

    NonExistent -> New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful -> NonExistent
                                        ^             |
                                        |             v
                                        +---- DeletionIneligible ----> Online

*Offline* takes a replica out of its ISR, whether it died, shuts down or is about to be removed; only then its data may be
deleted. A deletion that failed, as the broker died or could not do it, makes the replica *ineligible* until that broker
is back. Three rules: what a step tells brokers is sent when it is complete; ISRs are changed by conditional writes that
are repeated over what a leader wrote meanwhile; the last member of an ISR stays in it, for nobody else has its data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from system_under_test.controller.context import Leadership, Replica, ReplicaPhase
from system_under_test.controller.core import Core, InvalidTransition, check_transition
from system_under_test.controller.requests import RequestBatch
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.nodes import NO_LEADER, PartitionState

log = logging.getLogger(__name__)

_R = ReplicaPhase
VALID_SOURCES: dict[ReplicaPhase, frozenset[ReplicaPhase]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""From where a state may be reached."""


class ReplicaStateMachine:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._context = core.context

    async def start(self) -> None:
        """States of a controller that has just read everything; every live replica is told its role."""
        online: list[Replica] = []
        offline: list[Replica] = []
        for each in self._context.replicas():
            if self._context.is_online(each.broker, each.partition):
                self._context.replica_phases[each] = _R.ONLINE
                online.append(each)
            else:
                # Should its topic be doomed, this replica is what the deletion waits for.
                self._context.replica_phases[each] = _R.DELETION_INELIGIBLE
                offline.append(each)
        await self.handle(online, _R.ONLINE)
        await self.handle(offline, _R.OFFLINE)

    async def handle(self, replicas: Iterable[Replica], target: ReplicaPhase) -> None:
        moving = sorted(replicas, key=lambda each: (each.broker, each.partition))
        for each in moving:
            check_transition(VALID_SOURCES, self._context.replica_phase(each), target, each)
        if not moving:
            return
        batch = self._core.batch()
        if target is _R.OFFLINE:
            await self._go_offline(moving, batch)
        else:
            for each in moving:
                self._tell(each, target, batch)
        for each in moving:
            self._enter(each, target)
        self._core.send(batch)

    def _enter(self, replica: Replica, phase: ReplicaPhase) -> None:
        if phase is _R.NON_EXISTENT:
            self._context.replica_phases.pop(replica, None)
            if self._context.knows(replica.partition):
                assignment = self._context.assignment(replica.partition)
                self._context.assign(replica.partition, assignment.without(replica.broker))
        else:
            self._context.replica_phases[replica] = phase

    def _tell(self, replica: Replica, target: ReplicaPhase, batch: RequestBatch) -> None:
        partition, broker = replica
        leadership = self._context.leadership.get(partition)
        if target is _R.NEW and leadership is not None:
            if leadership.state.leader == broker:
                raise InvalidTransition(f"{replica} is new and leads already")
            batch.leader_and_isr([broker], partition, leadership, is_new=True)
        elif target is _R.ONLINE:
            if broker not in self._context.assignment(partition).replicas:
                raise InvalidTransition(f"{replica} is not assigned")
            # A new replica was told its role when it became New, or with the partition's first leader.
            if leadership is not None and self._context.replica_phase(replica) is not _R.NEW:
                batch.leader_and_isr([broker], partition, leadership, is_new=False)
        elif target is _R.DELETION_STARTED:
            batch.stop_replica(broker, partition, delete=True)

    async def _go_offline(self, replicas: list[Replica], batch: RequestBatch) -> None:
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition, broker in replicas:
            batch.stop_replica(broker, partition, delete=False)
            if partition not in self._context.leadership:
                batch.update_metadata(self._context.broker_ids(), [partition])
            elif not self._context.is_doomed(partition):
                by_broker.setdefault(broker, []).append(partition)
        for broker, partitions in by_broker.items():
            for partition, leadership in (await self._remove_from_isrs(broker, partitions)).items():
                others = [each for each in self._context.assignment(partition).replicas if each != broker]
                batch.leader_and_isr(others, partition, leadership, is_new=False)

    async def _remove_from_isrs(
        self, broker: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Leadership]:
        """New states of all the partitions that still have one."""
        results: dict[TopicPartition, Leadership] = {}
        remaining = partitions
        while remaining:
            states = await self._core.store.states(remaining)
            changes: dict[TopicPartition, tuple[PartitionState, int]] = {}
            for each, current in states.items():
                leader, isr = _without(current.state, broker)
                if (leader, isr) == (current.state.leader, current.state.isr):
                    results[each] = current
                else:
                    changes[each] = (self._context.next_state(current.state, leader, isr), current.version)
            results |= await self._core.store.update_states(changes)
            remaining = [each for each in changes if each not in results]
        self._context.leadership.update(results)
        return results


def _without(state: PartitionState, broker: int) -> tuple[int, tuple[int, ...]]:
    """Leader and ISR without a broker."""
    leader = NO_LEADER if state.leader == broker else state.leader
    isr = tuple(each for each in state.isr if each != broker)
    return leader, isr or state.isr
