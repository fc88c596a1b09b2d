"""A :class:`~system_under_test.world.World` made of the machine that it runs on."""

from __future__ import annotations

import time
from random import Random

from system_under_test.realworld.coordination import KazooCoordination
from system_under_test.realworld.files import RealFiles
from system_under_test.realworld.network import RealNetwork


class RealClock:
    """asyncio's and uvloop's loops both tell ``time.monotonic``, up to the grain of their ticks."""

    def monotonic(self) -> float:
        return time.monotonic()  # finding the running loop costs a system call

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000


class RealWorld:
    """``zookeeper_hosts`` is Kafka's ``zookeeper.connect``: ``host:port,host:port/chroot``."""

    def __init__(self, zookeeper_hosts: str, seed: int) -> None:
        self._zookeeper_hosts = zookeeper_hosts
        self.clock = RealClock()
        self.network = RealNetwork()
        self.files = RealFiles()
        self.random = Random(seed)

    async def coordination(self, session_timeout_ms: int) -> KazooCoordination:
        return await KazooCoordination.open(self._zookeeper_hosts, session_timeout_ms)
