"""What a broker may rely on of the network, asked of asyncio, of uvloop and of the simulation."""

from __future__ import annotations

import asyncio

import pytest

from system_under_test.world import AddressInUse, Connection, ConnectionLost, World
from tests.system_under_test.worlds.arena import Arena, eventually


async def _pair(arena: Arena) -> tuple[Connection, Connection, asyncio.Event]:
    """A client's end, a server's end, and the event that lets ``serve`` return."""
    server, client = await arena.world("server"), await arena.world("client")
    accepted: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def serve(connection: Connection) -> None:
        accepted.set_result(connection)
        await leave.wait()

    listener = await server.network.listen(arena.host("server"), 0, serve)
    near = await client.network.connect(arena.host("server"), listener.port)
    far = await accepted
    listener.close()
    return near, far, leave


def test_bytes_arrive_in_order_whatever_the_pieces(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        assert (near.peer, near.local) == (far.local, far.peer)
        changing = bytearray(b"abc")
        near.write(changing, b"", memoryview(b"defg"))
        changing[:] = b"XYZ"
        near.write(b"h")
        assert await far.read_exactly(2) == b"ab"
        assert await far.read_exactly(0) == b""
        assert await far.read_exactly(6) == b"cdefgh"
        waiting = asyncio.create_task(far.read_exactly(3))
        for piece in (b"1", b"2", b"3"):
            near.write(piece)
            await asyncio.sleep(0.01)
        assert await waiting == b"123"
        far.write(b"back")
        assert await near.read_exactly(4) == b"back"

    plain_arena.run(scenario)


def test_many_bytes_both_ways_at_once(plain_arena: Arena) -> None:
    size = 20_000_000

    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        blocks = [bytes([number % 251]) * 100_003 for number in range(size // 100_003)]

        async def send(connection: Connection) -> None:
            for block in blocks:
                connection.write(b"head", block)
                await connection.drain()

        async def receive(connection: Connection) -> None:
            for block in blocks:
                assert await connection.read_exactly(4) == b"head"
                assert await connection.read_exactly(len(block)) == block

        await asyncio.gather(send(near), send(far), receive(near), receive(far))

    plain_arena.run(scenario)


def test_one_large_frame(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        frame = bytes(range(256)) * 20_000
        near.write(frame)
        assert await far.read_exactly(len(frame)) == frame

    plain_arena.run(scenario)


def test_a_writer_waits_for_a_reader_that_does_not_read(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                near.write(bytes(1 << 20))
                sent += 1
                await near.drain()

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0.5)
        stopped_at = sent
        await asyncio.sleep(0.3)
        assert sent == stopped_at < 100, "nothing holds the writer back"
        await far.read_exactly(stopped_at << 20)
        await eventually(lambda: sent > stopped_at, "the writer goes on")
        far.close()
        with pytest.raises(ConnectionLost):
            await flooding

    plain_arena.run(scenario)


def test_what_came_before_the_end_is_still_read(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        near.write(b"last words")
        near.close()
        near.close()
        assert await far.read_exactly(4) == b"last"
        assert await far.read_exactly(6) == b" words"
        with pytest.raises(ConnectionLost):
            await far.read_exactly(1)
        with pytest.raises(ConnectionLost):
            far.write(b"anybody?")
        with pytest.raises(ConnectionLost):
            await far.drain()
        far.close()

    plain_arena.run(scenario)


def test_a_closed_end_refuses_everything(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, _, _ = await _pair(arena)
        waiting = asyncio.create_task(near.read_exactly(1))
        await asyncio.sleep(0.01)
        near.close()
        for operation in (waiting, near.read_exactly(1), near.drain()):
            with pytest.raises(ConnectionLost):
                await operation
        with pytest.raises(ConnectionLost):
            near.write(b"x")

    plain_arena.run(scenario)


def test_the_connection_closes_when_serve_returns(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, _, leave = await _pair(arena)
        leave.set()
        with pytest.raises(ConnectionLost):
            await near.read_exactly(1)

    plain_arena.run(scenario)


def test_a_read_that_is_cancelled_takes_nothing(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        near, far, _ = await _pair(arena)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await far.read_exactly(4)
        near.write(b"abcd")
        assert await far.read_exactly(4) == b"abcd"

    plain_arena.run(scenario)


def test_addresses(plain_arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        world: World = await arena.world("server")

        async def serve(connection: Connection) -> None:
            connection.write(b"hello")

        host = arena.host("server")
        listener = await world.network.listen(host, 0, serve)
        with pytest.raises(AddressInUse):
            await world.network.listen(host, listener.port, serve)
        connection = await world.network.connect(host, listener.port)
        assert await connection.read_exactly(5) == b"hello"
        listener.close()
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLost):
            await world.network.connect(host, listener.port)
        (await world.network.listen(host, listener.port, serve)).close()

    plain_arena.run(scenario)
