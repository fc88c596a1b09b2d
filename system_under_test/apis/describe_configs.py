"""DescribeConfigs: versions 1 to 4. Settings of topics and of this broker, with where each comes from.

A broker describes itself only (INVALID_REQUEST for another's id). The empty broker name stands for all brokers: what was set for
all of them while they ran. Left out: loggers (INVALID_REQUEST), sensitive values (there are none).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.admin import LEAST_TIMEOUT_S, NO_THROTTLE, in_time
from system_under_test.apis.alter_configs import broker_name
from system_under_test.apis.config_entries import (
    Entry,
    ResourceType,
    broker_entries,
    default_entries,
    topic_entries,
)
from system_under_test.dynamic_config import layers
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Maker, Reply, Request
from system_under_test.zookeeper.configs import BROKER_DEFAULT
from system_under_test.zookeeper.topics import check_name

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.DESCRIBE_CONFIGS
VERSIONS = range(1, 5)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    results = []
    for resource in request.body.resources:
        try:
            entries = await _entries(broker, resource)
            results.append(_result(make, resource, ErrorCode.none, None, _configs(make, request, resource, entries)))
        except ApiError as error:
            results.append(_result(make, resource, error.code, error.message, ()))
    return make.root(throttle_time=NO_THROTTLE, results=tuple(results))


async def _entries(broker: BrokerContext, resource: Body) -> list[Entry]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        check_name(name)
        if not broker.metadata.partitions(name):
            raise ApiError(ErrorCode.unknown_topic_or_partition, f"Topic '{name}' does not exist.")
        await in_time(broker.configs.refresh([name]), LEAST_TIMEOUT_S)
        return topic_entries(broker.config, broker.configs.topic(name), *layers(broker.configs, broker.broker_id))
    if resource.resource_type == ResourceType.BROKER:
        broker_id = str(broker.broker_id)
        whose = broker_name(broker, name)
        await in_time(broker.configs.refresh_brokers([broker_id, BROKER_DEFAULT]), LEAST_TIMEOUT_S)
        own, everybodys = layers(broker.configs, broker.broker_id)
        return (
            default_entries(everybodys) if whose == BROKER_DEFAULT else broker_entries(broker.config, own, everybodys)
        )
    raise ApiError(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")


def _configs(make: Maker, request: Request, resource: Body, entries: list[Entry]) -> tuple[Body, ...]:
    wanted = resource.configuration_keys
    chosen = [each for each in entries if wanted is None or each.name in wanted]
    synonyms, documentation = request.body.include_synonyms, request.get("include_documentation", False)
    return tuple(
        make(
            "DescribeConfigsResourceResult",
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=int(each.source),
            is_sensitive=False,
            synonyms=tuple(
                make("DescribeConfigsSynonym", name=one.name, value=one.value, source=int(one.source))
                for one in each.synonyms
            )
            if synonyms
            else (),
            config_type=int(each.type),
            documentation=each.doc if documentation else None,
        )
        for each in chosen
    )


def _result(make: Maker, resource: Body, code: ErrorCode, message: str | None, configs: tuple[Body, ...]) -> Body:
    return make(
        "DescribeConfigsResult",
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
