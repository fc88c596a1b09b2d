"""What the controller knows: brokers, topics, assignments, leadership, and the state of every partition and replica.

It is filled from ZooKeeper when a broker becomes controller, and belongs to the one task that handles its events.
Everything that is iterated is kept in order, so that the same events give the same requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.zookeeper.nodes import BrokerRegistration, PartitionState


class PartitionPhase(Enum):
    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaPhase(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class Replica(NamedTuple):
    partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.partition} on {self.broker}"


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Where a partition's replicas are. During a reassignment ``replicas`` is the union of before and after."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """As it was before the reassignment."""
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """As it will be."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> ReplicaAssignment:
        """Begin a reassignment, or change the target of the one under way: what it added so far is given up."""
        wanted, origin = tuple(target), self.origin
        union = (*wanted, *(each for each in origin if each not in wanted))
        return ReplicaAssignment(
            union,
            adding=tuple(each for each in union if each not in origin),
            removing=tuple(each for each in union if each not in wanted),
        )

    def without(self, broker: int) -> ReplicaAssignment:
        return ReplicaAssignment(
            tuple(each for each in self.replicas if each != broker),
            tuple(each for each in self.adding if each != broker),
            tuple(each for each in self.removing if each != broker),
        )


@dataclass(frozen=True, slots=True)
class Leadership:
    """A partition's state in ZooKeeper and the version of its node."""

    state: PartitionState
    version: int


@dataclass(frozen=True, slots=True)
class LiveBroker:
    registration: BrokerRegistration
    epoch: int


class ControllerContext:
    def __init__(self, epoch: int, inter_broker_listener: str) -> None:
        self.epoch = epoch
        self._inter_broker_listener = inter_broker_listener
        self.brokers: dict[int, LiveBroker] = {}
        """Registered, those that are shutting down included."""
        self.shutting_down: set[int] = set()
        self.offline_folders: dict[int, set[TopicPartition]] = {}
        """Replicas that a live broker cannot serve, as the folder that they are in failed."""
        self.topic_ids: dict[str, UUID | None] = {}
        """Every topic that is known."""
        self._assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, Leadership] = {}
        self.partition_phases: dict[TopicPartition, PartitionPhase] = {}
        self.replica_phases: dict[Replica, ReplicaPhase] = {}
        self.reassigning: set[TopicPartition] = set()
        self.doomed: set[str] = set()
        """Topics queued for deletion."""
        self.deletion_started: set[str] = set()
        self.deletion_ineligible: set[str] = set()

    # -- brokers

    def broker_ids(self) -> list[int]:
        """Live or shutting down: everybody who is sent requests."""
        return sorted(self.brokers)

    def live_ids(self) -> list[int]:
        """Those who may lead."""
        return sorted(self.brokers.keys() - self.shutting_down)

    def endpoint(self, broker: int) -> BrokerEndpoint | None:
        """Where the other brokers reach this one."""
        live = self.brokers.get(broker)
        listener = None if live is None else live.registration.listener(self._inter_broker_listener)
        if live is None or listener is None:
            return None
        return BrokerEndpoint(broker, listener.host, listener.port, live.registration.rack)

    def is_online(self, broker: int, partition: TopicPartition, *, shutting_down_too: bool = False) -> bool:
        if broker not in self.brokers or (broker in self.shutting_down and not shutting_down_too):
            return False
        return partition not in self.offline_folders.get(broker, ())

    # -- topics and assignments

    def add_topic(self, topic: str, topic_id: UUID | None) -> None:
        self.topic_ids[topic] = topic_id
        self._assignments.setdefault(topic, {})

    def remove_topic(self, topic: str) -> None:
        for partition in self.partitions_of(topic):
            for broker in self.assignment(partition).replicas:
                self.replica_phases.pop(Replica(partition, broker), None)
            self.partition_phases.pop(partition, None)
            self.leadership.pop(partition, None)
            self.reassigning.discard(partition)
        self._assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.doomed.discard(topic)
        self.deletion_started.discard(topic)
        self.deletion_ineligible.discard(topic)

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self._assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        return self._assignments.get(partition.topic, {}).get(partition.partition, _UNASSIGNED)

    def knows(self, partition: TopicPartition) -> bool:
        return partition.partition in self._assignments.get(partition.topic, {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self._assignments.get(topic, {}))]

    def partitions(self) -> Iterator[TopicPartition]:
        for topic in sorted(self._assignments):
            yield from self.partitions_of(topic)

    def replicas_of(self, topic: str) -> list[Replica]:
        return [
            Replica(each, broker) for each in self.partitions_of(topic) for broker in self.assignment(each).replicas
        ]

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        wanted = set(brokers)
        return [
            Replica(each, broker)
            for each in self.partitions()
            for broker in self.assignment(each).replicas
            if broker in wanted
        ]

    def replicas(self) -> list[Replica]:
        return [Replica(each, broker) for each in self.partitions() for broker in self.assignment(each).replicas]

    def is_doomed(self, partition: TopicPartition) -> bool:
        return partition.topic in self.doomed

    # -- states

    def partition_phase(self, partition: TopicPartition) -> PartitionPhase:
        return self.partition_phases.get(partition, PartitionPhase.NON_EXISTENT)

    def replica_phase(self, replica: Replica) -> ReplicaPhase:
        return self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def replicas_in(self, topic: str, phase: ReplicaPhase) -> list[Replica]:
        return [each for each in self.replicas_of(topic) if self.replica_phase(each) is phase]

    def partitions_with_leaders(self) -> list[TopicPartition]:
        return [each for each in self.partitions() if each in self.leadership and not self.is_doomed(each)]

    def partitions_without_live_leader(self) -> list[TopicPartition]:
        return [
            each
            for each in self.partitions_with_leaders()
            if not self.is_online(self.leadership[each].state.leader, each)
        ]

    def next_state(self, state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
        """What this controller writes after ``state``: every change of its own raises the leader epoch."""
        return PartitionState(leader, state.leader_epoch + 1, isr, self.epoch)


_UNASSIGNED = ReplicaAssignment(())
