"""DeleteTopics: versions 1 to 6. Only the controller serves it (NOT_CONTROLLER elsewhere).

Marks topics for deletion, by name or (version 6) by id, and waits until this broker's metadata no longer has them, or for the
request's time-out (REQUEST_TIMED_OUT: they will still go). Data goes when every replica's broker is alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from system_under_test.apis.admin import NO_THROTTLE, in_time, not_controller
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.DELETE_TOPICS
VERSIONS = range(1, 7)
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Doomed:
    """A topic as it was asked for."""

    name: str | None
    topic_id: UUID | None = None


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if not broker.controller.is_active:
        raise not_controller()
    if not broker.config.delete_topic_enable:
        code = ErrorCode.topic_deletion_disabled if request.version >= 3 else ErrorCode.invalid_request
        raise ApiError(code, "Topic deletion is disabled (delete.topic.enable).")
    timeout_s = request.body.timeout.total_seconds()
    outcomes: list[tuple[Doomed, ApiError | None]] = []
    for each in _asked(request):
        try:
            found = _find(broker, each)
            assert found.name is not None
            await in_time(broker.topics.delete(found.name), timeout_s)
            outcomes.append((found, None))
        except ApiError as error:
            outcomes.append((each, error))
    names = [each.name for each, error in outcomes if error is None and each.name is not None]
    await broker.metadata.until(lambda: not any(map(broker.metadata.partitions, names)), max(timeout_s, 0.0))
    late = ApiError(ErrorCode.request_timed_out, "The topic is marked for deletion and not gone yet.")
    return _answer(
        request,
        [
            (each, late if error is None and each.name and broker.metadata.partitions(each.name) else error)
            for each, error in outcomes
        ],
    )


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    error = ApiError(code, message)
    return _answer(request, [(each, error) for each in _asked(request)])


def _asked(request: Request) -> list[Doomed]:
    if request.version < 6:
        return [Doomed(name) for name in dict.fromkeys(request.body.topic_names)]
    return list(dict.fromkeys(Doomed(each.name, each.topic_id) for each in request.body.topics))


def _find(broker: BrokerContext, asked: Doomed) -> Doomed:
    by_id = asked.topic_id is not None and asked.topic_id != _NO_ID
    if by_id and asked.name is not None:
        raise ApiError(ErrorCode.invalid_request, "A topic is named or told by its id, not both.")
    if by_id:
        assert asked.topic_id is not None
        name = broker.metadata.topic_name(asked.topic_id)
        if name is None:
            raise ApiError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
        return Doomed(name, asked.topic_id)
    if asked.name is None:
        raise ApiError(ErrorCode.invalid_request, "A topic needs a name or an id.")
    return Doomed(asked.name, broker.metadata.topic_id(asked.name))


def _answer(request: Request, outcomes: list[tuple[Doomed, ApiError | None]]) -> Body:
    make = request.maker
    return make.root(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            make(
                "DeletableTopicResult",
                name=each.name,
                topic_id=each.topic_id,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for each, error in outcomes
        ),
    )
