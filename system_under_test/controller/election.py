"""Who is the controller: the ephemeral ``/controller``, and the epoch that goes with it.

A candidate makes ``/controller`` and raises ``/controller_epoch`` in one transaction, on condition that the epoch is the
one it read: two winners of one epoch are impossible, and everything that a predecessor writes afterwards is refused.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from system_under_test.controller.term import Won
from system_under_test.world import (
    BadVersion,
    Check,
    Coordination,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SetData,
    Watcher,
)
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import ControllerNode, MalformedNode

log = logging.getLogger(__name__)


class Holder(Enum):
    """Whose ``/controller`` is."""

    NOBODY = "nobody"
    THIS_SESSION = "this session"
    ANOTHER = "another"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True)
class Held:
    holder: Holder
    broker_id: int = -1


async def look(zookeeper: Coordination, broker_id: int, watch: Watcher | None = None) -> Held:
    """Read ``/controller``; the watch is left whether it is there or not."""
    if watch is not None:
        await zookeeper.exists(nodes.CONTROLLER, watch)
    try:
        data, stat = await zookeeper.get(nodes.CONTROLLER)
        node = ControllerNode.decode(data)
    except NoNode:
        return Held(Holder.NOBODY)
    except MalformedNode as error:
        log.error("/controller holds garbage: %s", error)
        return Held(Holder.GARBAGE)
    mine = node.broker_id == broker_id and stat.ephemeral_owner == zookeeper.session_id
    return Held(Holder.THIS_SESSION if mine else Holder.ANOTHER, node.broker_id)


async def stand(zookeeper: Coordination, broker_id: int, time_ms: int) -> Won | None:
    """Try to become controller. None: another was faster."""
    node = ControllerNode(broker_id, time_ms).encode()
    while True:
        epoch, version = await _epoch(zookeeper)
        raised = SetData(nodes.CONTROLLER_EPOCH, nodes.encode_controller_epoch(epoch + 1), version)
        try:
            _, stat = await zookeeper.multi([Create(nodes.CONTROLLER, node, ephemeral=True), raised])
        except NodeExists:
            return None
        except BadVersion:
            continue  # another was elected and is gone already
        assert stat is not None
        return Won(epoch + 1, stat.version)


async def _epoch(zookeeper: Coordination) -> tuple[int, int]:
    """The last epoch and the version of its node, which is made for the first controller."""
    while True:
        try:
            data, stat = await zookeeper.get(nodes.CONTROLLER_EPOCH)
            return nodes.decode_controller_epoch(data), stat.version
        except NoNode:
            try:
                await zookeeper.create(nodes.CONTROLLER_EPOCH, nodes.encode_controller_epoch(0))
            except NodeExists:
                continue


async def remove(zookeeper: Coordination, broker_id: int, holder: Holder) -> None:
    """Delete ``/controller`` if it is (still) garbage, or this session's own: never that of a newer controller."""
    _, version = await _epoch(zookeeper)
    if (await look(zookeeper, broker_id)).holder is not holder:
        return
    try:
        # Whoever was elected since the look has raised the epoch's version.
        await zookeeper.multi([Check(nodes.CONTROLLER_EPOCH, version), Delete(nodes.CONTROLLER)])
    except (NoNode, BadVersion):
        return
