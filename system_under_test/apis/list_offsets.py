"""ListOffsets: versions 1 to 9.

By time, or earliest (-2), latest (-1), largest timestamp (-3), earliest local (-4, the same as earliest here) and latest
tiered (-5, never there). Consumers see up to the high watermark, and OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE
before version 5) while a new leader's high watermark lags behind its epoch's start (KIP-207); brokers see the log's end.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from system_under_test.apis.admin import twice
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.replication.offsets import find_offset
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.LIST_OFFSETS
VERSIONS = range(1, 10)

_CONSUMER = -1
_NO_THROTTLE = timedelta(0)
_OLDEST_FOR = {-3: 7, -4: 8, -5: 9}
"""From which version on a special timestamp may be asked for."""


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    repeated = twice((topic.name, part.partition_index) for topic in request.body.topics for part in topic.partitions)
    topics = tuple(
        make(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=tuple(
                _partition(broker, request, make, topic.name, part, repeated) for part in topic.partitions
            ),
        )
        for topic in request.body.topics
    )
    return make.root(throttle_time=_NO_THROTTLE, topics=topics)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    make = request.maker
    topics = tuple(
        make(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=tuple(
                make("ListOffsetsPartitionResponse", partition_index=part.partition_index, error_code=code)
                for part in topic.partitions
            ),
        )
        for topic in request.body.topics
    )
    return make.root(throttle_time=_NO_THROTTLE, topics=topics)


def _partition(
    broker: BrokerContext, request: Request, make: Maker, topic: str, part: Body, repeated: set[tuple[str, int]]
) -> Body:
    not_available = ErrorCode.offset_not_available if request.version >= 5 else ErrorCode.leader_not_available
    try:
        if request.version < _OLDEST_FOR.get(part.timestamp, 1):
            raise ApiError(ErrorCode.unsupported_version)
        if (topic, part.partition_index) in repeated:
            raise ApiError(ErrorCode.invalid_request)
        found = find_offset(
            broker.replicas.partition(TopicPartition(topic, part.partition_index)),
            part.timestamp,
            getattr(part, "current_leader_epoch", -1),
            is_consumer=request.body.replica_id == _CONSUMER,
            not_available=not_available,
        )
    except ApiError as error:
        return make("ListOffsetsPartitionResponse", partition_index=part.partition_index, error_code=error.code)
    return make(
        "ListOffsetsPartitionResponse",
        partition_index=part.partition_index,
        error_code=ErrorCode.none,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )
