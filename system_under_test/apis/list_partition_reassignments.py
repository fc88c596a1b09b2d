"""ListPartitionReassignments: version 0. Only the controller serves it (NOT_CONTROLLER elsewhere).

Moves that are under way, of all partitions or of those asked for: all replicas, those being added, those being removed.
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

API = ApiKey.LIST_PARTITION_REASSIGNMENTS
VERSIONS = range(1)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    asked = request.body.topics
    wanted = (
        None
        if asked is None
        else [TopicPartition(topic.name, number) for topic in asked for number in topic.partition_indexes]
    )
    timeout_s = request.body.timeout.total_seconds()
    found = await in_time(broker.controller.list_partition_reassignments(wanted), timeout_s)
    make = request.maker
    topics = []
    for topic, numbers in by_topic(found).items():
        partitions = []
        for number in numbers:
            assignment = found[TopicPartition(topic, number)]
            partitions.append(
                make(
                    "OngoingPartitionReassignment",
                    partition_index=number,
                    replicas=assignment.replicas,
                    adding_replicas=assignment.adding,
                    removing_replicas=assignment.removing,
                )
            )
        topics.append(make("OngoingTopicReassignment", name=topic, partitions=tuple(partitions)))
    return make.root(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=tuple(topics))


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(throttle_time=NO_THROTTLE, error_code=code, error_message=message, topics=())
