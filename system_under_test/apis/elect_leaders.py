"""ElectLeaders: versions 0 to 2. Only the controller serves it (NOT_CONTROLLER elsewhere).

Election of preferred leaders or, from version 1 on, unclean ones by hand. Null asks for all partitions; then those that
need none are left out of the answer. Waits until this broker's metadata shows the new leaders, or for the request's
time-out (REQUEST_TIMED_OUT).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE, by_topic, in_time, not_controller
from system_under_test.controller.elections import ElectionType
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.ELECT_LEADERS
VERSIONS = range(3)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    code = request.get("election_type", 0)
    if code not in (ElectionType.PREFERRED.value, ElectionType.UNCLEAN.value):
        raise ApiError(ErrorCode.invalid_request, f"there is no election type {code}")
    kind = ElectionType(code)
    timeout_s = request.body.timeout.total_seconds()
    outcomes = dict(await in_time(broker.controller.elect_leaders(_asked(request), kind), timeout_s))
    elected = [each for each, error in outcomes.items() if error is None]

    def shown(partition: TopicPartition) -> bool:
        info = broker.metadata.partition(partition)
        if info is None:
            return False
        return info.leader == info.replicas[0] if kind is ElectionType.PREFERRED else info.leader >= 0

    await broker.metadata.until(lambda: all(map(shown, elected)), max(timeout_s, 0.0))
    for each in elected:
        if not shown(each):
            outcomes[each] = ApiError(ErrorCode.request_timed_out, "The election is not known to all yet.")
    return _answer(request, ErrorCode.none, outcomes)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    error = ApiError(code, message)
    return _answer(request, code, dict.fromkeys(_asked(request) or (), error))


def _asked(request: Request) -> list[TopicPartition] | None:
    asked = request.body.topic_partitions
    if asked is None:
        return None
    return [TopicPartition(each.topic, number) for each in asked for number in each.partitions]


def _answer(request: Request, code: ErrorCode, outcomes: Mapping[TopicPartition, ApiError | None]) -> Body:
    make = request.maker
    results = []
    for topic, numbers in by_topic(outcomes).items():
        partitions = []
        for number in numbers:
            error = outcomes[TopicPartition(topic, number)]
            partitions.append(
                make(
                    "PartitionResult",
                    partition_id=number,
                    error_code=ErrorCode.none if error is None else error.code,
                    error_message=None if error is None else error.message,
                )
            )
        results.append(make("ReplicaElectionResult", topic=topic, partition_result=tuple(partitions)))
    return make.root(throttle_time=NO_THROTTLE, error_code=code, replica_election_results=tuple(results))
