"""TCP connections in memory, between hosts, over :mod:`~system_under_test.simulation.links`."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from enum import Enum
from zlib import crc32

from system_under_test.simulation.links import Links, Wire
from system_under_test.simulation.loop import Node
from system_under_test.simulation.trace import Trace
from system_under_test.world import AddressInUse, Buffer, Connection, ConnectionLost

_UNSENT_LIMIT_BYTES = 1024 * 1024
_CONNECT_TIMEOUT_S = 10.0
_SYN_SENT_AGAIN_S = (1.0, 3.0, 7.0)
_FIRST_EPHEMERAL_PORT = 32768
_OWN_HOST = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0"})

Serve = Callable[[Connection], Awaitable[None]]


class _Signal(Enum):
    FIN = "hung up"
    RST = "reset the connection"


class Switchboard:
    """Everything that the hosts' kernels know of: who listens, who is connected."""

    def __init__(self, links: Links, trace: Trace) -> None:
        self.links = links
        self.trace = trace
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._endpoints: dict[Node, dict[SimulatedConnection, None]] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT

    def bind(self, listener: SimulatedListener) -> None:
        if (listener.host, listener.port) in self._listeners:
            raise AddressInUse(errno.EADDRINUSE, f"something listens at {listener.host}:{listener.port} already")
        self._listeners[listener.host, listener.port] = listener

    def unbind(self, listener: SimulatedListener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    def listener(self, host: str, port: int) -> SimulatedListener | None:
        return self._listeners.get((host, port))

    def ephemeral_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def register(self, endpoint: SimulatedConnection) -> None:
        self._endpoints.setdefault(endpoint.node, {})[endpoint] = None

    def unregister(self, endpoint: SimulatedConnection) -> None:
        endpoints = self._endpoints.get(endpoint.node)
        if endpoints is not None:
            endpoints.pop(endpoint, None)

    def node_died(self, node: Node, *, with_its_machine: bool) -> None:
        """Its kernel closes its sockets; without a kernel nobody does, and the others wait."""
        for listener in [each for each in self._listeners.values() if each.node is node]:
            self.unbind(listener)
        for endpoint in list(self._endpoints.pop(node, ())):
            if with_its_machine:
                endpoint.out.silence()
            else:
                endpoint.out.send(_Signal.RST)

    def drop_connections(self, first: str, second: str) -> int:
        """Reset every connection between two hosts, as a middlebox does; how many there were."""
        dropped = 0
        for endpoints in list(self._endpoints.values()):
            for endpoint in list(endpoints):
                if {endpoint.out.source, endpoint.out.target} == {first, second}:
                    endpoint.receive(_Signal.RST)
                    dropped += 1
        return dropped // 2


class SimulatedConnection:
    """One end. See :class:`system_under_test.world.Connection`."""

    def __init__(self, board: Switchboard, node: Node, local: str, peer: str, source: str, target: str) -> None:
        self._board = board
        self._loop = board.links.loop
        self.node = node
        self._local = local
        self._peer = peer
        self._other: SimulatedConnection | None = None
        self.out = Wire(board.links, source, target, self._deliver, self._gave_up)
        self._inbox = bytearray()
        self._read = 0
        self._wanted = 0
        self._reader: asyncio.Future[None] | None = None
        self._backlog = 0
        """Bytes written here that the other side has not read."""
        self._drainers: list[asyncio.Future[None]] = []
        self._lost: str | None = None
        board.register(self)

    @staticmethod
    def pair(
        board: Switchboard, client: Node, client_address: tuple[str, int], server: Node, server_address: tuple[str, int]
    ) -> tuple[SimulatedConnection, SimulatedConnection]:
        here, there = ("{}:{}".format(*each) for each in (client_address, server_address))
        near = SimulatedConnection(board, client, here, there, client_address[0], server_address[0])
        far = SimulatedConnection(board, server, there, here, server_address[0], client_address[0])
        near._other, far._other = far, near
        return near, far

    # What the kernel does.

    def _deliver(self, message: bytes | _Signal) -> None:
        assert self._other is not None
        if type(message) is bytes:
            self._board.trace.add(self.out.target, "recv", self._local, len(message), crc32(message))
        self._other.receive(message)

    def receive(self, message: bytes | _Signal) -> None:
        if isinstance(message, _Signal):
            self._lose(f"{self._peer} {message.value}")
        elif not self.node.alive:
            # Its machine answers, perhaps a later life of it, for a connection that it does not know.
            Wire(self._board.links, self.out.source, self.out.target, self._deliver, self._gave_up).send(_Signal.RST)
        elif self._lost is not None:
            self.out.send(_Signal.RST)
        else:
            self._inbox += message
            if self._wanted and len(self._inbox) - self._read >= self._wanted:
                self._wake()

    def abort(self) -> None:
        """Nobody wants this end any more."""
        self._lose(f"{self._peer} is closed")
        self.out.send(_Signal.RST)

    def _gave_up(self) -> None:
        self._lose(f"{self._peer} does not answer")

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            self._board.unregister(self)
            self._wake()
            self._wake_drainers()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _wake_drainers(self) -> None:
        for waiter in self._drainers:
            if not waiter.done():
                waiter.set_result(None)
        self._drainers.clear()

    # What a node does.

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def local(self) -> str:
        return self._local

    async def read_exactly(self, n: int) -> bytes:
        while len(self._inbox) - self._read < n:
            if self._lost is not None:
                raise ConnectionLost(self._lost)
            assert self._reader is None, "one reader at a time"
            self._wanted = n
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._wanted = 0
                self._reader = None
        data = bytes(self._inbox[self._read : self._read + n])
        self._read += n
        if self._read == len(self._inbox):
            self._inbox.clear()
            self._read = 0
        if self._other is not None:
            self._other._consumed(n)
        return data

    def _consumed(self, n: int) -> None:
        self._backlog -= n
        if self._drainers and self._backlog <= _UNSENT_LIMIT_BYTES:
            self._wake_drainers()

    def write(self, *buffers: Buffer) -> None:
        if not self.node.alive:
            return
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        data = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        if data:
            self._backlog += len(data)
            self.out.send(data)

    async def drain(self) -> None:
        while self._lost is None and self._backlog > _UNSENT_LIMIT_BYTES:
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            await waiter
        if self._lost is not None:
            raise ConnectionLost(self._lost)

    def close(self) -> None:
        if self._lost is None and self.node.alive:
            self._lose(f"{self._peer} is closed")
            self._inbox.clear()
            self._read = 0
            self.out.send(_Signal.FIN)


class SimulatedListener:
    """See :class:`system_under_test.world.Listener`."""

    def __init__(self, board: Switchboard, node: Node, host: str, port: int, serve: Serve) -> None:
        self._board = board
        self._serve = serve
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.node = node
        self.host = host
        self._port = port or board.ephemeral_port()

    @property
    def port(self) -> int:
        return self._port

    def accept(self, connection: SimulatedConnection) -> None:
        task = self.node.start(self._serve_one(connection), f"{self.host} serves {connection.peer}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]

    async def _serve_one(self, connection: SimulatedConnection) -> None:
        try:
            await self._serve(connection)
        except ConnectionLost:
            pass
        finally:
            connection.close()

    def close(self) -> None:
        if self.node.alive:
            self._board.unbind(self)


class SimulatedNetwork:
    """The network as one node sees it. See :class:`system_under_test.world.Network`."""

    def __init__(self, board: Switchboard, node: Node, host: str) -> None:
        self._board = board
        self._node = node
        self._host = host

    async def connect(self, host: str, port: int) -> SimulatedConnection:
        host = self._host if host in _OWN_HOST else host
        attempt = _Handshake(self._board, self._node, self._host, (host, port))
        return await attempt.connected

    async def listen(self, host: str, port: int, serve: Serve) -> SimulatedListener:
        if host not in _OWN_HOST and host != self._host:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {self._host}")
        listener = SimulatedListener(self._board, self._node, self._host, port, serve)
        self._board.bind(listener)
        return listener


class _Handshake:
    """SYN and its answer. A SYN that gets lost is sent again a few times."""

    def __init__(self, board: Switchboard, node: Node, source: str, target: tuple[str, int]) -> None:
        self._board = board
        self._node = node
        self._source = source
        self._target = target
        loop = board.links.loop
        self.connected: asyncio.Future[SimulatedConnection] = loop.create_future()
        started = loop.time()
        self._timers = [
            loop.world_at(started + after + board.links.delay_s(source, target[0]), self._arrive)
            for after in (0.0, *_SYN_SENT_AGAIN_S)
        ]
        self._timers.append(loop.world_at(started + _CONNECT_TIMEOUT_S, self._fail, "does not answer"))
        self._answered = False

    def _arrive(self) -> None:
        links = self._board.links
        host, port = self._target
        if (
            self._answered
            or self.connected.done()
            or links.blocked(self._source, host)
            or links.blocked(host, self._source)
        ):
            return
        self._answered = True
        back = links.loop.time() + links.delay_s(host, self._source)
        listener = self._board.listener(host, port)
        if listener is None:
            links.loop.world_at(back, self._fail, "refuses connections")
            return
        here = (self._source, self._board.ephemeral_port())
        near, far = SimulatedConnection.pair(self._board, self._node, here, listener.node, self._target)
        listener.accept(far)
        links.loop.world_at(back, self._established, near)

    def _established(self, near: SimulatedConnection) -> None:
        self._end()
        if self.connected.done() or not self._node.alive:
            near.abort()
        else:
            self.connected.set_result(near)

    def _fail(self, why: str) -> None:
        self._end()
        if not self.connected.done() and self._node.alive:
            self.connected.set_exception(ConnectionLost(f"{self._target[0]}:{self._target[1]} {why}"))

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
