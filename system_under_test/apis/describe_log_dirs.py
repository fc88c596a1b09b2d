"""DescribeLogDirs: versions 1 to 4. The folders of this broker, the replicas in them and their sizes.

Null asks for every partition. Sizes of the disk are answered as unknown (-1): the injected file system does not tell them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE, by_topic
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext
    from system_under_test.storage.log import Log

API = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = range(1, 5)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    asked = request.body.topics
    wanted = None if asked is None else {TopicPartition(each.topic, one) for each in asked for one in each.partitions}
    logs: dict[TopicPartition, Log] = {
        each.topic_partition: each
        for each in broker.logs.all_logs()
        if wanted is None or each.topic_partition in wanted
    }
    results = []
    for folder in broker.config.log_dirs:
        here = sorted(each for each in logs if broker.logs.dir_of(each) == folder)
        topics = tuple(
            make(
                "DescribeLogDirsTopic",
                name=topic,
                partitions=tuple(
                    make(
                        "DescribeLogDirsPartition",
                        partition_index=number,
                        partition_size=logs[TopicPartition(topic, number)].size_bytes,
                        offset_lag=_lag(logs[TopicPartition(topic, number)]),
                        is_future_key=False,
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(here).items()
        )
        results.append(
            make(
                "DescribeLogDirsResult",
                error_code=ErrorCode.none,
                log_dir=folder,
                topics=topics,
                total_bytes=-1,
                usable_bytes=-1,
            )
        )
    return make.root(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=tuple(results))


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(throttle_time=NO_THROTTLE, error_code=code, results=())


def _lag(log: Log) -> int:
    """How far the replica's end is behind what is known to be committed."""
    return max(log.high_watermark - log.end_offset, 0)
