"""AlterPartitionReassignments: version 0 (KIP-455). Only the controller serves it (NOT_CONTROLLER elsewhere).

Begins to move a partition's replicas, changes the target of a move under way, or with null cancels it
(NO_REASSIGNMENT_IN_PROGRESS where there is none). The answer tells that it has begun; ListPartitionReassignments shows
its progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE, by_topic, in_time, not_controller
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS
VERSIONS = range(1)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    wanted = {
        TopicPartition(topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
        for topic in request.body.topics
        for each in topic.partitions
    }
    timeout_s = request.body.timeout.total_seconds()
    outcomes = await in_time(broker.controller.alter_partition_reassignments(wanted), timeout_s)
    make = request.maker
    responses = []
    for topic, numbers in by_topic(outcomes).items():
        partitions = []
        for number in numbers:
            error = outcomes[TopicPartition(topic, number)]
            partitions.append(
                make(
                    "ReassignablePartitionResponse",
                    partition_index=number,
                    error_code=ErrorCode.none if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
            )
        responses.append(make("ReassignableTopicResponse", name=topic, partitions=tuple(partitions)))
    return make.root(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, responses=tuple(responses)
    )


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(throttle_time=NO_THROTTLE, error_code=code, error_message=message, responses=())
