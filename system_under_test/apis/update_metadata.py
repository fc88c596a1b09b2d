"""UpdateMetadata: versions 5 to 8. The controller tells a broker what the cluster looks like.

Refused as a whole: a deposed controller (STALE_CONTROLLER_EPOCH) and a message for an earlier registration of this broker
(STALE_BROKER_EPOCH). A full update (version 8) also ends what it does not name, and replicas on this broker that
are no longer assigned to it: a controller that died may have left its StopReplica unsent.

Left out: versions below 5, which no controller here sends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from system_under_test.apis.leader_and_isr import is_stale
from system_under_test.metadata.cache import FULL
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request, maker
from system_under_test.types import TopicPartition

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

log = logging.getLogger(__name__)
API = ApiKey.UPDATE_METADATA
VERSIONS = range(5, 9)
_STOP_VERSION = 4


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if is_stale(broker, request):
        return refused(request, ErrorCode.stale_broker_epoch, None)
    broker.metadata.apply_update(request.body)
    if request.get("type_", 0) == FULL:
        _stop_strays(broker, request)
    return request.maker.root(error_code=ErrorCode.none)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return request.maker.root(error_code=code)


def _stop_strays(broker: BrokerContext, request: Request) -> None:
    strays = broker.metadata.strays(sorted(broker.replicas.partitions), broker.broker_id)
    if not strays:
        return
    log.warning("no longer assigned to this broker: %s", ", ".join(map(str, strays)))
    stop = Request(
        ApiKey.STOP_REPLICA, _STOP_VERSION, -1, request.client_id, _stop(request.body, strays), request.connection
    )
    broker.replicas.stop_replica(stop)


def _stop(body: Body, strays: dict[TopicPartition, int]) -> Body:
    make = maker(ApiKey.STOP_REPLICA, _STOP_VERSION, False)
    return make.root(
        controller_id=body.controller_id,
        controller_epoch=body.controller_epoch,
        broker_epoch=body.broker_epoch,
        topic_states=tuple(
            make(
                "StopReplicaTopicState",
                topic_name=topic,
                partition_states=(
                    make(
                        "StopReplicaPartitionState",
                        partition_index=partition,
                        leader_epoch=leader_epoch,
                        delete_partition=True,
                    ),
                ),
            )
            for (topic, partition), leader_epoch in strays.items()
        ),
    )
