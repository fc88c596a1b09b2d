"""What the admin APIs share: waiting no longer than asked, and refusals by name. No API of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable, Iterable
from datetime import timedelta
from typing import TypeVar

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.types import TopicPartition
from system_under_test.world import CoordinationError

T = TypeVar("T")
NameT = TypeVar("NameT", bound=Hashable)
NO_THROTTLE = timedelta(0)
LEAST_TIMEOUT_S = 1.0
"""A client that waits for nothing still gets the answer of ZooKeeper, when that is there."""


async def in_time(work: Awaitable[T], timeout_s: float) -> T:
    """REQUEST_TIMED_OUT when ZooKeeper or the controller takes longer: nobody knows whether it was done."""
    try:
        async with asyncio.timeout(max(timeout_s, LEAST_TIMEOUT_S)):
            return await work
    except TimeoutError:
        raise ApiError(ErrorCode.request_timed_out, "ZooKeeper did not answer in time.") from None
    except CoordinationError as error:
        raise ApiError(ErrorCode.request_timed_out, f"ZooKeeper did not answer: {type(error).__name__}") from None


def not_controller() -> ApiError:
    return ApiError(ErrorCode.not_controller, "This is not the correct controller for this cluster.")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def twice(names: Iterable[NameT]) -> set[NameT]:
    """Those that are named more than once."""
    seen: set[NameT] = set()
    found: set[NameT] = set()
    for name in names:
        (found if name in seen else seen).add(name)
    return found
