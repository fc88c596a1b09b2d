"""How a broker joins: the paths that must be there, the cluster's id, a generated broker id, the registration.

The registration is the ephemeral ``/brokers/ids/N``. The transaction that made it is the *broker epoch*: a broker that
comes back under its old id has a larger one, and requests meant for its predecessor are refused.
"""

from __future__ import annotations

import asyncio
import base64
from random import Random

from system_under_test.world import Coordination, NodeExists, NoNode, SessionExpired, WatchEvent
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import BrokerRegistration, MalformedNode

EXPIRY_GRACE_MS = 3000
"""ZooKeeper ends sessions at its ticks (2 s by default): a dead broker's node may stay that much longer."""


class BrokerIdTaken(Exception):
    """Another broker with this id is alive."""


async def make_persistent_paths(zookeeper: Coordination) -> None:
    for path in nodes.PERSISTENT_PATHS:
        await zookeeper.ensure_path(path)


async def cluster_id(zookeeper: Coordination, random: Random) -> str:
    """The cluster's id; the first broker makes it up."""
    while True:
        try:
            return nodes.decode_cluster_id((await zookeeper.get(nodes.CLUSTER_ID))[0])
        except NoNode:
            await zookeeper.ensure_path("/cluster")
        # Kafka's ids are 22 characters of base64 and never begin with a dash.
        made = "-"
        while made.startswith("-"):
            made = base64.urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()
        try:
            await zookeeper.create(nodes.CLUSTER_ID, nodes.encode_cluster_id(made))
        except NodeExists:
            continue
        return made


async def generate_broker_id(zookeeper: Coordination, reserved_max_id: int) -> int:
    """An id that no broker has had, above the reserved ones: each write to the node raises its version."""
    await zookeeper.ensure_path(nodes.BROKER_SEQUENCE)
    return reserved_max_id + (await zookeeper.set(nodes.BROKER_SEQUENCE, b"")).version


async def register(zookeeper: Coordination, registration: BrokerRegistration, session_timeout_ms: int) -> int:
    """Register; the broker epoch. Waits for the node of a dead predecessor to vanish, raises BrokerIdTaken if it does not."""
    path = nodes.broker_path(registration.id)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (session_timeout_ms + EXPIRY_GRACE_MS) / 1000
    while True:
        try:
            _, stat = await zookeeper.create(path, registration.encode(), ephemeral=True)
            return stat.czxid
        except NodeExists:
            pass
        gone: asyncio.Future[WatchEvent] = loop.create_future()

        def vanished(_path: str, event: WatchEvent, gone: asyncio.Future[WatchEvent] = gone) -> None:
            if not gone.done():
                gone.set_result(event)

        there = await zookeeper.exists(path, vanished)
        if there is None:
            continue
        if there.ephemeral_owner == zookeeper.session_id:
            # An earlier create of this session took effect although its answer was lost.
            await zookeeper.set(path, registration.encode())
            return there.czxid
        try:
            event = await asyncio.wait_for(gone, max(0.0, deadline - loop.time()))
        except TimeoutError:
            raise BrokerIdTaken(await _taken(zookeeper, registration.id)) from None
        if event is WatchEvent.LOST:
            raise SessionExpired(f"while broker {registration.id} waited for its id")


async def _taken(zookeeper: Coordination, broker_id: int) -> str:
    try:
        other = BrokerRegistration.decode(broker_id, (await zookeeper.get(nodes.broker_path(broker_id)))[0])
        where = " at " + ", ".join(listener.uri() for listener in other.listeners)
    except (NoNode, MalformedNode):
        where = ""
    return (
        f"broker.id={broker_id} is registered by another broker{where} and stayed so for longer than a session "
        f"without a broker would; give this broker another broker.id, or stop the other one"
    )
