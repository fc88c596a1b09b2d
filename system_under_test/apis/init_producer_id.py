"""InitProducerId: versions 0 to 5. A new producer id with epoch 0 for an idempotent producer.

Transactions are left out: with a transactional id the answer is NOT_COORDINATOR, which is true of every broker here (clients
do not come so far, as FindCoordinator is not served); an empty one is INVALID_REQUEST, as in Kafka. A producer that
names its present id and epoch, without a transactional id, gets a new id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.INIT_PRODUCER_ID
VERSIONS = range(6)

_NONE = -1


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if (request.get("producer_id", _NONE) == _NONE) != (request.get("producer_epoch", _NONE) == _NONE):
        return refused(request, ErrorCode.invalid_request, None)
    transactional_id: str | None = request.body.transactional_id
    if transactional_id is not None:
        code = ErrorCode.not_coordinator if transactional_id else ErrorCode.invalid_request
        return refused(request, code, None)
    taken = broker.producer_ids.take()
    return asyncio.ensure_future(_later(broker, request)) if taken is None else _answer(request, taken)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(throttle_time=NO_THROTTLE, error_code=code, producer_id=_NONE, producer_epoch=_NONE)


async def _later(broker: BrokerContext, request: Request) -> Body:
    try:
        return _answer(request, await broker.producer_ids.generate())
    except ApiError as error:
        return refused(request, error.code, error.message)


def _answer(request: Request, producer_id: int) -> Body:
    return request.maker.root(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=0
    )
