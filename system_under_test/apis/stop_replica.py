"""StopReplica: versions 0 to 4. The controller tells a broker to stop following, and perhaps to delete, partitions.

Fenced like LeaderAndIsr; a deletion overrides the leader epoch (-2). Deleting what is not there is fine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from system_under_test.apis.leader_and_isr import is_stale
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.replication.state_changes import stop_replica_answer

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

API = ApiKey.STOP_REPLICA
VERSIONS = range(5)


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if is_stale(broker, request):
        return stop_replica_answer(request, ErrorCode.stale_broker_epoch, ())
    return broker.replicas.stop_replica(request)


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return stop_replica_answer(request, code, ())
