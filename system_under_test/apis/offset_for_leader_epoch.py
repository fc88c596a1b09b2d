"""OffsetForLeaderEpoch: versions 2 to 4.

The largest epoch that is not larger than the one asked for, and where it ends in the leader's log (KIP-101, KIP-279),
fenced by the asker's current leader epoch (KIP-320). Followers here find divergence by their fetches; consumers ask this.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = range(2, 5)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    topics = tuple(
        make(
            "OffsetForLeaderTopicResult",
            topic=topic.topic,
            partitions=tuple(_partition(broker, make, topic.topic, part) for part in topic.partitions),
        )
        for topic in request.body.topics
    )
    return make.root(throttle_time=timedelta(0), topics=topics)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    make = request.maker
    topics = tuple(
        make(
            "OffsetForLeaderTopicResult",
            topic=topic.topic,
            partitions=tuple(
                make("EpochEndOffset", partition=part.partition, error_code=code) for part in topic.partitions
            ),
        )
        for topic in request.body.topics
    )
    return make.root(throttle_time=timedelta(0), topics=topics)


def _partition(broker: BrokerContext, make: Maker, topic: str, part: Body) -> Body:
    try:
        partition = broker.replicas.partition(TopicPartition(topic, part.partition))
        end = partition.last_offset_for_leader_epoch(part.current_leader_epoch, part.leader_epoch)
    except ApiError as error:
        return make("EpochEndOffset", partition=part.partition, error_code=error.code)
    return make(
        "EpochEndOffset",
        partition=part.partition,
        error_code=ErrorCode.none,
        leader_epoch=end.epoch,
        end_offset=end.end_offset,
    )
