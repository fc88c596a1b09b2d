"""What the controller tells brokers, gathered while it handles one change and sent as one request per broker and kind.

LeaderAndIsr goes to replicas, UpdateMetadata to every broker, StopReplica to replicas that end. Each carries the
controller's epoch and the epoch of the broker that it is meant for: a later incarnation refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from system_under_test.controller.context import ControllerContext, Leadership, ReplicaAssignment
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.messages import Body, Maker, maker
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.nodes import LEADER_DURING_DELETE, NO_LEADER, PartitionState

VERSIONS = {ApiKey.LEADER_AND_ISR: 7, ApiKey.UPDATE_METADATA: 8, ApiKey.STOP_REPLICA: 4}
EPOCH_DURING_DELETE = -2
"""Leader epoch in StopReplica of a topic that is deleted: it overrules every other."""
NO_EPOCH = -1
INCREMENTAL, FULL = 1, 2
"""Kinds of UpdateMetadata."""
_NO_LEADERSHIP = Leadership(PartitionState(NO_LEADER, 0, (), 0), 0)
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request to one broker."""

    broker: int
    broker_epoch: int
    api: ApiKey
    version: int
    body: Body
    deletes: frozenset[TopicPartition] = frozenset()
    """Of a StopReplica: the partitions whose data it removes."""


