"""Fetch: versions 4 to 17.

Long poll (max wait, min bytes), limits per partition and in all, topic ids from version 13 on, fetch sessions from
version 7 on (KIP-227), leader epochs (KIP-320) and divergence by the last fetched epoch (KIP-595). Consumers read up to
the high watermark, and only from the leader. From version 16 on who asks the wrong broker is told the leader (KIP-951).
Left out: reading from followers (KIP-392), quotas; nothing is ever aborted as long as there are no transactions.

Failpoint: ``fetch.response`` (peer: the follower's id or -1; topic and partition of the first partition asked for).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import (
    FetchResponseData,
    NodeEndpoint,
    PartitionData,
    encode_fetch_response,
)
from system_under_test.protocol.messages import RawResponse, Reply, Request
from system_under_test.replication.fetch_session import FINAL_EPOCH, FetchContext, PartitionKey
from system_under_test.replication.fetching import NO_TOPIC_ID, FetchParams, FetchPartition
from system_under_test.replication.replica_manager import ReplicaManager
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.FETCH
VERSIONS = range(4, 18)

_READ_COMMITTED = 1


async def handle(broker: BrokerContext, request: Request) -> Reply:
    replicas = broker.replicas
    params = _params(broker, request)
    context = _context(broker, request, params)
    if context.error is not ErrorCode.none:
        return encode_fetch_response(request.version, context.respond([]))
    if broker.failpoints.on:
        answers = replicas.fetch_messages(params, context.asked)
        return asyncio.ensure_future(_answer_at_failpoint(broker, request, params, context, answers))

    def respond(answers: list[PartitionData]) -> RawResponse:
        return _response(replicas, request.version, context, answers)

    found = replicas.fetch_messages(params, context.asked, respond)
    return respond(found) if isinstance(found, list) else found


def refused(request: Request, code: ErrorCode, message: str | None) -> RawResponse:
    return encode_fetch_response(request.version, FetchResponseData([], error=code))


def _params(broker: BrokerContext, request: Request) -> FetchParams:
    body = request.body
    if request.version >= 15:
        replica_id, broker_epoch = body.replica_state.replica_id, body.replica_state.replica_epoch
    else:
        replica_id, broker_epoch = body.replica_id, -1
    is_follower = replica_id >= 0
    return FetchParams(
        replica_id,
        broker_epoch,
        body.max_wait.total_seconds(),
        body.min_bytes,
        body.max_bytes if is_follower else min(body.max_bytes, broker.config.fetch_max_bytes),
        body.isolation_level == _READ_COMMITTED,
    )


def _context(broker: BrokerContext, request: Request, params: FetchParams) -> FetchContext:
    body, replicas = request.body, broker.replicas
    uses_topic_ids = request.version >= 13
    asked = _asked(replicas, request, params)
    epoch = request.get("session_epoch", FINAL_EPOCH)
    if epoch == FINAL_EPOCH and not request.get("session_id", 0):
        return FetchContext(asked)
    forgotten: list[PartitionKey] = [
        (each.topic_id or NO_TOPIC_ID if uses_topic_ids else each.topic, number)
        for each in body.forgotten_topics_data
        for number in each.partitions
    ]
    return replicas.sessions.context(
        body.session_id,
        epoch,
        asked,
        forgotten,
        is_follower=params.is_follower,
        uses_topic_ids=uses_topic_ids,
        now=broker.world.clock.monotonic(),
    )


def _asked(replicas: ReplicaManager, request: Request, params: FetchParams) -> list[FetchPartition]:
    version = request.version
    asked: list[FetchPartition] = []
    for topic in request.body.topics:
        topic_id: uuid.UUID = (topic.topic_id or NO_TOPIC_ID) if version >= 13 else NO_TOPIC_ID
        name = replicas.topic_name(topic_id) if version >= 13 else topic.topic
        for part in topic.partitions:
            asked.append(
                FetchPartition(
                    TopicPartition(name or "", part.partition),
                    topic_id,
                    part.fetch_offset,
                    part.partition_max_bytes,
                    part.current_leader_epoch if version >= 9 else -1,
                    part.last_fetched_epoch if version >= 12 else -1,
                    part.log_start_offset if params.is_follower and version >= 5 else -1,
                    ErrorCode.unknown_topic_id if name is None else ErrorCode.none,
                )
            )
    return asked


async def _answer_at_failpoint(
    broker: BrokerContext,
    request: Request,
    params: FetchParams,
    context: FetchContext,
    answers: list[PartitionData] | asyncio.Future[list[PartitionData]],
) -> RawResponse:
    found = answers if isinstance(answers, list) else await answers
    topic, partition = context.asked[0].topic_partition if context.asked else ("", -1)
    await broker.failpoints.reach("fetch.response", peer=params.replica_id, topic=topic, partition=partition)
    return _response(broker.replicas, request.version, context, found)


def _response(
    replicas: ReplicaManager, version: int, context: FetchContext, answers: Sequence[PartitionData]
) -> RawResponse:
    endpoints: dict[int, NodeEndpoint] = {}
    if version >= 16:
        for answer in answers:
            if answer.current_leader is not None:
                found = replicas.metadata.endpoint(answer.current_leader.leader_id)
                if found is not None:
                    endpoints[found.id] = NodeEndpoint(found.id, found.host, found.port, found.rack)
    return encode_fetch_response(version, context.respond(answers, tuple(endpoints.values())))
