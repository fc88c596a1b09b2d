"""A connection whose other side is the test."""

from __future__ import annotations

import asyncio

from system_under_test.world import Buffer, ConnectionLost


class FakeConnection:
    peer = "test:1"
    local = "test:2"

    def __init__(self) -> None:
        self._incoming = bytearray()
        self._arrived = asyncio.Event()
        self._ended = False
        self.written = bytearray()
        self.closed = False

    def feed(self, data: bytes) -> None:
        self._incoming += data
        self._arrived.set()

    def end(self) -> None:
        self._ended = True
        self._arrived.set()

    async def read_exactly(self, n: int) -> bytes:
        while len(self._incoming) < n:
            if self._ended or self.closed:
                raise ConnectionLost
            self._arrived.clear()
            await self._arrived.wait()
        taken = bytes(self._incoming[:n])
        del self._incoming[:n]
        return taken

    def write(self, *buffers: Buffer) -> None:
        if self.closed:
            raise ConnectionLost
        for each in buffers:
            self.written += each

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self.closed = True
        self._arrived.set()

    def frames(self) -> list[bytes]:
        """What was written, without the sizes."""
        found, position = [], 0
        while position < len(self.written):
            size = int.from_bytes(self.written[position : position + 4], "big")
            found.append(bytes(self.written[position + 4 : position + 4 + size]))
            position += 4 + size
        return found
