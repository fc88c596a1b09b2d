"""Metadata: versions 0 to 12. Brokers, topics, leaders, as the controller last told this broker.

Version 0 takes an empty list for all topics, later ones null. Version 12 also finds topics by id. A topic that is
not there is made where ``auto.create.topics.enable`` and the request allow it, and answered with LEADER_NOT_AVAILABLE, so that
the client asks again; a partition without a live leader is answered likewise (LISTENER_NOT_FOUND from version 6 on, where
the leader lives but not on the client's listener). Addresses are those of the listener that the client came by.

Left out: authorized operations (as without an authorizer), creation of internal topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from system_under_test.apis.admin import NO_THROTTLE, in_time
from system_under_test.metadata.cache import PartitionInfo
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.zookeeper.nodes import NO_LEADER
from system_under_test.zookeeper.topics import NewTopic, assignment_of, check_name

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

log = logging.getLogger(__name__)
API = ApiKey.METADATA
VERSIONS = range(13)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
CREATION_TIMEOUT_S = 2.0
"""Then the client asks again."""
_NO_ID = UUID(int=0)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    topics = await _topics(broker, request, make)
    cache, listener = broker.metadata, request.connection.listener
    endpoints = [found for each in cache.brokers() if (found := each.endpoint(listener)) is not None]
    brokers = tuple(
        make("MetadataResponseBroker", node_id=each.id, host=each.host, port=each.port, rack=each.rack)
        for each in endpoints
    )
    return make.root(
        throttle_time=NO_THROTTLE,
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=cache.controller_id if cache.broker(cache.controller_id) is not None else -1,
        topics=topics,
    )


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    make = request.maker
    topics = tuple(
        _failed(make, code, each.name or "", getattr(each, "topic_id", None)) for each in request.body.topics or ()
    )
    return make.root(throttle_time=NO_THROTTLE, brokers=(), cluster_id=None, controller_id=-1, topics=topics)


async def _topics(broker: BrokerContext, request: Request, make: Maker) -> tuple[Body, ...]:
    asked = request.body.topics
    if asked is None or (request.version == 0 and not asked):
        return tuple(_topic(broker, request, make, each) for each in broker.metadata.topics())
    answers: list[Body] = []
    for each in asked:
        topic_id = getattr(each, "topic_id", None)
        name = each.name
        if topic_id is not None and topic_id != _NO_ID:
            if request.version < 12:
                raise ApiError(ErrorCode.invalid_request, "Topic IDs are not supported for this version.")
            name = broker.metadata.topic_name(topic_id)
            if name is None:
                answers.append(_failed(make, ErrorCode.unknown_topic_id, None, topic_id))
                continue
        if name is None:
            raise ApiError(ErrorCode.invalid_request, "A topic needs a name or an id.")
        if broker.metadata.partitions(name):
            answers.append(_topic(broker, request, make, name))
        else:
            answers.append(_failed(make, await _missing(broker, request, name), name))
    return tuple(answers)


async def _missing(broker: BrokerContext, request: Request, topic: str) -> ErrorCode:
    """What is said of a topic that is not there (yet)."""
    try:
        check_name(topic)
        allowed = request.get("allow_auto_topic_creation", True) and broker.config.auto_create_topics_enable
        if not allowed or topic in INTERNAL_TOPICS:
            return ErrorCode.unknown_topic_or_partition
        await in_time(_create(broker, topic), CREATION_TIMEOUT_S)
    except ApiError as error:
        if error.code in (ErrorCode.topic_already_exists, ErrorCode.request_timed_out):
            return ErrorCode.leader_not_available
        log.info("topic %s is not created: %s", topic, error)
        return error.code
    return ErrorCode.leader_not_available


async def _create(broker: BrokerContext, topic: str) -> None:
    config = broker.config
    alive = await broker.topics.brokers()
    assignment = assignment_of(NewTopic(topic), alive, config.num_partitions, config.default_replication_factor)
    await broker.topics.create(topic, assignment, {})
    log.info("topic %s is created as a client asked for it", topic)


def _failed(make: Maker, code: ErrorCode, name: str | None, topic_id: UUID | None = None) -> Body:
    return make(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
    )


def _topic(broker: BrokerContext, request: Request, make: Maker, topic: str) -> Body:
    infos = broker.metadata.partitions(topic)
    partitions = tuple(_partition(broker, request, make, number, infos[number]) for number in sorted(infos))
    return make(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic,
        topic_id=broker.metadata.topic_id(topic),
        is_internal=topic in INTERNAL_TOPICS,
        partitions=partitions,
    )


def _partition(broker: BrokerContext, request: Request, make: Maker, number: int, info: PartitionInfo) -> Body:
    cache, listener = broker.metadata, request.connection.listener
    error, leader = ErrorCode.none, info.leader
    if cache.endpoint(leader, listener) is None:
        lives = cache.broker(leader) is not None
        error = ErrorCode.listener_not_found if lives and request.version >= 6 else ErrorCode.leader_not_available
        leader = NO_LEADER
    replicas, isr = info.replicas, info.isr
    if request.version == 0:
        # Its clients take every replica for one that can be reached.
        replicas, isr = _alive(broker, listener, replicas), _alive(broker, listener, isr)
        if error is ErrorCode.none and (len(replicas) < len(info.replicas) or len(isr) < len(info.isr)):
            error = ErrorCode.replica_not_available
    return make(
        "MetadataResponsePartition",
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=info.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=tuple(each for each in info.replicas if each in info.offline or cache.broker(each) is None),
    )


def _alive(broker: BrokerContext, listener: str, brokers: Iterable[int]) -> tuple[int, ...]:
    return tuple(each for each in brokers if broker.metadata.endpoint(each, listener) is not None)
