"""A small Kafka client for simulated clusters: it finds leaders, produces, fetches, and tells what is certain.

It speaks the protocol through :mod:`system_under_test.protocol.messages`, one connection per broker, and has no opinion:
an error or a silence is an exception, retrying is the caller's business.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from system_under_test.protocol import batch
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.batch import Record
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import maker
from system_under_test.server.peer import Peers
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.world import ConnectionLost, World

METADATA_VERSION, PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, INIT_PRODUCER_ID_VERSION = 9, 9, 12, 7, 4
EARLIEST, LATEST = -2, -1
_ANSWER_TIMEOUT_S = 3.0
_MAX_BYTES = 1 << 20
_NO_SESSION = 0, -1

CLIENT_ERRORS = (ApiError, ConnectionLost, TimeoutError)
"""What a call raises when it did not succeed. Of a produce nobody then knows what became of it."""


class Numbering(NamedTuple):
    """An idempotent producer's batch."""

    producer_id: int
    epoch: int
    sequence: int


class SimpleClient:
    def __init__(self, world: World, bootstrap: Mapping[int, BrokerEndpoint], client_id: str) -> None:
        self._world = world
        self._endpoints = dict(bootstrap)
        self._peers = Peers(world.network, self._endpoints.get, client_id)
        self.leaders: dict[TopicPartition, int] = {}
        """As the last metadata told."""

    async def refresh(self) -> None:
        """Ask any broker who leads what."""
        make = maker(ApiKey.METADATA, METADATA_VERSION, False)
        request = make.root(
            topics=None,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = await self._ask(self._world.random.choice(sorted(self._endpoints)), ApiKey.METADATA, request)
        for broker in answer.brokers:
            self._endpoints[broker.node_id] = BrokerEndpoint(broker.node_id, broker.host, broker.port)
        for topic in answer.topics:
            for partition in topic.partitions:
                self.leaders[TopicPartition(topic.name, partition.partition_index)] = partition.leader_id

    async def try_refresh(self) -> None:
        with suppress(*CLIENT_ERRORS):
            await self.refresh()

    async def init_producer_id(self) -> int:
        """From any broker; the epoch is 0."""
        make = maker(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, False)
        request = make.root(transactional_id=None, transaction_timeout=datetime.timedelta(0))
        answer = await self._ask(self._world.random.choice(sorted(self._endpoints)), ApiKey.INIT_PRODUCER_ID, request)
        _check(answer.error_code)
        assert answer.producer_epoch == 0
        return int(answer.producer_id)

    async def produce(
        self,
        partition: TopicPartition,
        values: Sequence[bytes],
        *,
        acks: int,
        timeout_ms: int = 2000,
        numbering: Numbering | None = None,
    ) -> int:
        """The offset of the first record."""
        producer_id, epoch, sequence = numbering or (-1, -1, -1)
        now_ms = self._world.clock.time_ms()
        records = batch.encode(
            [Record(offset, now_ms, None, value, ()) for offset, value in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        make = maker(ApiKey.PRODUCE, PRODUCE_VERSION, False)
        request = make.root(
            transactional_id=None,
            acks=acks,
            timeout=datetime.timedelta(milliseconds=timeout_ms),
            topic_data=(
                make(
                    "TopicProduceData",
                    name=partition.topic,
                    partition_data=(make("PartitionProduceData", index=partition.partition, records=records),),
                ),
            ),
        )
        answer = await self._ask(self._leader(partition), ApiKey.PRODUCE, request)
        result = answer.responses[0].partition_responses[0]
        _check(result.error_code)
        return int(result.base_offset)

    async def fetch(self, partition: TopicPartition, offset: int, *, max_wait_ms: int = 500) -> list[Record]:
        """Records from ``offset`` on; [] when there are none yet."""
        make = maker(ApiKey.FETCH, FETCH_VERSION, False)
        wanted = make(
            "FetchPartition",
            partition=partition.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=_MAX_BYTES,
        )
        session_id, session_epoch = _NO_SESSION
        request = make.root(
            replica_id=-1,
            max_wait=datetime.timedelta(milliseconds=max_wait_ms),
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=0,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=(make("FetchTopic", topic=partition.topic, partitions=(wanted,)),),
            forgotten_topics_data=(),
            rack_id="",
        )
        answer = await self._ask(self._leader(partition), ApiKey.FETCH, request)
        _check(answer.error_code)
        result = answer.responses[0].partitions[0]
        _check(result.error_code)
        data = bytes(result.records or b"")
        found = [
            record
            for position, header in batch.headers(data)
            for record in batch.decode(data[position : position + header.size_bytes])
        ]
        return [each for each in found if each.offset >= offset]

    async def list_offset(self, partition: TopicPartition, timestamp: int = LATEST) -> int:
        make = maker(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, False)
        wanted = make(
            "ListOffsetsPartition", partition_index=partition.partition, current_leader_epoch=-1, timestamp=timestamp
        )
        topic = make("ListOffsetsTopic", name=partition.topic, partitions=(wanted,))
        request = make.root(replica_id=-1, isolation_level=0, topics=(topic,))
        answer = await self._ask(self._leader(partition), ApiKey.LIST_OFFSETS, request)
        result = answer.topics[0].partitions[0]
        _check(result.error_code)
        return int(result.offset)

    def close(self) -> None:
        self._peers.close()

    def _leader(self, partition: TopicPartition) -> int:
        leader = self.leaders.get(partition, -1)
        if leader not in self._endpoints:
            raise ApiError(ErrorCode.leader_not_available)
        return leader

    async def _ask(self, broker_id: int, api: ApiKey, request: Any) -> Any:
        return await self._peers.get(broker_id).request(api, _VERSIONS[api], request, _ANSWER_TIMEOUT_S)


_VERSIONS = {
    ApiKey.METADATA: METADATA_VERSION,
    ApiKey.PRODUCE: PRODUCE_VERSION,
    ApiKey.FETCH: FETCH_VERSION,
    ApiKey.LIST_OFFSETS: LIST_OFFSETS_VERSION,
    ApiKey.INIT_PRODUCER_ID: INIT_PRODUCER_ID_VERSION,
}


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.none:
        raise ApiError(code)
