"""Simulated hosts, and the world as one node on one of them sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from system_under_test.simulation.coordination import SimulatedCoordination
from system_under_test.simulation.files import Disk, SimulatedFiles
from system_under_test.simulation.links import Links
from system_under_test.simulation.loop import Node, SimulatedLoop, make_loop
from system_under_test.simulation.network import SimulatedNetwork, Switchboard
from system_under_test.simulation.trace import Trace
from system_under_test.simulation.zookeeper import ZooKeeper

T = TypeVar("T")

_EPOCH_MS = 1_700_000_000_000
"""A day in 2023: when every simulation begins."""


class SimulatedClock:
    def __init__(self, loop: SimulatedLoop, host: Host) -> None:
        self._loop = loop
        self._host = host

    def monotonic(self) -> float:
        return self._loop.time()

    def time_ms(self) -> int:
        return _EPOCH_MS + int(self._loop.time() * 1000) + self._host.clock_offset_ms


class SimulatedWorld:
    """See :class:`system_under_test.world.World`. Made anew for each life of a node."""

    def __init__(self, simulation: Simulation, host: Host, node: Node, random: Random) -> None:
        self._simulation = simulation
        self._host = host
        self.node = node
        self.clock = SimulatedClock(simulation.loop, host)
        self.network = SimulatedNetwork(simulation.board, node, host.name)
        self.files = SimulatedFiles(host.disk, node)
        self.random = random

    async def coordination(self, session_timeout_ms: int) -> SimulatedCoordination:
        chance = Random(self.random.random())
        return await SimulatedCoordination.open(
            self._simulation.zookeeper, self.node, self._host.name, session_timeout_ms / 1000, chance
        )


class Host:
    """A machine with a disk and a clock of its own. One node at a time runs on it."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self.name = name
        self.disk = Disk(name, simulation.fork(f"disk of {name}"), simulation.trace)
        self.clock_offset_ms = 0
        self.lives = 0
        self.node: Node | None = None
        self.before_death: Callable[[], None] | None = None
        """Called when its node is about to die: the last chance to look at it."""

    @property
    def alive(self) -> bool:
        return self.node is not None and self.node.alive

    def boot(self) -> SimulatedWorld:
        """A new node, and its world."""
        assert not self.alive, f"{self.name} is running"
        simulation = self._simulation
        self.lives += 1
        simulation.links.power_on(self.name)
        self.node = Node(simulation.loop, self.name)
        simulation.trace.add(self.name, "boot", self.lives)
        return SimulatedWorld(simulation, self, self.node, simulation.fork(f"{self.name} in its life {self.lives}"))

    def boot_again(self) -> SimulatedWorld:
        """Kill what runs and start anew."""
        self.kill()
        return self.boot()

    def kill(self) -> None:
        """As kill -9: what was written stays, the kernel resets its connections."""
        if self._die("killed"):
            assert self.node is not None
            self._simulation.board.node_died(self.node, with_its_machine=False)
            self._simulation.zookeeper.client_died(self.node, with_its_machine=False)

    def lose_power(self) -> None:
        """What was not synced is gone; nobody is told."""
        if self._die("loses power"):
            assert self.node is not None
            self._simulation.links.power_off(self.name)
            self._simulation.board.node_died(self.node, with_its_machine=True)
            self._simulation.zookeeper.client_died(self.node, with_its_machine=True)
        self.disk.lose_power()

    def _die(self, how: str) -> bool:
        if not self.alive:
            return False
        assert self.node is not None
        self._simulation.trace.add(self.name, how)
        if self.before_death is not None:
            self.before_death()
        self.node.kill()
        return True

    def pause(self) -> None:
        if self.alive:
            assert self.node is not None
            self._simulation.trace.add(self.name, "paused")
            self.node.pause()

    def resume(self) -> None:
        if self.alive:
            assert self.node is not None
            self._simulation.trace.add(self.name, "resumed")
            self.node.resume()


class Simulation:
    """One universe: a loop, a network, a ZooKeeper, hosts. Equal seeds, equal histories."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = make_loop()
        self.trace = Trace(self.loop.time)
        self.links = Links(self.loop, self.fork("links"))
        self.board = Switchboard(self.links, self.trace)
        self.zookeeper = ZooKeeper(self.links, self.trace, self._time_ms)
        self.hosts: dict[str, Host] = {}

    def fork(self, name: str) -> Random:
        """A source of chance of its own, so that one more draw here changes nothing there."""
        return Random(f"{self.seed}/{name}")

    def _time_ms(self) -> int:
        return _EPOCH_MS + int(self.loop.time() * 1000)

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(self, name)
        return self.hosts[name]

    def cut(self, source: str, target: str, *, both: bool = True) -> None:
        self.trace.add(source, "cut from" if both else "cut to", target)
        self.links.cut(source, target)
        if both:
            self.links.cut(target, source)

    def heal(self, source: str, target: str, *, both: bool = True) -> None:
        self.trace.add(source, "healed with" if both else "healed to", target)
        self.links.heal(source, target)
        if both:
            self.links.heal(target, source)

    def run(self, main: Coroutine[Any, Any, T], within_s: float = 3600.0) -> T:
        return self.loop.run(main, within_s)

    def close(self) -> None:
        for host in self.hosts.values():
            if host.node is not None:
                host.node.kill()
        self.loop.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def until(condition: Callable[[], bool], within_s: float, what: str, every_s: float = 0.01) -> None:
    """Wait for a condition, in virtual time; AssertionError when it does not come true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(every_s)
