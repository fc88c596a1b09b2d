"""LeaderAndIsr and StopReplica: what they say, in any version, and what is answered."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Request
from system_under_test.replication.partition import StateChange
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.topics import check_name

NO_EPOCH = -1
"""StopReplica of a controller that does not tell the leader epoch."""
EPOCH_DURING_DELETE = -2
"""StopReplica for a topic's deletion: overrides every leader epoch."""
INCREMENTAL = 0
FULL = 1
"""Type of a LeaderAndIsr request that names every partition the broker should have."""


@dataclass(frozen=True, slots=True)
class Stop:
    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


def state_changes(request: Request) -> list[StateChange]:
    body = request.body
    if request.version < 2:
        return [_change(each.topic_name, None, each) for each in body.ungrouped_partition_states]
    return [
        _change(topic.topic_name, getattr(topic, "topic_id", None), each)
        for topic in body.topic_states
        for each in topic.partition_states
    ]


def _change(topic: str, topic_id: uuid.UUID | None, state: Body) -> StateChange:
    return StateChange(
        TopicPartition(topic, state.partition_index),
        topic_id,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.partition_epoch,
        tuple(state.replicas),
        getattr(state, "is_new", False),
    )


def check(change: StateChange) -> None:
    """What no controller sends. Refused here, before a folder of that name is made or a leadership contradicts itself."""
    check_name(change.topic_partition.topic)
    if change.topic_partition.partition < 0 or change.leader_epoch < 0:
        raise ApiError(ErrorCode.invalid_request, f"partition or leader epoch is negative: {change}")
    if change.leader >= 0 and change.leader not in change.isr:
        raise ApiError(ErrorCode.invalid_request, f"the leader is outside of its ISR: {change}")


def leader_and_isr_answer(request: Request, error: ErrorCode, results: dict[TopicPartition, ErrorCode]) -> Body:
    make = request.maker
    if request.version < 5:
        errors = tuple(
            make("LeaderAndIsrPartitionError", topic_name=topic, partition_index=number, error_code=code)
            for (topic, number), code in results.items()
        )
        return make.root(error_code=error, partition_errors=errors)
    ids = {topic.topic_name: topic.topic_id for topic in request.body.topic_states}
    by_topic: dict[str, list[Body]] = {}
    for (topic, number), code in results.items():
        by_topic.setdefault(topic, []).append(
            make("LeaderAndIsrPartitionError", partition_index=number, error_code=code)
        )
    topics = tuple(
        make("LeaderAndIsrTopicError", topic_id=ids[topic], partition_errors=tuple(errors))
        for topic, errors in by_topic.items()
    )
    return make.root(error_code=error, topics=topics)


def stops(request: Request) -> list[Stop]:
    body = request.body
    if request.version == 0:
        return [
            Stop(TopicPartition(each.topic_name, each.partition_index), NO_EPOCH, body.delete_partitions)
            for each in body.ungrouped_partitions
        ]
    if request.version < 3:
        return [
            Stop(TopicPartition(topic.name, number), NO_EPOCH, body.delete_partitions)
            for topic in body.topics
            for number in topic.partition_indexes
        ]
    return [
        Stop(TopicPartition(topic.topic_name, each.partition_index), each.leader_epoch, each.delete_partition)
        for topic in body.topic_states
        for each in topic.partition_states
    ]


def stop_replica_answer(
    request: Request, error: ErrorCode, results: Iterable[tuple[TopicPartition, ErrorCode]]
) -> Body:
    make = request.maker
    errors = tuple(
        make("StopReplicaPartitionError", topic_name=topic, partition_index=number, error_code=code)
        for (topic, number), code in results
    )
    return make.root(error_code=error, partition_errors=errors)
