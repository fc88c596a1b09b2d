"""DescribeCluster: versions 0 and 1. Id, controller and brokers of the cluster, by the listener that the client came by.

Left out: authorized operations (as without an authorizer); controllers as endpoints, which only KRaft has
(UNSUPPORTED_ENDPOINT_TYPE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.admin import NO_THROTTLE
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.DESCRIBE_CLUSTER
VERSIONS = range(2)
_BROKERS = 1


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if request.get("endpoint_type", _BROKERS) != _BROKERS:
        raise ApiError(ErrorCode.unsupported_endpoint_type, "Only brokers can be described.")
    make, cache = request.maker, broker.metadata
    listener = request.connection.listener
    endpoints = [found for each in cache.brokers() if (found := each.endpoint(listener)) is not None]
    return make.root(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=cache.controller_id if cache.broker(cache.controller_id) is not None else -1,
        brokers=tuple(
            make("DescribeClusterBroker", broker_id=each.id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
        ),
    )


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=message,
        cluster_id="",
        controller_id=-1,
        brokers=(),
    )