class RequestBatch:
    """Gathers; :meth:`requests` takes the state of the context when it is called."""

    def __init__(self, controller_id: int, context: ControllerContext) -> None:
        self._controller_id = controller_id
        self._context = context
        self._leader_and_isr: dict[int, dict[TopicPartition, tuple[Leadership, ReplicaAssignment, bool]]] = {}
        self._update_metadata: dict[int, dict[TopicPartition, None]] = {}
        self._full: set[int] = set()
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}

    def leader_and_isr(
        self, brokers: Iterable[int], partition: TopicPartition, leadership: Leadership, *, is_new: bool
    ) -> None:
        """Also tells everybody's metadata."""
        assignment = self._context.assignment(partition)
        for broker in brokers:
            if broker >= 0:
                states = self._leader_and_isr.setdefault(broker, {})
                was_new = partition in states and states[partition][2]
                states[partition] = (leadership, assignment, is_new or was_new)
        self.update_metadata(self._context.broker_ids(), [partition])

    def update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[TopicPartition], *, full: bool = False
    ) -> None:
        """Without partitions: only which brokers there are. ``full``: nothing but this exists, so that a broker also
        forgets topics whose end it missed."""
        told = dict.fromkeys(partitions)
        for broker in brokers:
            self._update_metadata.setdefault(broker, {}).update(told)
            if full:
                self._full.add(broker)

    def stop_replica(self, broker: int, partition: TopicPartition, *, delete: bool) -> None:
        stops = self._stop_replica.setdefault(broker, {})
        stops[partition] = delete or stops.get(partition, False)

    def requests(self) -> list[Outgoing]:
        """In the order in which a broker should get them: roles, then metadata, then ends."""
        return [
            *(self._build_leader_and_isr(each) for each in self._known(self._leader_and_isr)),
            *(self._build_update_metadata(each) for each in self._known(self._update_metadata)),
            *(self._build_stop_replica(each) for each in self._known(self._stop_replica)),
        ]

    def _known(self, brokers: Iterable[int]) -> list[int]:
        return sorted(each for each in brokers if each in self._context.brokers)

    def _outgoing(
        self, broker: int, api: ApiKey, fields: dict[str, Any], deletes: frozenset[TopicPartition] = frozenset()
    ) -> Outgoing:
        epoch = self._context.brokers[broker].epoch
        body = _make(api).root(
            controller_id=self._controller_id,
            is_k_raft_controller=False,
            controller_epoch=self._context.epoch,
            broker_epoch=epoch,
            **fields,
        )
        return Outgoing(broker, epoch, api, VERSIONS[api], body, deletes)

    # -- LeaderAndIsr

    def _build_leader_and_isr(self, broker: int) -> Outgoing:
        make = _make(ApiKey.LEADER_AND_ISR)
        states = self._leader_and_isr[broker]
        topics = tuple(
            make(
                "LeaderAndIsrTopicState",
                topic_name=topic,
                topic_id=self._context.topic_ids.get(topic),
                partition_states=tuple(self._leader_and_isr_partition(make, each, *states[each]) for each in group),
            )
            for topic, group in _by_topic(states)
        )
        leaders = sorted({leadership.state.leader for leadership, _, _ in states.values()})
        endpoints = [endpoint for each in leaders if (endpoint := self._context.endpoint(each)) is not None]
        live = tuple(
            make("LeaderAndIsrLiveLeader", broker_id=each.id, host_name=each.host, port=each.port) for each in endpoints
        )
        return self._outgoing(broker, ApiKey.LEADER_AND_ISR, {"type_": 0, "topic_states": topics, "live_leaders": live})

    def _leader_and_isr_partition(
        self,
        make: Maker,
        partition: TopicPartition,
        leadership: Leadership,
        assignment: ReplicaAssignment,
        is_new: bool,
    ) -> Body:
        state = leadership.state
        return make(
            "LeaderAndIsrPartitionState",
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=leadership.version,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=0,
        )

    # -- UpdateMetadata

    def _build_update_metadata(self, broker: int) -> Outgoing:
        make = _make(ApiKey.UPDATE_METADATA)
        told = [
            each
            for each in self._update_metadata[broker]
            if each in self._context.leadership or self._context.is_doomed(each)
        ]
        topics = tuple(
            make(
                "UpdateMetadataTopicState",
                topic_name=topic,
                topic_id=self._context.topic_ids.get(topic),
                partition_states=tuple(self._metadata_partition(make, each) for each in group),
            )
            for topic, group in _by_topic(told)
        )
        live = tuple(self._metadata_broker(make, each) for each in self._context.broker_ids())
        kind = FULL if broker in self._full else INCREMENTAL
        return self._outgoing(
            broker, ApiKey.UPDATE_METADATA, {"type_": kind, "topic_states": topics, "live_brokers": live}
        )

    def _metadata_partition(self, make: Maker, partition: TopicPartition) -> Body:
        # A doomed partition may have lost its state already; brokers are told of its end all the same.
        leadership = self._context.leadership.get(partition, _NO_LEADERSHIP)
        state = leadership.state
        replicas = self._context.assignment(partition).replicas
        return make(
            "UpdateMetadataPartitionState",
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if self._context.is_doomed(partition) else state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=leadership.version,
            replicas=replicas,
            offline_replicas=tuple(each for each in replicas if not self._context.is_online(each, partition)),
        )

    def _metadata_broker(self, make: Maker, broker: int) -> Body:
        registration = self._context.brokers[broker].registration
        return make(
            "UpdateMetadataBroker",
            id_=broker,
            endpoints=tuple(
                make(
                    "UpdateMetadataEndpoint",
                    host=each.host,
                    port=each.port,
                    listener=each.name,
                    security_protocol=SECURITY_PROTOCOLS.get(each.security_protocol, 0),
                )
                for each in registration.listeners
            ),
            rack=registration.rack,
        )

    # -- StopReplica

    def _build_stop_replica(self, broker: int) -> Outgoing:
        make = _make(ApiKey.STOP_REPLICA)
        stops = self._stop_replica[broker]
        topics = tuple(
            make(
                "StopReplicaTopicState",
                topic_name=topic,
                partition_states=tuple(
                    make(
                        "StopReplicaPartitionState",
                        partition_index=each.partition,
                        leader_epoch=self._stop_epoch(each),
                        delete_partition=stops[each],
                    )
                    for each in group
                ),
            )
            for topic, group in _by_topic(stops)
        )
        deletes = frozenset(each for each, delete in stops.items() if delete)
        return self._outgoing(broker, ApiKey.STOP_REPLICA, {"topic_states": topics}, deletes)

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if self._context.is_doomed(partition):
            return EPOCH_DURING_DELETE
        leadership = self._context.leadership.get(partition)
        return NO_EPOCH if leadership is None else leadership.state.leader_epoch


def _make(api: ApiKey) -> Maker:
    return maker(api, VERSIONS[api], False)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for each in sorted(partitions):
        grouped.setdefault(each.topic, []).append(each)
    return list(grouped.items())
