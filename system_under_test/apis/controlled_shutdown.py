"""ControlledShutdown: versions 0 to 3. A broker asks the controller to take its leaderships before it stops.

The answer names the partitions that it still leads, as nobody else can; the broker asks again. From version 2 on the
request is fenced by the broker's epoch (STALE_BROKER_EPOCH).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.CONTROLLED_SHUTDOWN
VERSIONS = range(4)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    make = request.maker
    left = await broker.controller.controlled_shutdown(request.body.broker_id, request.get("broker_epoch", -1))
    remaining = tuple(make("RemainingPartition", topic_name=topic, partition_index=number) for topic, number in left)
    return make.root(error_code=ErrorCode.none, remaining_partitions=remaining)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(error_code=code, remaining_partitions=())
