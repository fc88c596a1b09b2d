"""What brokers' answers say about single replicas."""

from __future__ import annotations

from system_under_test.controller.context import Replica
from system_under_test.controller.requests import Outgoing
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body
from system_under_test.types import TopicPartition


def leader_and_isr(request: Outgoing, answer: Body) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Partitions whose folder has failed, and those that are served."""
    if answer.error_code is not ErrorCode.none:
        return [], []
    names = {topic.topic_id: topic.topic_name for topic in request.body.topic_states}
    failed: list[TopicPartition] = []
    served: list[TopicPartition] = []
    for topic in answer.topics:
        for each in topic.partition_errors:
            partition = TopicPartition(names[topic.topic_id], each.partition_index)
            if each.error_code is ErrorCode.kafka_storage_error:
                failed.append(partition)
            elif each.error_code is ErrorCode.none:
                served.append(partition)
    return failed, served


def deletions(request: Outgoing, answer: Body) -> tuple[list[Replica], list[Replica]]:
    """Replicas whose data is gone, and those that are still there."""
    if answer.error_code is not ErrorCode.none:
        return [], [Replica(each, request.broker) for each in sorted(request.deletes)]
    bad = {
        TopicPartition(each.topic_name, each.partition_index)
        for each in answer.partition_errors
        if each.error_code is not ErrorCode.none
    }
    asked = sorted(request.deletes)
    return (
        [Replica(each, request.broker) for each in asked if each not in bad],
        [Replica(each, request.broker) for each in asked if each in bad],
    )
