"""TCP over asyncio's or uvloop's transports.

A protocol of our own instead of ``asyncio.StreamReader``: the kernel writes straight into the connection's buffer, a
frame that has come whole is taken without a turn of the loop, and nothing is searched or joined.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import cast

from system_under_test.world import AddressInUse, Buffer, Connection, ConnectionLost

_FIRST_BUFFER_BYTES = 64 * 1024
_LEAST_READ_BYTES = 16 * 1024
"""Never offer the kernel less room than this."""
_UNREAD_LIMIT_BYTES = 1024 * 1024
"""With so much unread the socket is left alone, and TCP slows the sender down."""
_KEPT_BUFFER_BYTES = 4 * 1024 * 1024
"""A larger one is given up when it is empty. Batches of 1 MB must not make it grow anew each time."""
_UNSENT_LIMIT_BYTES = 1024 * 1024
_CONNECT_TIMEOUT_S = 10.0

Serve = Callable[[Connection], Awaitable[None]]


class RealConnection(asyncio.BufferedProtocol):
    """See :class:`system_under_test.world.Connection`. Unread bytes are ``_buffer[_start:_end]``."""

    def __init__(self, connected: Callable[[RealConnection], None] | None = None) -> None:
        self._connected = connected
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        self._start = 0
        self._end = 0
        self._wanted = 0
        """Bytes that the waiting reader needs; 0 when nobody waits."""
        self._reader: asyncio.Future[None] | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._reading_paused = False
        self._writing_paused = False
        self._lost: ConnectionLost | None = None
        self._peer = self._local = "?"

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass, they only behave so
        self._transport = transport
        self._peer = _address(transport.get_extra_info("peername"))
        self._local = _address(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=_UNSENT_LIMIT_BYTES)
        if self._connected is not None:
            self._connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        unread = self._end - self._start
        if not unread:
            self._start = self._end = 0
        # Room grows with what arrives, not with what a size in front of it promises.
        need = max(min(self._wanted - unread, max(unread, _UNREAD_LIMIT_BYTES)), _LEAST_READ_BYTES)
        if len(self._buffer) - self._end < need:
            self._make_room(unread, need)
        return memoryview(self._buffer)[self._end :]

    def _make_room(self, unread: int, need: int) -> None:
        """Nobody looks at the buffer but the transport, and that only until it says :meth:`buffer_updated`."""
        view = memoryview(self._buffer)
        rest = view[self._start : self._end]
        if len(self._buffer) >= unread + need:
            view[:unread] = rest  # moved down: a new buffer would have to be zeroed first
        else:
            fresh = bytearray(max(2 * len(self._buffer), unread + need))
            fresh[:unread] = rest
            self._buffer = fresh
        self._start, self._end = 0, unread

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        unread = self._end - self._start
        if self._wanted:
            if unread >= self._wanted:
                self._wake_reader()
        elif unread >= _UNREAD_LIMIT_BYTES and not self._reading_paused:
            assert self._transport is not None
            self._transport.pause_reading()
            self._reading_paused = True

    def eof_received(self) -> None:
        """The transport closes itself; nobody here speaks to a peer that has hung up."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost is None:
            self._lost = ConnectionLost(f"{self._peer} hung up" if exc is None else f"{self._peer}: {exc}")
        self._wake_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        for waiter in self._drained:
            if not waiter.done():
                waiter.set_result(None)
        self._drained.clear()

    # What a broker calls.

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def local(self) -> str:
        return self._local

    async def read_exactly(self, n: int) -> bytes:
        while self._end - self._start < n:
            if self._lost is not None:
                raise ConnectionLost(*self._lost.args)
            assert self._reader is None, "one reader at a time"
            self._wanted = n
            self._reader = self._loop.create_future()
            if self._reading_paused:
                self._resume_reading()
            try:
                await self._reader
            finally:
                self._wanted = 0
                self._reader = None
        start = self._start
        data = bytes(memoryview(self._buffer)[start : start + n])
        self._start = start + n
        if self._reading_paused and self._end - self._start < _UNREAD_LIMIT_BYTES // 2:
            self._resume_reading()
        if self._start == self._end and len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._buffer = bytearray(_FIRST_BUFFER_BYTES)  # one huge request must not keep its memory for good
            self._start = self._end = 0
        return data

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _resume_reading(self) -> None:
        self._reading_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, *buffers: Buffer) -> None:
        transport = self._transport
        if self._lost is not None or transport is None or transport.is_closing():
            raise ConnectionLost(*(self._lost.args if self._lost else (f"{self._peer} is closed",)))
        # uvloop keeps what it is given until the end of this turn: what may change is copied.
        if len(buffers) == 1:
            transport.write(_unchanging(buffers[0]))
        else:
            transport.writelines([_unchanging(each) for each in buffers])

    async def drain(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(*self._lost.args)
        if self._writing_paused:
            waiter = self._loop.create_future()
            self._drained.append(waiter)
            await waiter
            if self._lost is not None:
                raise ConnectionLost(*self._lost.args)

    def close(self) -> None:
        if self._lost is None:
            self._lost = ConnectionLost(f"{self._peer} is closed")
            self._end = self._start
            self._wake_reader()
            self.resume_writing()
        if self._transport is not None:
            self._transport.close()


class RealListener:
    """See :class:`system_under_test.world.Listener`."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: RealConnection(self._accept), host or None, port, backlog=1024
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(errno.EADDRINUSE, f"something listens at {host}:{port} already") from None
            raise
        self._port = self._server.sockets[0].getsockname()[1]

    def _accept(self, connection: RealConnection) -> None:
        task = asyncio.get_running_loop().create_task(self._serve_one(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_one(self, connection: RealConnection) -> None:
        try:
            await self._serve(connection)
        except ConnectionLost:
            pass
        finally:
            connection.close()

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class RealNetwork:
    """See :class:`system_under_test.world.Network`."""

    async def connect(self, host: str, port: int) -> RealConnection:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(RealConnection, host, port)
        except TimeoutError:
            raise ConnectionLost(f"{host}:{port} does not answer") from None
        except OSError as error:
            raise ConnectionLost(f"{host}:{port}: {error}") from None
        return connection

    async def listen(self, host: str, port: int, serve: Serve) -> RealListener:
        listener = RealListener(serve)
        await listener.start(host, port)
        return listener


def _unchanging(buffer: Buffer) -> Buffer:
    if type(buffer) is bytes or (type(buffer) is memoryview and type(buffer.obj) is bytes):
        return buffer
    return bytes(buffer)


def _address(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
