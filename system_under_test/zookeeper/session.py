"""A broker's ZooKeeper session: operations that wait out a lost connection, and a new session after an expiry.

:class:`Retrying` is one session. An operation that met a lost connection is sent again once ZooKeeper answers; after
an expiry it raises SessionExpired. The second sending may meet the effects of the first: a create finds the node that
it made itself, a conditional write finds its own version. Callers look at what is there, as they must anyway.

:class:`Sessions` is the broker's session over time. When one expires the listeners for that are told at once and
synchronously; then a new session is opened, for as long as it takes, and each of those who wait for one is called
in turn: first the registration, then everybody who keeps watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from system_under_test.world import (
    Change,
    Coordination,
    Disconnected,
    NodeStat,
    SessionExpired,
    SessionState,
    Watcher,
    World,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.05
"""Before the next attempt, when an operation failed although the session says that it is connected."""


class Retrying:
    """One session as :class:`~system_under_test.world.Coordination`; no operation raises Disconnected."""

    def __init__(self, client: Coordination) -> None:
        self._client = client
        self._waiting: list[asyncio.Future[None]] = []
        client.on_state(self._changed)

    @property
    def client(self) -> Coordination:
        """The session itself, whose operations raise Disconnected."""
        return self._client

    @property
    def state(self) -> SessionState:
        return self._client.state

    @property
    def session_id(self) -> int:
        return self._client.session_id

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._client.on_state(listener)

    def _changed(self, state: SessionState) -> None:
        if state is not SessionState.DISCONNECTED:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def _until_connected(self) -> None:
        if self._client.state is SessionState.CONNECTED:
            await asyncio.sleep(RETRY_PAUSE_S)
        while self._client.state is SessionState.DISCONNECTED:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self._client.state is not SessionState.CONNECTED:
            raise SessionExpired(f"session {self.session_id:#x} is {self._client.state.value}")

    async def _run(self, operation: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await operation()
            except Disconnected:
                await self._until_connected()

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, NodeStat]:
        return await self._run(lambda: self._client.create(path, data, ephemeral=ephemeral, sequential=sequential))

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, NodeStat]:
        return await self._run(lambda: self._client.get(path, watch))

    async def exists(self, path: str, watch: Watcher | None = None) -> NodeStat | None:
        return await self._run(lambda: self._client.exists(path, watch))

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return await self._run(lambda: self._client.children(path, watch))

    async def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        return await self._run(lambda: self._client.set(path, data, version))

    async def delete(self, path: str, version: int = -1) -> None:
        return await self._run(lambda: self._client.delete(path, version))

    async def multi(self, changes: Sequence[Change]) -> list[NodeStat | None]:
        return await self._run(lambda: self._client.multi(changes))

    async def ensure_path(self, path: str) -> None:
        return await self._run(lambda: self._client.ensure_path(path))

    async def close(self) -> None:
        await self._client.close()


Expired = Callable[[], None]
Established = Callable[[Coordination], Awaitable[None]]


class Sessions:
    """The broker's session, and its successor when it expires. ``current`` is there after :meth:`start`."""

    def __init__(self, world: World, session_timeout_ms: int) -> None:
        self._world = world
        self.session_timeout_ms = session_timeout_ms
        self._current: Retrying | None = None
        self._expired: list[Expired] = []
        self._established: list[Established] = []
        self._renewal: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def current(self) -> Coordination:
        assert self._current is not None, "no session was started"
        return self._current

    @property
    def unretried(self) -> Coordination:
        """For those who must decide anew when nobody knows what became of a write."""
        assert self._current is not None, "no session was started"
        return self._current.client

    def on_expired(self, listener: Expired) -> None:
        """Called at the very moment in which the loop learns of the expiry."""
        self._expired.append(listener)

    def on_established(self, listener: Established) -> None:
        """Awaited in the order of their coming for each session after the first. An expiry during that ends the
        round; the next session begins it anew."""
        self._established.append(listener)

    async def start(self) -> Coordination:
        """Open the first session. Raises Disconnected when ZooKeeper cannot be reached."""
        return await self._open()

    async def close(self) -> None:
        """End the session: the broker's ephemeral nodes vanish."""
        self._closed = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if self._current is not None:
            await self._current.close()

    async def _open(self) -> Coordination:
        client = Retrying(await self._world.coordination(self.session_timeout_ms))
        self._current = client
        client.on_state(lambda state: self._state_changed(client, state))
        if client.state is SessionState.EXPIRED:
            self._state_changed(client, client.state)
        return client

    def _state_changed(self, client: Retrying, state: SessionState) -> None:
        if state is not SessionState.EXPIRED or client is not self._current or self._closed:
            return
        log.warning("ZooKeeper session %#x expired", client.session_id)
        for listener in self._expired:
            listener()
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Until a session has outlived the telling of everybody who waited for it."""
        while not self._closed:
            try:
                client = await self._open()
                for listener in self._established:
                    await listener(client)
            except Disconnected:
                log.warning("ZooKeeper cannot be reached; trying again")
                await asyncio.sleep(RETRY_PAUSE_S)
            except SessionExpired:
                log.warning("the new ZooKeeper session expired before it was of use; trying again")
            else:
                if client.state is not SessionState.EXPIRED:
                    return
