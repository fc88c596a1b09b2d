"""A model of a ZooKeeper server: sessions, watches, one order of everything.

It is a host of the simulated network. Each client has a channel to it, a pair of wires; requests are carried out in the
order in which they arrive, answers and watch events go back over one wire in the order in which they arose, so a client
hears of a change before it can read it. A session lives as long as something is heard from it within its time-out; it
belongs to one channel, and requests of an older one are ignored.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from system_under_test.simulation.links import Links, Wire
from system_under_test.simulation.loop import Node
from system_under_test.simulation.trace import Trace
from system_under_test.simulation.tree import Event, Sequential, Tree
from system_under_test.world import Change, CoordinationError, NodeStat, WatchEvent

HOST = "zookeeper"
_TICK_S = 0.5
"""Sessions expire on ticks."""


# What a client sends.


@dataclass(frozen=True, slots=True)
class Connect:
    session_id: int
    """0 asks for a new session."""
    timeout_s: float
    last_zxid: int
    data_watches: tuple[str, ...] = ()
    exist_watches: tuple[str, ...] = ()
    child_watches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Get:
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class Children:
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class Write:
    changes: tuple[Change | Sequential, ...]


@dataclass(frozen=True, slots=True)
class Close:
    pass


@dataclass(frozen=True, slots=True)
class Gone:
    """The client's end of the channel is closed."""


Request = Get | Exists | Children | Write


# What the server sends.


@dataclass(frozen=True, slots=True)
class Connected:
    session_id: int


@dataclass(frozen=True, slots=True)
class Expired:
    pass


@dataclass(frozen=True, slots=True)
class Pong:
    pass


@dataclass(frozen=True, slots=True)
class Reply:
    """To the oldest request that has none yet."""

    value: Any
    error: CoordinationError | None
    zxid: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over, as its client wished."""


@dataclass(frozen=True, slots=True)
class Told:
    path: str
    event: WatchEvent


@dataclass(frozen=True, slots=True)
class Dropped:
    """The server's end of the channel is closed."""


class Channel:
    """One connection of one client, seen from the server."""

    def __init__(self, server: ZooKeeper, node: Node, host: str, receive: Callable[[Any], None]) -> None:
        self.node = node
        self.host = host
        self.open = True
        self.session: Session | None = None
        self.to_server = Wire(server.links, host, HOST, lambda message: server.receive(self, message), _nothing)
        self.to_client = Wire(server.links, HOST, host, receive, _nothing)
        server.channels[self] = None


class Session:
    def __init__(self, session_id: int, timeout_s: float, channel: Channel, now: float) -> None:
        self.id = session_id
        self.timeout_s = timeout_s
        self.channel: Channel | None = channel
        self.heard_at = now
        self.timer: asyncio.TimerHandle | None = None


