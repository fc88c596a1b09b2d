"""CreateTopics: versions 2 to 7. Only the controller serves it (NOT_CONTROLLER elsewhere).

Checks Kafka's rules for names, numbers, manual assignments and overrides; ``validate_only`` stops there. Then the topic is
written to ZooKeeper, and the answer waits until every partition has a leader that this broker knows of, or for the
request's time-out (REQUEST_TIMED_OUT: the topic will still come). -1 partitions or replicas mean the broker's default.

Left out: quotas, and policies (``create.topic.policy.class.name``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from system_under_test.apis.admin import NO_THROTTLE, in_time, not_controller, twice
from system_under_test.apis.config_entries import topic_entries
from system_under_test.dynamic_config import layers
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.storage.config import ConfigError, LogConfig
from system_under_test.zookeeper.topics import NewTopic, assignment_of, check_new

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.CREATE_TOPICS
VERSIONS = range(2, 8)


@dataclass(frozen=True, slots=True)
class Created:
    topic_id: UUID | None
    """None: it was only validated."""
    assignment: Mapping[int, tuple[int, ...]]
    overrides: Mapping[str, str]


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    body = request.body
    timeout_s = body.timeout.total_seconds()
    repeated = twice(each.name for each in body.topics)
    outcomes: dict[str, Created | ApiError] = {}
    for each in body.topics:
        if each.name in repeated:
            outcomes[each.name] = ApiError(ErrorCode.invalid_request, "Found multiple entries for this topic.")
            continue
        try:
            outcomes[each.name] = await in_time(_create(broker, each, body.validate_only), timeout_s)
        except ApiError as error:
            outcomes[each.name] = error
    if not body.validate_only:
        await _await_leaders(broker, outcomes, timeout_s)
    make = request.maker
    return make.root(
        throttle_time=NO_THROTTLE,
        topics=tuple(_result(broker, make, each.name, outcomes[each.name]) for each in body.topics),
    )


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    make = request.maker
    error = ApiError(code, message)
    names = dict.fromkeys(each.name for each in request.body.topics)
    return make.root(throttle_time=NO_THROTTLE, topics=tuple(_refusal(make, name, error) for name in names))


async def _create(broker: BrokerContext, asked: Body, validate_only: bool) -> Created:
    check_new(asked.name, await broker.topics.names())
    overrides = _overrides(broker, asked)
    manual = {each.partition_index: tuple(each.broker_ids) for each in asked.assignments}
    if len(manual) != len(asked.assignments):
        raise ApiError(ErrorCode.invalid_replica_assignment, "A partition is assigned twice.")
    wanted = NewTopic(asked.name, asked.num_partitions, asked.replication_factor, manual or None)
    config = broker.config
    assignment = assignment_of(
        wanted, await broker.topics.brokers(), config.num_partitions, config.default_replication_factor
    )
    topic_id = None if validate_only else await broker.topics.create(asked.name, assignment, overrides)
    return Created(topic_id, assignment, overrides)


def _overrides(broker: BrokerContext, asked: Body) -> dict[str, str]:
    nulls = sorted(each.name for each in asked.configs if each.value is None)
    if nulls:
        raise ApiError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {', '.join(nulls)}")
    overrides = {each.name: each.value for each in asked.configs}
    try:
        LogConfig.of(broker.config.effective, overrides)
    except ConfigError as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from None
    return overrides


async def _await_leaders(broker: BrokerContext, outcomes: dict[str, Created | ApiError], timeout_s: float) -> None:
    created = {name: each.assignment for name, each in outcomes.items() if isinstance(each, Created)}

    def led(topic: str) -> bool:
        infos = broker.metadata.partitions(topic)
        return all(number in infos and infos[number].leader >= 0 for number in created[topic])

    await broker.metadata.until(lambda: all(led(topic) for topic in created), max(timeout_s, 0.0))
    for topic in created:
        if not led(topic):
            outcomes[topic] = ApiError(
                ErrorCode.request_timed_out, f"Topic '{topic}' is created; not all of its partitions have a leader yet."
            )


def _result(broker: BrokerContext, make: Maker, name: str, outcome: Created | ApiError) -> Body:
    if isinstance(outcome, ApiError):
        return _refusal(make, name, outcome)
    configs = None
    if make.version >= 5:
        configs = tuple(
            make(
                "CreatableTopicConfigs",
                name=each.name,
                value=each.value,
                read_only=False,
                config_source=int(each.source),
                is_sensitive=False,
            )
            for each in topic_entries(broker.config, outcome.overrides, *layers(broker.configs, broker.broker_id))
        )
    return make(
        "CreatableTopicResult",
        name=name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(outcome.assignment),
        replication_factor=len(outcome.assignment[0]),
        configs=configs,
    )


def _refusal(make: Maker, name: str, error: ApiError) -> Body:
    return make(
        "CreatableTopicResult",
        name=name,
        topic_id=None,
        error_code=error.code,
        error_message=error.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=None if make.version >= 5 else (),
    )
