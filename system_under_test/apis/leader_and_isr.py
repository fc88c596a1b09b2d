"""LeaderAndIsr: versions 0 to 7. The controller tells a broker which partitions it leads and which it follows.

Refused as a whole: a deposed controller (STALE_CONTROLLER_EPOCH), a message for an earlier registration of this broker
(STALE_BROKER_EPOCH). Partitions are fenced one by one by leader epoch. Left out: removal of partitions that a full
request does not name (they stay as they are, and are told by the log).

Failpoint: ``leader-and-isr.received`` (peer: the controller).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Reply, Request
from system_under_test.replication.state_changes import leader_and_isr_answer
from system_under_test.world import CoordinationError

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

log = logging.getLogger(__name__)

API = ApiKey.LEADER_AND_ISR
VERSIONS = range(8)

CONFIG_TIMEOUT_S = 5.0
"""How long the configuration of new topics is waited for; without it their replicas begin with the defaults."""


async def handle(broker: BrokerContext, request: Request) -> Reply:
    if broker.failpoints.on:
        await broker.failpoints.reach("leader-and-isr.received", peer=request.body.controller_id)
    new_topics = broker.replicas.unknown_topics(request)
    if new_topics:
        try:
            async with asyncio.timeout(CONFIG_TIMEOUT_S):
                await broker.configs.refresh(new_topics)
        except (TimeoutError, CoordinationError) as error:
            log.warning("configuration of %s cannot be read: %s", ", ".join(new_topics), type(error).__name__)
    # Nothing may come between this check and its effect.
    if is_stale(broker, request):
        return leader_and_isr_answer(request, ErrorCode.stale_broker_epoch, {})
    return broker.replicas.become_leader_or_follower(request)


def is_stale(broker: BrokerContext, request: Request) -> bool:
    """Meant for an earlier incarnation of this broker, whose state was another."""
    epoch: int = request.get("broker_epoch", -1)
    return epoch != -1 and epoch < broker.broker_epoch


def refused(request: Request, code: ErrorCode, message: str | None) -> Body:
    return leader_and_isr_answer(request, code, {})
