"""The seam: everything outside of a broker's own logic reaches it through one injected :class:`World`.

Time, network, files, coordination and randomness come from here and from nowhere else. There are two worlds: the
real one (:mod:`system_under_test.realworld`: sockets, a disk, ZooKeeper) and a simulated one
(:mod:`system_under_test.simulation`: virtual time, a network that delays, drops and cuts, disks that forget what
was not synced, a model of ZooKeeper), in which whole clusters run in one process and a seed repeats a run to the step.

Concurrency is plain asyncio on whatever loop runs: tasks, futures, events, ``asyncio.sleep`` and ``loop.call_later``.
The simulated world brings a loop of its own whose time is virtual. Broker code therefore must not use
threads, ``time``, ``random``, ``open``, ``os``, ``socket``, or iterate over sets where the order could matter.

Files are synchronous: a write goes to the page cache, as Kafka's own appends do. Only :meth:`File.sync` may take
long; callers do it rarely.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds; never goes back. The running loop's ``time()`` is the same clock."""
        ...

    def time_ms(self) -> int:
        """Wall-clock milliseconds since 1970: record timestamps, retention. It may jump."""
        ...


class ConnectionLost(ConnectionError):
    """The other side is gone, or nobody listens there."""


class Connection(Protocol):
    """One TCP connection. After a loss every call raises :class:`ConnectionLost`, except ``close``."""

    @property
    def peer(self) -> str:
        """``host:port`` of the other side."""
        ...

    @property
    def local(self) -> str: ...

    async def read_exactly(self, n: int) -> bytes: ...

    def write(self, *buffers: Buffer) -> None:
        """Queue the bytes; they are copied or sent before this returns."""
        ...

    async def drain(self) -> None:
        """Wait while too much is queued."""
        ...

    def close(self) -> None:
        """Idempotent; what was written before is still sent, if the other side reads it."""
        ...


class Listener(Protocol):
    @property
    def port(self) -> int:
        """The port that was really bound (when 0 was asked for)."""
        ...

    def close(self) -> None: ...


class AddressInUse(OSError):
    """Something listens at this address already."""


class Network(Protocol):
    async def connect(self, host: str, port: int) -> Connection:
        """Raises :class:`ConnectionLost` when nobody listens or nobody answers."""
        ...

    async def listen(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> Listener:
        """Call ``serve`` in a task of its own for each connection; the connection is closed when it returns."""
        ...


class File(Protocol):
    """One open file, read at any position and written at its end."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes; fewer at the end of the file."""
        ...

    def append(self, *buffers: Buffer) -> int:
        """Write at the end; the position of the first byte. Raises OSError (ENOSPC) with nothing or a part written."""
        ...

    def write_at(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when the content would survive a loss of power."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are absolute strings with ``/``."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Raises FileNotFoundError when it is not there and ``create`` is false."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """Names, sorted; [] when there is no such folder."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None:
        """With its parents; fine when it is there."""
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename atomically, over a target that is there (files), or a folder to a new name."""
        ...

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it; fine when it is not there."""
        ...

    def lock(self, path: str) -> bool:
        """Keep this file, which is made, for this process until its end; False when another one has it."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Return when names made, renamed and removed in it would survive a loss of power."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file."""
        ...

    def write_atomically(self, path: str, content: bytes) -> None:
        """Write beside it, sync, rename over it, sync the folder: old or new, never a mixture."""
        ...


class SessionState(Enum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    """No server answers. The session may still live: ZooKeeper alone decides."""
    EXPIRED = "expired"
    """The session is over, its ephemeral nodes are gone or about to be. This client is of no more use."""
    CLOSED = "closed"


class CoordinationError(Exception):
    """What ZooKeeper answers when it refuses."""


class NoNode(CoordinationError): ...


class NodeExists(CoordinationError): ...


class BadVersion(CoordinationError): ...


class NotEmpty(CoordinationError): ...


class Disconnected(CoordinationError):
    """The connection was lost: nobody knows whether the operation took effect."""


class SessionExpired(CoordinationError): ...


@dataclass(frozen=True, slots=True)
class NodeStat:
    version: int
    czxid: int
    """Transaction that made the node: of ``/brokers/ids/N`` it is the broker epoch."""
    mzxid: int
    ephemeral_owner: int
    """Session id, 0 for a node that stays."""
    ctime_ms: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Change = Create | SetData | Delete | Check


class WatchEvent(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    LOST = "lost"
    """The session expired: this watch will tell nothing more."""


Watcher = Callable[[str, WatchEvent], None]
"""Called once, on the broker's loop, with the path and what happened to it. As in ZooKeeper a watch fires once and
fires before a client can see the new state by a read of its own."""


class Coordination(Protocol):
    """One ZooKeeper session. Every operation may raise Disconnected or SessionExpired besides what it names."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int: ...

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        """Told of each change of state, on the broker's loop, in order."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, NodeStat]:
        """The path really made. NodeExists; NoNode when the parent is missing."""
        ...

    async def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes, NodeStat]:
        """NoNode (then no watch is left)."""
        ...

    async def exists(self, path: str, watch: Watcher | None = None) -> NodeStat | None:
        """The watch is left in both cases."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Sorted names; NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = -1) -> NodeStat:
        """BadVersion, NoNode."""
        ...

    async def delete(self, path: str, version: int = -1) -> None:
        """BadVersion, NoNode, NotEmpty."""
        ...

    async def multi(self, changes: Sequence[Change]) -> list[NodeStat | None]:
        """All or nothing; the first refusal is raised. A stat for Create and SetData, None for the rest."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Make the node and its parents, empty, where they are missing."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish at once."""
        ...


class World(Protocol):
    @property
    def clock(self) -> Clock: ...

    @property
    def network(self) -> Network: ...

    @property
    def files(self) -> Files: ...

    @property
    def random(self) -> Random: ...

    async def coordination(self, session_timeout_ms: int) -> Coordination:
        """Open a new session; returns when it is connected, raises Disconnected when that takes too long."""
        ...
