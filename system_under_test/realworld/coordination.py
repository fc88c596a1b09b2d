"""ZooKeeper for a broker's loop: kazoo's thread stays inside, what it tells crosses over in the order of the wire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kazoo
from kazoo.protocol.serialization import CheckVersion, Create2, Exists, GetChildren, GetData
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.protocol.serialization import SetData as SetDataRequest
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from system_under_test.realworld.session import Multi, Session, Watch
from system_under_test.world import (
    BadVersion,
    Change,
    Check,
    CoordinationError,
    Create,
    Delete,
    Disconnected,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    SetData,
    Watcher,
    WatchEvent,
)

_EPHEMERAL, _SEQUENTIAL = 1, 2
_ERRORS: dict[type[Exception], type[CoordinationError]] = {
    kazoo.NoNodeError: NoNode,
    kazoo.NodeExistsError: NodeExists,
    kazoo.BadVersionError: BadVersion,
    kazoo.NotEmptyError: NotEmpty,
    kazoo.SessionExpiredError: SessionExpired,
    kazoo.ConnectionLoss: Disconnected,
    kazoo.ConnectionClosedError: Disconnected,
}
_EVENTS = {
    EventType.CREATED: WatchEvent.CREATED,
    EventType.CHANGED: WatchEvent.CHANGED,
    EventType.DELETED: WatchEvent.DELETED,
    EventType.CHILD: WatchEvent.CHILDREN,
}
_STOP_TIMEOUT_S = 30.0
_log = logging.getLogger("tidemark.coordination")


class KazooCoordination:
    """See :class:`system_under_test.world.Coordination`."""

    def __init__(self, hosts: str, session_timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._state = SessionState.DISCONNECTED
        self._session_id = 0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._connected = self._loop.create_future()
        self._session = Session(hosts, session_timeout_ms / 1000, self._state_changed)
        self._stopped: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, hosts: str, session_timeout_ms: int) -> KazooCoordination:
        coordination = cls(hosts, session_timeout_ms)
        coordination._session.start_async()
        try:
            async with asyncio.timeout(session_timeout_ms / 1000):
                await asyncio.shield(coordination._connected)
        except TimeoutError:
            await coordination.close()
            raise Disconnected(f"ZooKeeper at {hosts} does not answer within {session_timeout_ms} ms") from None
        return coordination

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    # What crosses from kazoo's thread: always by _cross, hence in order.

    def _cross(self, callback: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not self._loop.is_closed():
                raise  # else: the broker is gone, and nobody is left to be told

    def _state_changed(self, state: SessionState) -> None:
        self._cross(self._enter, state, self._session._session_id or 0)

    def _enter(self, state: SessionState, session_id: int) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            return
        self._state = state
        if state is SessionState.CONNECTED:
            self._session_id = session_id
            if not self._connected.done():
                self._connected.set_result(None)
        if state is SessionState.EXPIRED:
            self._stop()
        for listener in list(self._listeners):
            listener(state)

    async def _ask(self, request: Any, watch: Watch | None = None) -> Any:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired
        if self._state is not SessionState.CONNECTED:
            raise Disconnected(f"the session is {self._state.value}")
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any) -> None:
            if watch is not None:
                watch.missing = result.exception is None and result.value is None
            self._cross(_settle, future, result.value, result.exception)

        self._session.send(request, done)
        try:
            return await future
        except kazoo.KazooException as error:
            raise _translated(error, getattr(request, "path", "")) from None

    def _watch(self, path: str, watcher: Watcher | None) -> Watch | None:
        if watcher is None:
            return None

        def tell(event: WatchedEvent) -> None:
            if event.type != EventType.NONE:
                self._cross(self._fire, watcher, path, _EVENTS[event.type])
            elif event.state == KeeperState.EXPIRED_SESSION:
                self._cross(self._fire, watcher, path, WatchEvent.LOST)

        return Watch(tell)

    def _fire(self, watcher: Watcher, path: str, event: WatchEvent) -> None:
        if self._state is not SessionState.CLOSED:
            watcher(path, event)

    # Operations.

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, NodeStat]:
        made, stat = await self._ask(self._create(path, data, ephemeral, sequential))
        return self._session.unchroot(made), _stat(stat)

    def _create(self, path: str, data: bytes, ephemeral: bool, sequential: bool) -> Create2:
        flags = _EPHEMERAL * ephemeral | _SEQUENTIAL * sequential
        return Create2(self._session.full_path(path), data, OPEN_ACL_UNSAFE, flags)

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, NodeStat]:
        data, stat = await self._ask(GetData(self._session.full_path(path), self._watch(path, watch)))
        return data or b"", _stat(stat)

    async def exists(self, path: str, watch: Watcher | None = None) -> NodeStat | None:
        kept = self._watch(path, watch)
        stat = await self._ask(Exists(self._session.full_path(path), kept), kept)
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return sorted(await self._ask(GetChildren(self._session.full_path(path), self._watch(path, watch))))

    async def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        return _stat(await self._ask(SetDataRequest(self._session.full_path(path), data, version)))

    async def delete(self, path: str, version: int = -1) -> None:
        await self._ask(DeleteRequest(self._session.full_path(path), version))

    async def multi(self, changes: Sequence[Change]) -> list[NodeStat | None]:
        if not changes:
            return []
        results = await self._ask(Multi([self._operation(each) for each in changes]))
        for change, result in zip(changes, results, strict=True):
            # The others of a refused transaction are marked as rolled back (before) or as not reached (after).
            if isinstance(result, Exception) and not isinstance(
                result, kazoo.RolledBackError | kazoo.RuntimeInconsistency
            ):
                raise _translated(result, change.path)
        return [None if each is None else _stat(each) for each in results]

    def _operation(self, change: Change) -> Any:
        path = self._session.full_path(change.path)
        match change:
            case Create(_, data, ephemeral):
                return self._create(change.path, data, ephemeral, False)
            case SetData(_, data, version):
                return SetDataRequest(path, data, version)
            case Delete(_, version):
                return DeleteRequest(path, version)
            case Check(_, version):
                return CheckVersion(path, version)

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
        if self._state is not SessionState.EXPIRED:
            self._enter(SessionState.CLOSED, self._session_id)
        await asyncio.shield(self._stop())

    def _stop(self) -> asyncio.Future[None]:
        """kazoo's ``stop`` waits for its thread: that waiting is done in a thread too."""
        if self._stopped is None:
            self._stopped = self._loop.run_in_executor(None, _stop, self._session)
        return self._stopped


def _stop(session: Session) -> None:
    try:
        session.stop()
    except kazoo.WriterNotClosedException:
        # It hangs in a connect that nobody answers. The thread is a daemon and ends with that attempt.
        _log.warning("the ZooKeeper client is still trying to connect; left to itself")
        return
    if session._connection.stop(_STOP_TIMEOUT_S):
        session.close()


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _translated(error: Exception, path: str) -> Exception:
    translated = _ERRORS.get(type(error))
    return translated(path) if translated is not None else error


def _stat(stat: Any) -> NodeStat:
    return NodeStat(stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.ctime, stat.mtime)
