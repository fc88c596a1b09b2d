"""One client's connection: frames in, answers out, in order.

Kafka handles one request of a connection at a time. So do we, with one difference that clients cannot see but
for its speed: where a handler promises its answer (an acks=all produce that waits for followers), the next request is
taken up meanwhile. What a handler does before it returns happens strictly in the order of arrival, and answers leave
in that order too.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from typing import TYPE_CHECKING

from system_under_test.failpoints import Dropped
from system_under_test.protocol.errors import MalformedRequest
from system_under_test.protocol.messages import Answer, ConnectionInfo, encode_response
from system_under_test.server.dispatch import Dispatched, dispatch
from system_under_test.world import Connection, ConnectionLost

if TYPE_CHECKING:
    from system_under_test.server.context import BrokerContext

log = logging.getLogger(__name__)
_SIZE = struct.Struct(">i")
IN_FLIGHT = 100
"""Unanswered requests of one connection; then it is not read any further."""


class ClientConnection:
    def __init__(self, broker: BrokerContext, connection: Connection, listener: str) -> None:
        self._broker = broker
        self._connection = connection
        self._info = ConnectionInfo(connection.peer, listener)
        self._waiting: deque[tuple[Dispatched, asyncio.Future[Answer] | None]] = deque()
        self._room = asyncio.Event()
        self._closed = False

    async def serve(self) -> None:
        """Until the other side is gone or sends what is no request."""
        try:
            while not self._closed:
                frame = await self._frame()
                self._answer(await dispatch(self._broker, frame, self._info))
                await self._connection.drain()
                while len(self._waiting) >= IN_FLIGHT:
                    self._room.clear()
                    await self._room.wait()
        except ConnectionLost:
            pass
        except MalformedRequest as error:
            log.warning("closing %s: %s", self._info.peer, error)
        except Dropped:
            log.warning("closing %s: a failpoint dropped its request", self._info.peer)
        finally:
            self.close()

    def close(self) -> None:
        self._closed = True
        self._room.set()
        for _, promise in self._waiting:
            if promise is not None:
                promise.cancel()
        self._waiting.clear()
        self._connection.close()

    async def _frame(self) -> bytes:
        (size,) = _SIZE.unpack(await self._connection.read_exactly(4))
        largest = self._broker.config.socket_request_max_bytes
        if not 8 <= size <= largest:
            raise MalformedRequest(f"a request of {size} bytes; allowed are 8 to {largest} (socket.request.max.bytes)")
        return await self._connection.read_exactly(size)

    def _answer(self, dispatched: Dispatched) -> None:
        reply = dispatched.reply
        if isinstance(reply, asyncio.Future):
            self._waiting.append((dispatched, reply))
            reply.add_done_callback(lambda _: self._flush())
        elif reply is not None:
            if self._waiting:
                self._waiting.append((dispatched, None))
            else:
                self._write(dispatched, reply)

    def _flush(self) -> None:
        """Write the answers that are due, up to the first that is still awaited."""
        while self._waiting and not self._closed:
            dispatched, promise = self._waiting[0]
            if promise is None:
                answer = dispatched.reply
            elif not promise.done():
                return
            elif promise.cancelled() or promise.exception() is not None:
                self._failed(dispatched, promise)
                return
            else:
                answer = promise.result()
            self._waiting.popleft()
            self._room.set()
            self._write(dispatched, answer)

    def _failed(self, dispatched: Dispatched, promise: asyncio.Future[Answer]) -> None:
        if not promise.cancelled() and not isinstance(promise.exception(), Dropped):
            log.error("%s failed", dispatched.api.name, exc_info=promise.exception())
        self.close()

    def _write(self, dispatched: Dispatched, answer: Answer) -> None:
        try:
            self._connection.write(
                *encode_response(dispatched.api, dispatched.version, dispatched.correlation_id, answer)
            )
        except ConnectionLost:
            self.close()
