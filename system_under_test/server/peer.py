"""Connections to other brokers: requests out, answers matched by their order."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable

from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import MalformedRequest
from system_under_test.protocol.messages import (
    Body,
    RawRequest,
    correlation_id_of,
    decode_response,
    encode_request,
)
from system_under_test.types import BrokerEndpoint
from system_under_test.world import Connection, ConnectionLost, Network

_SIZE = struct.Struct(">i")
MAX_ANSWER_BYTES = 256 * 1024 * 1024

Resolve = Callable[[int], BrokerEndpoint | None]


class Peer:
    """One broker, by one connection that is made when it is needed. Requests may be pipelined; a time-out or a lost
    connection fails all that are under way, as nobody can tell any more which answer belongs to which."""

    def __init__(self, network: Network, broker_id: int, resolve: Resolve, client_id: str) -> None:
        self.broker_id = broker_id
        self._network = network
        self._resolve = resolve
        self._client_id = client_id
        self._connection: Connection | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._awaited: deque[tuple[int, ApiKey, int, asyncio.Future[Body]]] = deque()
        self._next_id = 0
        self._endpoint: BrokerEndpoint | None = None

    async def request(self, api: ApiKey, version: int, body: Body | RawRequest, timeout_s: float) -> Body:
        """Raises ConnectionLost, or TimeoutError after closing the connection."""
        connection = self._usable()
        if connection is None:
            try:
                async with asyncio.timeout(timeout_s):
                    connection = await self._connected()
            except TimeoutError:
                self.close()
                raise
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Body] = loop.create_future()
        number, self._next_id = self._next_id, (self._next_id + 1) & 0x7FFFFFFF
        self._awaited.append((number, api, version, answer))
        # A timer of our own: asyncio.timeout costs as much as writing the request.
        timer = loop.call_later(timeout_s, self._expire, answer)
        try:
            connection.write(*encode_request(api, version, number, self._client_id, body))
            await connection.drain()
            return await answer
        finally:
            timer.cancel()

    def _expire(self, answer: asyncio.Future[Body]) -> None:
        if not answer.done():
            answer.set_exception(TimeoutError())
            answer.exception()  # whoever waited may be gone: nobody has to look
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        if connection is not None:
            connection.close()
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        awaited, self._awaited = self._awaited, deque()
        for _, _, _, answer in awaited:
            if not answer.done():
                answer.set_exception(ConnectionLost(f"connection to broker {self.broker_id} is closed"))
                answer.exception()  # whoever waited may be gone: nobody has to look

    def _usable(self) -> Connection | None:
        """The connection, if it is there and leads where the broker is now."""
        if self._connection is None or self._resolve(self.broker_id) != self._endpoint:
            return None
        return self._connection

    async def _connected(self) -> Connection:
        async with self._connecting:
            endpoint = self._resolve(self.broker_id)
            if endpoint is None:
                raise ConnectionLost(f"nobody knows where broker {self.broker_id} is")
            if self._connection is not None and endpoint != self._endpoint:
                self.close()  # it came back at another address
            if self._connection is None:
                connection = await self._network.connect(endpoint.host, endpoint.port)
                self._connection, self._endpoint = connection, endpoint
                self._reader = asyncio.get_running_loop().create_task(self._read(connection))
            return self._connection

    async def _read(self, connection: Connection) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await connection.read_exactly(4))
                if not 4 <= size <= MAX_ANSWER_BYTES:
                    raise MalformedRequest(f"an answer of {size} bytes")
                frame = await connection.read_exactly(size)
                if not self._awaited or correlation_id_of(frame) != self._awaited[0][0]:
                    raise MalformedRequest("an answer that nobody asked for")
                _, api, version, answer = self._awaited.popleft()
                body = decode_response(api, version, frame)
                if not answer.done():
                    answer.set_result(body)
        except (ConnectionLost, MalformedRequest):
            if self._connection is connection:
                self.close()


class Peers:
    """One :class:`Peer` per broker. Each user (controller, fetchers) has its own, so that none waits for the other."""

    def __init__(self, network: Network, resolve: Resolve, client_id: str) -> None:
        self._network = network
        self._resolve = resolve
        self._client_id = client_id
        self._peers: dict[int, Peer] = {}

    def get(self, broker_id: int) -> Peer:
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = Peer(self._network, broker_id, self._resolve, self._client_id)
        return peer

    def forget(self, broker_id: int) -> None:
        peer = self._peers.pop(broker_id, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        for broker_id in sorted(self._peers):
            self.forget(broker_id)
