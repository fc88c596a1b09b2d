"""IncrementalAlterConfigs: versions 0 and 1. Sets, deletes, appends to or subtracts from single overrides of a topic, or
dynamic settings of a broker.

Appending and subtracting are for settings that are lists. What a broker refuses is said in AlterConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from system_under_test.apis import alter_configs
from system_under_test.apis.admin import twice
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.storage.config import TOPIC_CONFIGS

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = range(2)

_DEFAULTS = {each.name: each.default for each in TOPIC_CONFIGS} | {"log.cleanup.policy": "delete"}
_LISTS = frozenset(
    {
        "cleanup.policy",
        "log.cleanup.policy",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(broker: BrokerContext, request: Request) -> Reply:
    return await alter_configs.alter(broker, request, _update_of)


refused = alter_configs.refused


def _update_of(resource: Body) -> alter_configs.Update:
    names = [each.name for each in resource.configs]
    if twice(names):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    if not names:
        raise ApiError(ErrorCode.invalid_request, "There is nothing to change.")

    def update(before: Mapping[str, str]) -> Mapping[str, str]:
        after = dict(before)
        for each in resource.configs:
            _apply(after, each.name, each.config_operation, each.value)
        return after

    return update


def _apply(overrides: dict[str, str], name: str, operation: int, value: str | None) -> None:
    if operation == Operation.DELETE:
        overrides.pop(name, None)
        return
    if value is None:
        raise ApiError(ErrorCode.invalid_request, f"Null value not supported for: {name}")
    if operation == Operation.SET:
        overrides[name] = value
    elif operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(ErrorCode.invalid_request, f"Unknown config operation {operation}")
    elif name not in _LISTS:
        raise ApiError(
            ErrorCode.invalid_config, f"Config value append and subtract are not allowed for config key: {name}"
        )
    else:
        present = _items(overrides.get(name, _DEFAULTS[name]))
        given = _items(value)
        if operation == Operation.APPEND:
            changed = [*present, *(each for each in given if each not in present)]
        else:
            changed = [each for each in present if each not in given]
        overrides[name] = ",".join(changed)


def _items(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
