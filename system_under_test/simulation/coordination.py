"""A ZooKeeper client on a simulated node, with the habits of a real one.

It pings every third of its time-out and calls itself disconnected when the next ping is due and the last one has no
answer. Then it tries again and again; whether the session still lives it learns only from a server that answers.
Watches outlive a connection: a new one is told of them, and of the last transaction that was seen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from system_under_test.simulation import zookeeper as wire
from system_under_test.simulation.loop import Node, SimulatedLoop
from system_under_test.simulation.tree import Sequential
from system_under_test.simulation.zookeeper import Channel, ZooKeeper
from system_under_test.world import (
    Change,
    Create,
    Delete,
    Disconnected,
    NodeExists,
    NodeStat,
    SessionExpired,
    SessionState,
    SetData,
    Watcher,
    WatchEvent,
)

_RETRY_S = (0.05, 0.5)


class SimulatedCoordination:
    """See :class:`system_under_test.world.Coordination`."""

    def __init__(self, server: ZooKeeper, node: Node, host: str, timeout_s: float, random: Random) -> None:
        self._server = server
        self._loop: SimulatedLoop = server.links.loop
        self._node = node
        self._host = host
        self._timeout_s = timeout_s
        self._random = random
        self._state = SessionState.DISCONNECTED
        self._session_id = 0
        self._last_zxid = 0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._pending: deque[tuple[asyncio.Future[Any], Callable[[Any], None] | None]] = deque()
        self._data_watches: dict[str, list[tuple[Watcher, bool]]] = {}
        """With each: whether it waits for a node that was not there."""
        self._child_watches: dict[str, list[Watcher]] = {}
        self._channel: Channel | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ping_unanswered = False
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._farewell: tuple[Channel, asyncio.Future[None]] | None = None
        """While the server is asked to end the session: over which channel, and when it did."""

    @classmethod
    async def open(
        cls, server: ZooKeeper, node: Node, host: str, timeout_s: float, random: Random
    ) -> SimulatedCoordination:
        coordination = cls(server, node, host, timeout_s, random)
        coordination._connect()
        try:
            async with asyncio.timeout(timeout_s):
                await coordination._connected
        except TimeoutError:
            coordination._enter(SessionState.CLOSED)
            raise Disconnected(f"ZooKeeper does not answer within {timeout_s} s") from None
        return coordination

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    # The connection. Timers are the node's own: a paused node neither pings nor notices.

    def _connect(self) -> None:
        if self._over():
            return
        self._hang_up()
        channel: Channel | None = None

        def arrived(message: Any) -> None:
            self._loop.call_soon(self._receive, channel, message, context=self._node.context)

        channel = self._channel = Channel(self._server, self._node, self._host, arrived)
        data = [(path, missing) for path, watches in self._data_watches.items() for _, missing in watches]
        channel.to_server.send(
            wire.Connect(
                self._session_id,
                self._timeout_s,
                self._last_zxid,
                tuple(dict.fromkeys(path for path, missing in data if not missing)),
                tuple(dict.fromkeys(path for path, missing in data if missing)),
                tuple(self._child_watches),
            )
        )
        self._schedule(self._timeout_s / 3, self._connect)

    def _schedule(self, delay_s: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, callback, context=self._node.context)

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.to_server.send(wire.Gone())
            self._channel = None

    def _beat(self) -> None:
        if self._state is not SessionState.CONNECTED or self._channel is None:
            return
        if self._ping_unanswered:
            self._lose_connection()
        else:
            self._ping_unanswered = True
            self._channel.to_server.send(wire.Ping())
            self._schedule(self._timeout_s / 3, self._beat)

    def _lose_connection(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._enter(SessionState.DISCONNECTED)
        self._hang_up()
        self._schedule(self._random.uniform(*_RETRY_S), self._connect)

    def _over(self) -> bool:
        return self._state in (SessionState.EXPIRED, SessionState.CLOSED)

    def _enter(self, state: SessionState) -> None:
        """State first, then what was under way fails, then the watches of a session that is over."""
        if self._over():
            return
        self._state = state
        for listener in list(self._listeners):
            listener(state)
        if state is SessionState.CONNECTED:
            return
        error = SessionExpired if state is SessionState.EXPIRED else Disconnected
        while self._pending:
            future, _ = self._pending.popleft()
            if not future.done():
                future.set_exception(error())
        if self._over():
            self._end(state)

    def _end(self, state: SessionState) -> None:
        self._hang_up()
        if self._timer is not None:
            self._timer.cancel()
        watches = [(path, watcher) for path, each in self._data_watches.items() for watcher, _ in each]
        watches += [(path, watcher) for path, each in self._child_watches.items() for watcher in each]
        self._data_watches.clear()
        self._child_watches.clear()
        if state is SessionState.EXPIRED:
            for path, watcher in watches:
                watcher(path, WatchEvent.LOST)

    def _receive(self, channel: Channel, message: Any) -> None:
        if self._farewell is not None and channel is self._farewell[0] and isinstance(message, wire.Closed):
            self._farewell[1].set_result(None)
        if channel is not self._channel:
            return
        self._ping_unanswered = False
        match message:
            case wire.Reply():
                self._settle(message)
            case wire.Told(path, event):
                self._fire(path, event)
            case wire.Connected(session_id):
                self._session_id = session_id
                self._schedule(self._timeout_s / 3, self._beat)
                self._enter(SessionState.CONNECTED)
                if not self._connected.done():
                    self._connected.set_result(None)
            case wire.Expired():
                self._enter(SessionState.EXPIRED)
            case wire.Dropped():
                self._lose_connection()

    def _settle(self, reply: wire.Reply) -> None:
        self._last_zxid = max(self._last_zxid, reply.zxid)
        future, register = self._pending.popleft()
        if register is not None and reply.error is None:
            register(reply.value)
        if future.done():
            return
        if reply.error is not None:
            future.set_exception(reply.error)
        else:
            future.set_result(reply.value)

    def _fire(self, path: str, event: WatchEvent) -> None:
        watchers: list[Watcher] = []
        if event is not WatchEvent.CHILDREN:
            watchers += [watcher for watcher, _ in self._data_watches.pop(path, [])]
        if event in (WatchEvent.CHILDREN, WatchEvent.DELETED):
            watchers += self._child_watches.pop(path, [])
        for watcher in watchers:
            watcher(path, event)

    async def _ask(self, request: wire.Request, register: Callable[[Any], None] | None = None) -> Any:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired
        if self._state is not SessionState.CONNECTED or self._channel is None:
            raise Disconnected(f"the session is {self._state.value}")
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._node.alive:
            self._pending.append((future, register))
            self._channel.to_server.send(request)
        return await future

    # Operations.

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, NodeStat]:
        change = Sequential(path, data, ephemeral) if sequential else Create(path, data, ephemeral)
        results = await self._ask(wire.Write((change,)))
        made: tuple[str, NodeStat] = results[0]
        return made

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, NodeStat]:
        found: tuple[bytes, NodeStat] = await self._ask(
            wire.Get(path, watch is not None), self._data_register(path, watch)
        )
        return found

    async def exists(self, path: str, watch: Watcher | None = None) -> NodeStat | None:
        found: NodeStat | None = await self._ask(wire.Exists(path, watch is not None), self._data_register(path, watch))
        return found

    def _data_register(self, path: str, watch: Watcher | None) -> Callable[[Any], None] | None:
        if watch is None:
            return None
        return lambda value: self._data_watches.setdefault(path, []).append((watch, value is None))

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        register = None
        if watch is not None:

            def register(_: Any) -> None:
                self._child_watches.setdefault(path, []).append(watch)

        names: list[str] = await self._ask(wire.Children(path, watch is not None), register)
        return names

    async def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        stat: NodeStat = (await self._ask(wire.Write((SetData(path, data, version),))))[0][1]
        return stat

    async def delete(self, path: str, version: int = -1) -> None:
        await self._ask(wire.Write((Delete(path, version),)))

    async def multi(self, changes: Sequence[Change]) -> list[NodeStat | None]:
        if not changes:
            return []
        return [stat for _, stat in await self._ask(wire.Write(tuple(changes)))]

    async def ensure_path(self, path: str) -> None:
        if await self.exists(path) is not None:
            return
        names = path.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            try:
                await self.create("/" + "/".join(names[:depth]))
            except NodeExists:
                continue

    async def close(self) -> None:
        if self._over():
            return
        if self._state is SessionState.CONNECTED and self._channel is not None:
            self._farewell = (self._channel, self._loop.create_future())
            self._channel.to_server.send(wire.Close())
        self._enter(SessionState.CLOSED)
        if self._farewell is not None:
            with suppress(TimeoutError):  # then the server finds out by itself
                async with asyncio.timeout(self._timeout_s):
                    await self._farewell[1]
