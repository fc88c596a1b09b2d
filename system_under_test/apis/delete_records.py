"""DeleteRecords: versions 0 to 2. Records below an offset (-1: the high watermark) are gone.

Answered with the low watermark, the smallest log start of all live replicas, once it has reached the offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.replication.deleting import Deletion
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.DELETE_RECORDS
VERSIONS = range(3)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    offsets = [
        (TopicPartition(topic.name, part.partition_index), part.offset)
        for topic in request.body.topics
        for part in topic.partitions
    ]
    results = broker.replicas.delete_records(offsets, request.body.timeout.total_seconds())
    if isinstance(results, list):
        return _response(request, results)
    return asyncio.ensure_future(_later(request, results))


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return _response(
        request,
        [
            Deletion(TopicPartition(topic.name, part.partition_index), -1, code)
            for topic in request.body.topics
            for part in topic.partitions
        ],
    )


async def _later(request: Request, results: asyncio.Future[list[Deletion]]) -> Body:
    return _response(request, await results)


def _response(request: Request, results: Sequence[Deletion]) -> Body:
    make = request.maker
    topics: dict[str, list[Body]] = {}
    for each in results:
        topic, number = each.topic_partition
        topics.setdefault(topic, []).append(
            make(
                "DeleteRecordsPartitionResult",
                partition_index=number,
                low_watermark=each.low_watermark,
                error_code=each.error,
            )
        )
    return make.root(
        throttle_time=timedelta(0),
        topics=tuple(
            make("DeleteRecordsTopicResult", name=name, partitions=tuple(parts)) for name, parts in topics.items()
        ),
    )
