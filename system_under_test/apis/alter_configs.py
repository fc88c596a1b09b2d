"""AlterConfigs: versions 0 to 2. Replaces *all* overrides of a topic, or all dynamic settings of a broker, by those given
(IncrementalAlterConfigs is kinder).

Served by every broker, as in Kafka with ZooKeeper. Brokers learn of the change by a notification in ZooKeeper. A broker changes its
own settings only, and those of all brokers (the empty name); one that is not dynamic, or has a value that cannot be, is
refused with INVALID_REQUEST. Other than in Kafka, which keeps them for plugins, unknown names are refused (INVALID_CONFIG).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE, in_time
from system_under_test.apis.config_entries import ResourceType
from system_under_test.config import is_setting, unknown_setting
from system_under_test.dynamic_config import problem_with
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.storage.config import ConfigError, LogConfig
from system_under_test.zookeeper.configs import BROKER_DEFAULT
from system_under_test.zookeeper.topics import check_name

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.ALTER_CONFIGS
VERSIONS = range(3)
TIMEOUT_S = 30.0
"""The request brings none."""

Update = Callable[[Mapping[str, str]], Mapping[str, str]]


async def handle(broker: BrokerContext, request: Request) -> Reply:
    def replacing(resource: Body) -> Update:
        nulls = sorted(each.name for each in resource.configs if each.value is None)
        if nulls:
            raise ApiError(ErrorCode.invalid_request, f"Null value not supported for: {', '.join(nulls)}")
        given = {each.name: each.value for each in resource.configs}
        return lambda _: given

    return await alter(broker, request, replacing)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    error = ApiError(code, message)
    return _answer(request, [(each, error) for each in request.body.resources])


async def alter(broker: BrokerContext, request: Request, update_of: Callable[[Body], Update]) -> Body:
    """Change each resource by its update. Also serves IncrementalAlterConfigs."""
    body = request.body
    keys = [(each.resource_type, each.resource_name) for each in body.resources]
    outcomes: list[tuple[Body, ApiError | None]] = []
    for resource, key in zip(body.resources, keys, strict=True):
        try:
            if keys.count(key) > 1:
                raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            await in_time(_change(broker, resource, update_of, body.validate_only), TIMEOUT_S)
            outcomes.append((resource, None))
        except ApiError as error:
            outcomes.append((resource, error))
    return _answer(request, outcomes)


async def _change(
    broker: BrokerContext, resource: Body, update_of: Callable[[Body], Update], validate_only: bool
) -> None:
    if resource.resource_type == ResourceType.BROKER:
        await _change_broker(broker, resource, update_of(resource), validate_only)
        return
    if resource.resource_type != ResourceType.TOPIC:
        raise ApiError(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")
    topic = resource.resource_name
    check_name(topic)
    if not broker.metadata.partitions(topic):
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist.")
    update = update_of(resource)

    def checked(before: Mapping[str, str]) -> Mapping[str, str]:
        after = update(before)
        try:
            LogConfig.of(broker.config.effective, after)
        except ConfigError as error:
            raise ApiError(ErrorCode.invalid_config, str(error)) from None
        return after

    if validate_only:
        await broker.configs.refresh([topic])
        checked(broker.configs.topic(topic))
    else:
        await broker.configs.change(f"topics/{topic}", checked)


async def _change_broker(broker: BrokerContext, resource: Body, update: Update, validate_only: bool) -> None:
    name = broker_name(broker, resource.resource_name)

    def checked(before: Mapping[str, str]) -> Mapping[str, str]:
        after = update(before)
        for each, value in sorted(after.items()):
            if before.get(each) == value:
                continue  # whoever wrote it: it must not keep others from being changed
            if not is_setting(each):
                raise ApiError(ErrorCode.invalid_config, unknown_setting(each))
            problem = problem_with(broker.config, each, value)
            if problem is not None:
                raise ApiError(ErrorCode.invalid_request, problem)
        return after

    if validate_only:
        await broker.configs.refresh_brokers([name])
        checked(broker.configs.broker(name))
    else:
        await broker.configs.change(f"brokers/{name}", checked)


def broker_name(broker: BrokerContext, given: str) -> str:
    """Whose settings are meant: this broker's, or everybody's."""
    if given == "":
        return BROKER_DEFAULT
    if not (given.isascii() and given.removeprefix("-").isdigit()):
        raise ApiError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {given}")
    if int(given) != broker.broker_id:
        raise ApiError(
            ErrorCode.invalid_request, f"Unexpected broker id, expected {broker.broker_id}, but received {given}"
        )
    return str(broker.broker_id)


def _answer(request: Request, outcomes: list[tuple[Body, ApiError | None]]) -> Body:
    make = request.maker
    return make.root(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            make(
                "AlterConfigsResourceResponse",
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in outcomes
        ),
    )
