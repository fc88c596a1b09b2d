"""Simulated brokers that live across many cases, and connections to them that are bytes only."""

from __future__ import annotations

import asyncio
import logging
import struct
from dataclasses import dataclass

from system_under_test.simulation.cluster import PORT
from system_under_test.simulation.world import Simulation
from system_under_test.world import ConnectionLost
from tests.system_under_test.apis.cluster import Brokers

_CASES_PER_LIFE = 250
"""Then the cluster is made anew: a request may well have made a mess of its topics, as it may with Kafka's."""
_PATIENCE_S = 40.0
_SENTINEL = 0x5E471E1
SENTINEL = struct.pack(">ihhi", 10, 18, 0, _SENTINEL) + b"\xff\xff"
"""ApiVersions 0, which any broker that still reads this connection answers."""


@dataclass(frozen=True)
class Said:
    answers: list[bytes]
    """Without their sizes."""
    goes_on: bool | None
    """Whether a next request is answered; None: nothing happens, neither an answer nor an end."""


class Complaints(logging.Handler):
    """Exceptions that got into the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name == "asyncio":
            self.found.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


class Universe:
    def __init__(self, topic: str, partitions: int, brokers: int = 3) -> None:
        self._count = brokers
        self._topic = topic
        self._partitions = partitions
        self._simulation: Simulation | None = None
        self._brokers: Brokers | None = None
        self._cases = 0
        self._lives = 0
        self._complaints = Complaints()

    def __enter__(self) -> Universe:
        logging.getLogger().addHandler(self._complaints)
        # Each case is refused with a line: thousands of them say nothing.
        logging.getLogger("system_under_test").setLevel(logging.ERROR)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._complaints)
        logging.getLogger("system_under_test").setLevel(logging.NOTSET)
        if self._simulation is not None:
            self._simulation.close()

    def _ready(self) -> tuple[Simulation, Brokers]:
        if self._simulation is None or self._brokers is None or self._cases >= _CASES_PER_LIFE:
            if self._simulation is not None:
                self._simulation.close()
            self._cases, self._lives = 0, self._lives + 1
            self._simulation = Simulation(self._lives)
            self._brokers = Brokers(self._simulation, {}, self._count)
            self._simulation.run(self._begin(self._brokers), 120)
        self._cases += 1
        return self._simulation, self._brokers

    async def _begin(self, brokers: Brokers) -> None:
        await brokers.started()
        await brokers.create(self._topic, self._partitions, self._count)

    def say(self, data: bytes, broker_id: int = 1) -> Said:
        """On a connection of its own. Afterwards the broker serves the next client, and nothing of it has died."""
        simulation, brokers = self._ready()
        said = simulation.run(self._say(brokers, data, broker_id), 2 * _PATIENCE_S)
        after = simulation.run(self._say(brokers, b"", broker_id), 2 * _PATIENCE_S)
        died, logged = list(simulation.loop.failures), list(self._complaints.found)
        simulation.loop.failures.clear()
        self._complaints.found.clear()
        if after != Said([], True):
            self._cases = _CASES_PER_LIFE
        assert after == Said([], True), "the next client is not served"
        assert not died, died
        assert not logged, logged
        return said

    async def _say(self, brokers: Brokers, data: bytes, broker_id: int) -> Said:
        connection = await brokers.network.connect(f"broker-{broker_id}", PORT)
        answers: list[bytes] = []
        try:
            connection.write(data + SENTINEL)
            async with asyncio.timeout(_PATIENCE_S):
                while True:
                    answer = await connection.read_exactly(int.from_bytes(await connection.read_exactly(4), "big"))
                    if answer[:4] == SENTINEL[8:12]:
                        return Said(answers, True)
                    answers.append(answer)
        except ConnectionLost:
            return Said(answers, False)
        except TimeoutError:
            return Said(answers, None)
        finally:
            connection.close()
