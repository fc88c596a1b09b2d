"""DescribeProducers: version 0. The producers that a replica knows of, leader or not, as in Kafka.

Transactions are left out: no producer has one, and no coordinator's epoch is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.DESCRIBE_PRODUCERS
VERSIONS = range(1)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    topics = tuple(
        make(
            "TopicResponse",
            name=topic.name,
            partitions=tuple(
                _partition(broker, make, TopicPartition(topic.name, index)) for index in topic.partition_indexes
            ),
        )
        for topic in request.body.topics
    )
    return make.root(throttle_time=NO_THROTTLE, topics=topics)


def _partition(broker: BrokerContext, make: Maker, key: TopicPartition) -> Body:
    try:
        producers = broker.replicas.partition(key).log.producers.producers
    except ApiError as error:
        return make(
            "PartitionResponse",
            partition_index=key.partition,
            error_code=error.code,
            error_message=error.message,
            active_producers=(),
        )
    active = tuple(
        make(
            "ProducerState",
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.current_txn_first_offset,
        )
        for producer_id, state in producers.items()
    )
    return make("PartitionResponse", partition_index=key.partition, error_code=ErrorCode.none, active_producers=active)
