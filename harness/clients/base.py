"""What workloads need of a Kafka client, as small as it can be.

Each library has one module that implements it (:mod:`harness.clients.librdkafka`,
:mod:`harness.clients.aiokafka_client`); :mod:`harness.clients.registry` names them.

Bursts and batches are parallel lists, not lists of objects: they are made for every record of a run.
All times are of ``time.monotonic_ns``; the caller makes them relative to the start of the run.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from histories.schema import Isolation, Outcome

TopicPartition = tuple[str, int]
ALL: Final = -1
"""acks=all."""


class ClientError(Exception):
    """The client could not do it now (no answer, no leader). The message is the error's code."""


@dataclass(frozen=True)
class ProducerConfig:
    acks: int
    idempotence: bool
    retries: int
    max_in_flight: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    linger_ms: int


@dataclass(slots=True)
class Burst:
    """What became of a burst, one element per record in the order of the sends."""

    statuses: list[Outcome]
    offsets: list[int | None]
    """As acknowledged."""
    invoke_ns: array[int] | list[int]
    complete_ns: array[int] | list[int | None]
    """When the client reported the outcome; None: it had not, when patience ended. (An array has no None.)"""
    errors: dict[int, str] = field(default_factory=dict)
    """Error codes, by position."""
    usable: bool = True
    """False: this producer will not take another record."""

    @property
    def all_ok(self) -> bool:
        """Nearly every burst is: its statuses need not be looked at one by one."""
        return self.statuses.count(Outcome.OK) == len(self.statuses)

    @property
    def all_reported(self) -> bool:
        return isinstance(self.complete_ns, array) or None not in self.complete_ns


@dataclass(slots=True)
class Batch:
    """What a poll returned: parallel lists of records, and the error that ended it."""

    sources: list[TopicPartition] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    payloads: list[bytes | None] = field(default_factory=list)
    error: str | None = None
    out_of_range: list[TopicPartition] = field(default_factory=list)
    """Partitions whose position the broker does not have: they need a reset."""


class Patience:
    """How long to wait for outcomes. A worker that is told to stop has ``grace_s`` left for all it does."""

    def __init__(self, grace_s: float = 3.0, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._grace_ns = int(grace_s * 1e9)
        self._end_ns: int | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        if self._end_ns is None:
            self._end_ns = self._clock() + self._grace_ns
        self._stopped.set()

    def wait(self, seconds: float) -> None:
        """Idle for so long, or until stopped."""
        self._stopped.wait(seconds)

    @property
    def stopped(self) -> bool:
        return self._end_ns is not None

    def until(self, timeout_s: float) -> Callable[[], float]:
        """A function that returns the seconds left of ``timeout_s`` from now, cut short by ``stop``."""
        own_end = self._clock() + int(timeout_s * 1e9)

        def left_s() -> float:
            end = own_end if self._end_ns is None else min(own_end, self._end_ns)
            return (end - self._clock()) / 1e9

        return left_s


class Producer(Protocol):
    def send_burst(
        self,
        targets: Sequence[TopicPartition],
        payloads: Sequence[bytes],
        left_s: Callable[[], float],
        meanwhile: Callable[[], None] | None = None,
    ) -> Burst:
        """Hand all records to the client, pipelined, and wait for their outcomes while ``left_s`` is
        positive; ``meanwhile`` is called once, when the last one is on its way. Never raises for what
        happens to a record."""

    def retries(self) -> int | None:
        """Records that were sent again so far, at least; None: the client does not say."""

    def abandon(self) -> None:
        """Close without notice: what is queued is dropped, nothing is waited for."""


class Consumer(Protocol):
    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions from exactly these offsets on, whatever was read before."""

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        """Records that are there, after waiting for the first one. Never raises for a failed fetch."""

    def watermarks(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
        """Log start and the end that this consumer's isolation may read up to (high watermark, or last
        stable offset). Raises ClientError."""

    def abandon(self) -> None:
        """Close without notice."""


class Library(Protocol):
    """A client library, set up for one cluster."""

    def producer(self, config: ProducerConfig, client_id: str) -> Producer:
        """A new producer. Raises ClientError where the library connects at once and cannot."""

    def consumer(self, isolation: Isolation, client_id: str) -> Consumer:
        """A new consumer without a group. Raises ClientError like ``producer``."""

    def close(self) -> None:
        """Release what the clients shared."""
