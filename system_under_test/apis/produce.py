"""Produce: versions 3 to 11.

acks 0 (no answer; an error closes the connection, for there is no other way to tell), 1 (after the leader's append), and
all (after the high watermark has passed the append, or NOT_ENOUGH_REPLICAS before or after it). From version 10 on a
client that asks the wrong broker is told the leader (KIP-951). Left out: transactions, quotas.

Failpoints: ``produce.before_append``, ``produce.before_ack`` (both with the topic and partition, once for each).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode, MalformedRequest
from system_under_test.protocol.fetch_response import LeaderIdAndEpoch, NodeEndpoint
from system_under_test.protocol.messages import RawResponse, Reply, Request
from system_under_test.protocol.produce_response import (
    PartitionResult,
    ProduceResponseData,
    encode_produce_response,
)
from system_under_test.types import TopicPartition
from system_under_test.world import Buffer

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.PRODUCE
VERSIONS = range(3, 12)

_ACKS = (-1, 0, 1)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    body = request.body
    acks: int = body.acks
    batches: list[tuple[TopicPartition, Buffer | None]] = [
        (TopicPartition(topic.name, part.index), part.records)
        for topic in body.topic_data
        for part in topic.partition_data
    ]
    if acks not in _ACKS:
        return refused(request, ErrorCode.invalid_required_acks, None)
    if broker.failpoints.on:
        await _reach(broker, "produce.before_append", batches)
    timeout_s = body.timeout.total_seconds()
    if broker.failpoints.on and acks != 0:
        results = broker.replicas.append_records(batches, acks, timeout_s)
        return asyncio.ensure_future(_answer_at_failpoint(broker, request, batches, results))

    def respond(results: list[PartitionResult]) -> RawResponse:
        return _response(broker, request, results)

    found = broker.replicas.append_records(batches, acks, timeout_s, respond)
    if acks == 0:
        assert isinstance(found, list)
        _close_on_error(batches, found)
        return None
    return respond(found) if isinstance(found, list) else found


def refused(request: Request, code: ErrorCode, message: str | None) -> RawResponse:
    topics = [
        (topic.name, [PartitionResult(part.index, code, error_message=message) for part in topic.partition_data])
        for topic in request.body.topic_data
    ]
    return encode_produce_response(request.version, ProduceResponseData(topics))


async def _answer_at_failpoint(
    broker: BrokerContext,
    request: Request,
    batches: Sequence[tuple[TopicPartition, Buffer | None]],
    results: list[PartitionResult] | asyncio.Future[list[PartitionResult]],
) -> RawResponse:
    found = results if isinstance(results, list) else await results
    await _reach(broker, "produce.before_ack", batches)
    return _response(broker, request, found)


async def _reach(broker: BrokerContext, point: str, batches: Sequence[tuple[TopicPartition, Buffer | None]]) -> None:
    for (topic, partition), _ in batches:
        await broker.failpoints.reach(point, topic=topic, partition=partition)


def _close_on_error(
    batches: Sequence[tuple[TopicPartition, Buffer | None]], results: Sequence[PartitionResult]
) -> None:
    for (key, _), result in zip(batches, results, strict=True):
        if result.error is not ErrorCode.none:
            raise MalformedRequest(f"{key}: {result.error.name}, and acks=0 leaves no other way to tell")


def _response(broker: BrokerContext, request: Request, results: Sequence[PartitionResult]) -> RawResponse:
    topics: list[tuple[str, list[PartitionResult]]] = []
    endpoints: dict[int, NodeEndpoint] = {}
    index = 0
    for topic in request.body.topic_data:
        count = len(topic.partition_data)
        parts = list(results[index : index + count])
        index += count
        for place, part in enumerate(parts):
            if part.error is ErrorCode.not_leader_or_follower and request.version >= 10:
                parts[place] = _with_leader(broker, TopicPartition(topic.name, part.index), part, endpoints)
        topics.append((topic.name, parts))
    data = ProduceResponseData(topics, node_endpoints=tuple(endpoints.values()))
    return encode_produce_response(request.version, data)


def _with_leader(
    broker: BrokerContext, key: TopicPartition, part: PartitionResult, endpoints: dict[int, NodeEndpoint]
) -> PartitionResult:
    leader, endpoint = broker.replicas.current_leader(key)
    if leader is None:
        return part
    if endpoint is not None:
        endpoints[endpoint.id] = NodeEndpoint(endpoint.id, endpoint.host, endpoint.port, endpoint.rack)
    return PartitionResult(
        part.index,
        part.error,
        part.base_offset,
        part.log_append_time_ms,
        part.log_start_offset,
        part.record_errors,
        part.error_message,
        LeaderIdAndEpoch(*leader),
    )
