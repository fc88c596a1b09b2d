"""What all workloads share: the keys, the numbers, the clock, the rate, and how a logical client looks.

A logical client does one thing after another; :meth:`LogicalClient.step` is one of them. A worker runs
each in a thread of its own. What they share (:class:`Context`) is safe for that.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final, Protocol

from harness.clients.base import Library, Patience, TopicPartition
from harness.plan import Plan
from histories.journal import JournalWriter

PROCESSES_PER_WORKER: Final = 1_000_000
_VALUE_BITS: Final = 32
_SLOT_BITS: Final = 12


@dataclass(frozen=True)
class Key:
    """One partition that the workload may use; ``key`` is its number in ``meta.json``."""

    key: int
    topic: str
    partition: int

    @cached_property
    def address(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass
class Tally:
    """Counters of one logical client; written by its thread only."""

    acknowledged: int = 0
    polled: int = 0
    failed: int = 0
    unknown: int = 0
    retries: int = 0
    """Records that clients sent again, at least; those of aiokafka are not observable."""
    operations: int = 0


class KeySpace:
    """The keys of the run, topic by topic, and which topic is written now.

    With ``writes_per_key`` a worker leaves a topic after its share of the sends; the last topic stays.
    """

    def __init__(self, keys: Sequence[Key], writes_per_key: int, workers: int) -> None:
        self._topics = [tuple(each) for _, each in groupby(keys, key=lambda key: key.topic)]
        if not self._topics:
            raise ValueError("a workload needs at least one key")
        self.by_partition = {key.address: key for key in keys}
        self._share = writes_per_key / workers
        self._current = 0
        self._sent = 0
        self._lock = threading.Lock()

    def writable(self) -> tuple[Key, ...]:
        return self._topics[self._current]

    def readable(self) -> tuple[Key, ...]:
        """Everything that was ever written."""
        return tuple(key for topic in self._topics[: self._current + 1] for key in topic)

    def sent(self, count: int) -> None:
        if not self._share:
            return
        with self._lock:
            self._sent += count
            quota = self._share * len(self._topics[self._current])
            if self._sent >= quota and self._current + 1 < len(self._topics):
                self._current += 1
                self._sent = 0


class TokenBucket:
    """Paces all producers of a worker together. Time lost in an outage is made up for one second at most."""

    def __init__(self, rate: float, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._cost_ns = 1e9 / rate if rate else 0.0
        self._clock = clock
        self._next_ns = float(clock())
        self._lock = threading.Lock()

    def reserve(self, count: int) -> float:
        """Take so many tokens; returns how many seconds to wait before using them."""
        if not self._cost_ns:
            return 0.0
        with self._lock:
            now = self._clock()
            begin = max(self._next_ns, now - 1e9)
            self._next_ns = begin + count * self._cost_ns
        return max(0.0, (begin - now) / 1e9)


@dataclass
class Context:
    """What the logical clients of one worker share."""

    run_id: str
    worker: int
    plan: Plan
    journal: JournalWriter
    keys: KeySpace
    patience: Patience
    bucket: TokenBucket
    libraries: Sequence[Library]
    """In the order of :func:`harness.clients.registry.libraries_of`."""
    started_ns: int
    clock: Callable[[], int] = time.monotonic_ns
    _processes: itertools.count[int] = field(default_factory=itertools.count)

    def now_ns(self) -> int:
        """Since the start of the run."""
        return self.clock() - self.started_ns

    def new_process(self) -> int:
        number = next(self._processes)
        if number >= PROCESSES_PER_WORKER:
            raise RuntimeError(f"worker {self.worker} used up its {PROCESSES_PER_WORKER} process ids")
        return self.worker * PROCESSES_PER_WORKER + number

    def values(self, slot: int) -> itertools.count[int]:
        """Values that no other logical client of the run uses."""
        return itertools.count((((self.worker + 1) << _SLOT_BITS) + slot) << _VALUE_BITS)

    def random(self, name: str) -> random.Random:
        """A source of its own for each name; strings seed by their content, in every process alike."""
        return random.Random(f"{self.plan.seed}/{self.worker}/{name}")


class LogicalClient(Protocol):
    tally: Tally

    def step(self) -> bool:
        """Do one thing. False: this client is done for good."""

    def close(self) -> None:
        """Let go of the client object."""


class CrashClock:
    """When a logical client crashes next: exponential, with the plan's mean."""

    def __init__(self, mean_s: float, rng: random.Random, clock: Callable[[], int]) -> None:
        self._mean_s = mean_s
        self._rng = rng
        self._clock = clock
        self._due_ns = self._draw()

    def _draw(self) -> float:
        if not self._mean_s:
            return float("inf")
        return self._clock() + self._rng.expovariate(1 / self._mean_s) * 1e9

    def due(self) -> bool:
        """Whether a crash is due; drawing the next one if so."""
        if self._clock() < self._due_ns:
            return False
        self._due_ns = self._draw()
        return True
