"""The two worlds behind one set of handles, so that one suite asks both the same questions."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop
from kazoo.client import KazooClient

from system_under_test.realworld import RealWorld
from system_under_test.realworld.coordination import KazooCoordination
from system_under_test.simulation.world import Simulation
from system_under_test.simulation.zookeeper import HOST
from system_under_test.world import Coordination, World

SESSION_TIMEOUT_MS = 1000
"""The shortest that a server with ticks of half a second grants."""


class Arena(ABC):
    """A scenario is a coroutine function that is given the arena; nodes are named by the scenario."""

    def run(self, scenario: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        self._run(self._with_deadline(scenario))

    async def _with_deadline(self, scenario: Callable[[Any], Awaitable[None]]) -> None:
        async with asyncio.timeout(60):
            try:
                await scenario(self)
            finally:
                await self.end()

    @abstractmethod
    def _run(self, main: Coroutine[Any, Any, None]) -> None: ...

    @abstractmethod
    async def world(self, name: str) -> World: ...

    @abstractmethod
    def host(self, name: str) -> str:
        """Where a node of this name listens."""

    @abstractmethod
    def folder(self) -> str:
        """An empty folder of the node ``disk``."""

    @abstractmethod
    async def cut(self, name: str) -> None:
        """Take ZooKeeper away from a node."""

    @abstractmethod
    async def heal(self, name: str) -> None: ...

    @abstractmethod
    async def expire(self, coordination: Coordination) -> None: ...

    @abstractmethod
    async def end(self) -> None:
        """Leave nothing running."""


class SimulatedArena(Arena):
    def __init__(self, seed: int) -> None:
        self._simulation = Simulation(seed)

    def _run(self, main: Coroutine[Any, Any, None]) -> None:
        with self._simulation:
            self._simulation.run(main)
            assert self._simulation.loop.failures == []

    async def world(self, name: str) -> World:
        return self._simulation.host(name).boot()

    def host(self, name: str) -> str:
        return name

    def folder(self) -> str:
        return "/"

    async def cut(self, name: str) -> None:
        self._simulation.cut(name, HOST)

    async def heal(self, name: str) -> None:
        self._simulation.heal(name, HOST)

    async def expire(self, coordination: Coordination) -> None:
        assert self._simulation.zookeeper.expire(coordination.session_id)

    async def end(self) -> None:
        pass


class RealArena(Arena):
    def __init__(self, zookeeper: str, folder: Path, use_uvloop: bool) -> None:
        self._zookeeper = zookeeper
        self._folder = folder
        self._use_uvloop = use_uvloop
        self._relays: dict[str, Relay] = {}
        self._sessions: list[KazooCoordination] = []

    def _run(self, main: Coroutine[Any, Any, None]) -> None:
        if self._use_uvloop:
            uvloop.run(main)
        else:
            asyncio.run(main)

    async def world(self, name: str) -> World:
        if not self._zookeeper:
            return RealWorld("127.0.0.1:1", seed=1)
        relay = self._relays[name] = Relay(self._zookeeper)
        await relay.start()
        return _Remembering(f"127.0.0.1:{relay.port}", self._sessions)

    def host(self, name: str) -> str:  # noqa: ARG002
        return "127.0.0.1"

    def folder(self) -> str:
        return str(self._folder)

    async def cut(self, name: str) -> None:
        self._relays[name].cut()

    async def heal(self, name: str) -> None:
        await self._relays[name].start()

    async def expire(self, coordination: Coordination) -> None:
        """The way of ZooKeeper's own tests: another connection takes the session over and closes it."""
        assert isinstance(coordination, KazooCoordination)
        session = coordination._session

        def take_over() -> None:
            other = KazooClient(self._zookeeper, client_id=(session._session_id, session._session_passwd))
            other.start(10)
            other.stop()
            other.close()

        await asyncio.to_thread(take_over)

    async def end(self) -> None:
        for session in self._sessions:
            await session.close()
        for relay in self._relays.values():
            relay.cut()


class _Remembering(RealWorld):
    def __init__(self, hosts: str, sessions: list[KazooCoordination]) -> None:
        super().__init__(hosts, seed=1)
        self._sessions = sessions

    async def coordination(self, session_timeout_ms: int) -> KazooCoordination:
        session = await super().coordination(session_timeout_ms)
        self._sessions.append(session)
        return session


class Relay:
    """Passes bytes on to a server until it is cut; then it hangs up and refuses."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, far_writer}
        back = asyncio.create_task(_pump(far_reader, writer))
        self._tasks.add(back)
        back.add_done_callback(self._tasks.discard)
        await _pump(reader, far_writer)
        await back


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


async def eventually(condition: Callable[[], bool], awaited: str, within_s: float = 20.0) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline, f"waited in vain: {awaited}"
        await asyncio.sleep(0.01)
