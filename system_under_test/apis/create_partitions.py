"""CreatePartitions: versions 0 to 3. Only the controller serves it (NOT_CONTROLLER elsewhere).

Adds partitions up to the count asked for, with replicas by the usual rule or as given; ``validate_only`` only checks. Waits
until they have leaders, or for the request's time-out. Refused while the topic is being reassigned
(REASSIGNMENT_IN_PROGRESS) or deleted. Left out: quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE, in_time, not_controller, twice
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.zookeeper.nodes import TopicAssignment
from system_under_test.zookeeper.topics import additional_partitions

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.CREATE_PARTITIONS
VERSIONS = range(4)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    body = request.body
    timeout_s = body.timeout.total_seconds()
    repeated = twice(each.name for each in body.topics)
    added: dict[str, Mapping[int, tuple[int, ...]]] = {}
    outcomes: dict[str, ApiError | None] = {}
    for each in body.topics:
        try:
            if each.name in repeated:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic in request.")
            added[each.name] = await in_time(_grow(broker, each, body.validate_only), timeout_s)
            outcomes[each.name] = None
        except ApiError as error:
            outcomes[each.name] = error
    if not body.validate_only:

        def led(topic: str) -> bool:
            infos = broker.metadata.partitions(topic)
            return all(number in infos and infos[number].leader >= 0 for number in added[topic])

        await broker.metadata.until(lambda: all(map(led, added)), max(timeout_s, 0.0))
        for topic in added:
            if not led(topic):
                outcomes[topic] = ApiError(ErrorCode.request_timed_out, "The new partitions have no leaders yet.")
    return _answer(request, outcomes)


async def _grow(broker: BrokerContext, asked: Body, validate_only: bool) -> Mapping[int, tuple[int, ...]]:
    if asked.name in await broker.topics.doomed():
        raise ApiError(ErrorCode.invalid_topic_exception, "The topic is queued for deletion.")
    alive = await broker.topics.brokers()
    manual = None if asked.assignments is None else [tuple(each.broker_ids) for each in asked.assignments]

    def extend(current: TopicAssignment) -> Mapping[int, tuple[int, ...]]:
        if any(current.adding_replicas.values()) or any(current.removing_replicas.values()):
            raise ApiError(
                ErrorCode.reassignment_in_progress, f"A partition reassignment is in progress for {asked.name}."
            )
        return additional_partitions(asked.name, current, asked.count, manual, alive)

    if not validate_only:
        return await broker.topics.add_partitions(asked.name, extend)
    current = await broker.topics.assignment(asked.name)
    if current is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{asked.name}' does not exist.")
    return extend(current)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return _answer(request, {each.name: ApiError(code, message) for each in request.body.topics})


def _answer(request: Request, outcomes: Mapping[str, ApiError | None]) -> Body:
    make = request.maker
    return make.root(
        throttle_time=NO_THROTTLE,
        results=tuple(
            make(
                "CreatePartitionsTopicResult",
                name=name,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in outcomes.items()
        ),
    )