class ZooKeeper:
    def __init__(self, links: Links, trace: Trace, time_ms: Callable[[], int]) -> None:
        self.links = links
        self._loop = links.loop
        self._trace = trace
        self._time_ms = time_ms
        self.tree = Tree()
        self.up = True
        self.sessions: dict[int, Session] = {}
        self.channels: dict[Channel, None] = {}
        self._next_session = 0x1000
        self._data_watches: dict[str, dict[Channel, None]] = {}
        self._child_watches: dict[str, dict[Channel, None]] = {}

    # Faults.

    def stop(self) -> None:
        """Nobody is answered; sessions are kept, as an ensemble keeps them in its log."""
        self.up = False
        for session in self.sessions.values():
            if session.channel is not None:
                self._drop(session.channel)

    def start(self) -> None:
        """A new leader gives every session its whole time-out again."""
        self.up = True
        for session in self.sessions.values():
            session.heard_at = self._loop.time()
            self._arm(session)

    def expire(self, session_id: int) -> bool:
        """End a session as if nothing had been heard from it."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return False
        self._trace.add(HOST, "expire", session_id)
        if session.timer is not None:
            session.timer.cancel()
        events = self.tree.end_session(session_id, self._time_ms())
        if session.channel is not None:
            self._drop(session.channel)
        self._tell(events)
        return True

    def disconnect(self, session_id: int) -> None:
        """Break the session's connection, once. It may come back."""
        channel = self.sessions[session_id].channel
        if channel is not None:
            self._drop(channel)

    def client_died(self, node: Node, *, with_its_machine: bool) -> None:
        """A killed client's kernel says goodbye; without its machine nothing is heard, nor sent again."""
        for channel in [each for each in self.channels if each.node is node]:
            if with_its_machine:
                channel.to_server.silence()
            else:
                channel.to_server.send(Gone())

    def sessions_of(self, host: str) -> list[int]:
        return [each.id for each in self.sessions.values() if each.channel is not None and each.channel.host == host]

    def administer(self, changes: Sequence[Change]) -> None:
        """Carry out changes of somebody who has no session: an administrator with a shell."""
        results, events = self.tree.transact(changes, 0, self._time_ms())
        self._trace.add(HOST, "administer", self.tree.zxid, *(path for path, _ in results))
        self._tell(events)

    # Sessions.

    def receive(self, channel: Channel, message: Any) -> None:
        if not self.up or not channel.open:
            if channel.open:
                self._drop(channel)
            return
        match message:
            case Connect():
                self._connect(channel, message)
            case Gone():
                self._forget(channel)
            case _:
                session = channel.session
                if session is None or session.channel is not channel or session.id not in self.sessions:
                    return
                session.heard_at = self._loop.time()
                if isinstance(message, Ping):
                    channel.to_client.send(Pong())
                elif isinstance(message, Close):
                    self._close(session, channel)
                else:
                    self._answer(session, channel, message)

    def _connect(self, channel: Channel, request: Connect) -> None:
        if request.session_id:
            session = self.sessions.get(request.session_id)
            if session is None:
                channel.to_client.send(Expired())
                self._forget(channel)
                return
            if session.channel is not None:
                self._drop(session.channel)
            session.channel = channel
            session.heard_at = self._loop.time()
        else:
            self._next_session += 1
            self.tree.zxid += 1
            session = Session(self._next_session, request.timeout_s, channel, self._loop.time())
            self.sessions[session.id] = session
            self._arm(session)
        channel.session = session
        self._trace.add(HOST, "connected", channel.host, session.id)
        channel.to_client.send(Connected(session.id))
        self._set_watches(channel, request)

    def _arm(self, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        deadline = math.ceil((session.heard_at + session.timeout_s) / _TICK_S) * _TICK_S
        session.timer = self._loop.world_at(deadline, self._check, session)

    def _check(self, session: Session) -> None:
        if not self.up or session.id not in self.sessions:
            return
        if session.heard_at + session.timeout_s > self._loop.time():
            self._arm(session)
        else:
            self.expire(session.id)

    def _drop(self, channel: Channel) -> None:
        channel.to_client.send(Dropped())
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        channel.open = False
        self.channels.pop(channel, None)
        if channel.session is not None and channel.session.channel is channel:
            channel.session.channel = None
        for table in (self._data_watches, self._child_watches):
            for path in [path for path, channels in table.items() if channel in channels]:
                del table[path][channel]
                if not table[path]:
                    del table[path]

    # Requests.

    def _answer(self, session: Session, channel: Channel, request: Request) -> None:
        value: Any = None
        error: CoordinationError | None = None
        events: list[Event] = []
        try:
            value, events = self._carry_out(session, channel, request)
        except CoordinationError as refusal:
            error = refusal
        # The writer's own watches fire before its answer, too.
        self._tell(events)
        channel.to_client.send(Reply(value, error, self.tree.zxid))

    def _carry_out(self, session: Session, channel: Channel, request: Request) -> tuple[Any, list[Event]]:
        match request:
            case Write(changes):
                results, events = self.tree.transact(changes, session.id, self._time_ms())
                self._trace.add(HOST, "write", session.id, self.tree.zxid, *(path for path, _ in results))
                return results, events
            case Get(path, watch):
                node = self.tree.node(path)
                if watch:
                    self._data_watches.setdefault(path, {})[channel] = None
                return (node.data, node.stat()), []
            case Exists(path, watch):
                if watch:
                    self._data_watches.setdefault(path, {})[channel] = None
                return self._stat(path), []
            case Children(path, watch):
                names = sorted(self.tree.node(path).children)
                if watch:
                    self._child_watches.setdefault(path, {})[channel] = None
                return names, []

    def _close(self, session: Session, channel: Channel) -> None:
        self._trace.add(HOST, "close", session.id)
        del self.sessions[session.id]
        if session.timer is not None:
            session.timer.cancel()
        self._tell(self.tree.end_session(session.id, self._time_ms()))
        channel.to_client.send(Closed())
        self._forget(channel)

    def _stat(self, path: str) -> NodeStat | None:
        node = self.tree.nodes.get(path)
        return None if node is None else node.stat()

    # Watches.

    def _tell(self, events: list[Event]) -> None:
        for path, event in events:
            watching: dict[Channel, None] = {}
            if event is not WatchEvent.CHILDREN:
                watching |= self._data_watches.pop(path, {})
            if event in (WatchEvent.CHILDREN, WatchEvent.DELETED):
                watching |= self._child_watches.pop(path, {})
            for channel in watching:
                channel.to_client.send(Told(path, event))

    def _set_watches(self, channel: Channel, request: Connect) -> None:
        """A client is back: tell it at once what it missed, and watch the rest."""
        nodes = self.tree.nodes
        for path in request.data_watches:
            node = nodes.get(path)
            if node is None:
                channel.to_client.send(Told(path, WatchEvent.DELETED))
            elif node.mzxid > request.last_zxid:
                channel.to_client.send(Told(path, WatchEvent.CHANGED))
            else:
                self._data_watches.setdefault(path, {})[channel] = None
        for path in request.exist_watches:
            if path in nodes:
                channel.to_client.send(Told(path, WatchEvent.CREATED))
            else:
                self._data_watches.setdefault(path, {})[channel] = None
        for path in request.child_watches:
            node = nodes.get(path)
            if node is None:
                channel.to_client.send(Told(path, WatchEvent.DELETED))
            elif node.pzxid > request.last_zxid:
                channel.to_client.send(Told(path, WatchEvent.CHILDREN))
            else:
                self._child_watches.setdefault(path, {})[channel] = None


def _nothing() -> None:
    """A wire that lost patience: both sides find out by their own time-outs."""
