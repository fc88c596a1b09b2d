"""One ZooKeeper session through kazoo, made to tell the truth in order.

kazoo on its own does four things that a broker cannot live with; this module mends them and nothing else:

* results and watches leave it through two threads, so a watch may come after a read that already saw the change.
  Here both are handed on by the connection's own thread (:class:`_InlineHandler`), in the order of the wire;
* after an expiry it opens a new session behind its user's back. Here an expired client stops;
* it forgets all watches when the connection breaks. Here they stay, and ZooKeeper is told of them again
  (``SetWatches``, as Java's client does) before anything else is sent, so that nothing that happened meanwhile is missed;
* its transactions do not tell the stat of a node that they create. Here they ask for it.

It reaches into kazoo 2.11's internals for that: the version is pinned, and the tests run against a real server.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Create2, MultiHeader, SetData, multiheader_struct, write_string
from kazoo.protocol.states import Callback, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from system_under_test.world import SessionState

_PATHS_PER_SET_WATCHES = 1000
_RETRY_FIRST_S = 0.05
_RETRY_LONGEST_S = 0.5
_CLOSED = frozenset({KeeperState.CLOSED, KeeperState.AUTH_FAILED, KeeperState.EXPIRED_SESSION})

logger = logging.getLogger("tidemark.kazoo")
logger.addHandler(logging.NullHandler())


class _InlineHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """No worker threads: callbacks run where they arise, in the thread of the connection. They must only pass on."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)


class Watch:
    """A watch as kazoo keeps it: called once with what happened, in the thread of the connection."""

    __slots__ = ("_tell", "missing")

    def __init__(self, tell: Callable[[WatchedEvent], None]) -> None:
        self._tell = tell
        self.missing = False
        """Left by ``exists`` on a node that was not there: it waits for the node to appear."""

    def __call__(self, event: WatchedEvent) -> None:
        self._tell(event)


@dataclass(frozen=True, slots=True)
class SetWatches:
    """Tells a server what to watch, and of which transaction the client knew last."""

    type: ClassVar[int] = 101
    relative_zxid: int
    data: list[str]
    exists: list[str]
    children: list[str]

    def serialize(self) -> bytes:
        parts = [struct.pack("!q", self.relative_zxid)]
        for paths in (self.data, self.exists, self.children):
            parts.append(struct.pack("!i", len(paths)))
            parts.extend(write_string(each) for each in paths)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Multi:
    """A transaction whose creations answer with path and stat."""

    type: ClassVar[int] = 14
    operations: list[Any]

    def serialize(self) -> bytes:
        parts = [MultiHeader(each.type, False, -1).serialize() + each.serialize() for each in self.operations]
        return b"".join([*parts, multiheader_struct.pack(-1, True, -1)])

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        """One result for each operation: a stat, None, or the exception of a refusal."""
        results: list[Any] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            result: Any = None
            if header.type == Create2.type:
                _, result = Create2.deserialize(data, offset)
                (length,) = struct.unpack_from("!i", data, offset)
                offset += 4 + length + _STAT_BYTES
            elif header.type == SetData.type:
                result = SetData.deserialize(data, offset)
                offset += _STAT_BYTES
            elif header.type == _ERROR_TYPE:
                (code,) = struct.unpack_from("!i", data, offset)
                offset += 4
                result = EXCEPTIONS[code]()
            results.append(result)
            header, offset = MultiHeader.deserialize(data, offset)
        return results


_STAT_BYTES = 68
_ERROR_TYPE = -1


class Session(KazooClient):  # type: ignore[misc]
    """``tell`` hears of each change of state, in the thread of the connection, before pending requests fail."""

    def __init__(self, hosts: str, timeout_s: float, tell: Callable[[SessionState], None]) -> None:
        handler = _InlineHandler()
        self._tell = tell
        super().__init__(
            hosts=hosts,
            timeout=timeout_s,
            handler=handler,
            logger=logger,
            connection_retry=KazooRetry(
                max_tries=-1, delay=_RETRY_FIRST_S, backoff=2, max_delay=_RETRY_LONGEST_S, sleep_func=handler.sleep_func
            ),
        )

    def send(self, request: Any, done: Callable[[Any], None]) -> None:
        """``done`` gets kazoo's result, ready, in the thread of the connection (or here, when it fails at once)."""
        result = self.handler.async_result()
        result.rawlink(done)
        self._call(request, result)

    def full_path(self, path: str) -> str:
        return path if not self.chroot else self.chroot if path == "/" else self.chroot + path

    def _session_callback(self, state: str) -> None:
        before = self._state
        if state == before:
            return
        if state == KeeperState.EXPIRED_SESSION:
            self._stopped.set()
        told = _told(before, state)
        if told is not None:
            self._tell(told)
        super()._session_callback(state)
        if state == KeeperState.CONNECTED:
            self._send_watches_again()

    def _reset_watchers(self) -> None:
        if self._state != KeeperState.CONNECTING:
            super()._reset_watchers()

    def _send_watches_again(self) -> None:
        """Runs in the connection's thread before it sends anything, so these requests are the first."""
        requests = list(set_watches(self.last_zxid, self._data_watchers, self._child_watchers))
        for request in reversed(requests):
            self._queue.appendleft((request, None))
        for _ in requests:
            self._connection._write_sock.send(b"\0")


def _told(before: str, state: str) -> SessionState | None:
    if state == KeeperState.CONNECTED:
        return SessionState.CONNECTED
    if state == KeeperState.EXPIRED_SESSION:
        return SessionState.EXPIRED
    if state in _CLOSED:
        return None if before == KeeperState.EXPIRED_SESSION else SessionState.CLOSED
    return None if before in _CLOSED else SessionState.DISCONNECTED


def set_watches(
    zxid: int, data_watchers: dict[str, set[Watch]], child_watchers: dict[str, set[Watch]]
) -> Iterator[SetWatches]:
    """As many requests as keep each below ZooKeeper's limit of a megabyte."""
    wanted = _kinds(data_watchers, child_watchers)
    while part := list(islice(wanted, _PATHS_PER_SET_WATCHES)):
        lists: tuple[list[str], list[str], list[str]] = ([], [], [])
        for kind, path in part:
            lists[kind].append(path)
        yield SetWatches(zxid, *lists)


def _kinds(data_watchers: dict[str, set[Watch]], child_watchers: dict[str, set[Watch]]) -> Iterable[tuple[int, str]]:
    for path, watches in data_watchers.items():
        kinds = {1 if each.missing else 0 for each in watches}
        yield from ((kind, path) for kind in sorted(kinds))
    for path, watches in child_watchers.items():
        if watches:
            yield 2, path
