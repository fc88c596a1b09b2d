"""A client library in memory: a log per partition, and outcomes that a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness.clients.base import Batch, Burst, ClientError, Patience, ProducerConfig, TopicPartition
from harness.plan import ClientPlan, Plan, TopicPlan
from harness.workloads.base import Context, Key, KeySpace, TokenBucket
from histories.journal import JournalWriter
from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings
from histories.schema import Isolation, Outcome
from histories.seal import seal

_CLOCKS = threading.Lock()


class FakeClock:
    """Every look at it takes a microsecond.

    A thread that waits moves its own time only: the time that one scan spends in vain is not taken from another that
    runs beside it. The thread that made the clock sees the latest of all.
    """

    def __init__(self) -> None:
        self._times = [1_000_000_000]  # one per thread that has looked; the first is of the thread that made it
        self._mine = threading.local()  # not by thread id: a new thread may have the id of one that has ended
        self._mine.place = 0

    @property
    def _place(self) -> int:
        if not hasattr(self._mine, "place"):
            with _CLOCKS:
                self._mine.place = len(self._times)
                self._times.append(self._times[0])
        place: int = self._mine.place
        return place

    @property
    def ns(self) -> int:
        return self._times[self._place] if self._place else max(self._times)

    @ns.setter
    def ns(self, value: int) -> None:
        self._times[self._place] = value

    def __call__(self) -> int:
        self.ns += 1000
        return self.ns


class ImpatientPatience(Patience):
    """Waits by moving the clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self._fake = clock

    def wait(self, seconds: float) -> None:
        self._fake.ns += int(seconds * 1e9)


@dataclass
class FakeLibrary:
    clock: Callable[[], int]
    logs: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    outcomes: list[tuple[Outcome, str] | None] = field(default_factory=list)
    """Of the next sends, one by one; None or nothing left: acknowledged."""
    polls: list[str | None] = field(default_factory=list)
    """Errors of the next polls, after the records that they return."""
    unreachable: int = 0
    """So many times no client can be made."""
    producers: list[FakeProducer] = field(default_factory=list)
    consumers: list[FakeConsumer] = field(default_factory=list)

    def producer(self, config: ProducerConfig, client_id: str) -> FakeProducer:
        self._reach()
        self.producers.append(FakeProducer(self, config, client_id))
        return self.producers[-1]

    def consumer(self, isolation: Isolation, client_id: str) -> FakeConsumer:
        self._reach()
        self.consumers.append(FakeConsumer(self, isolation, client_id))
        return self.consumers[-1]

    def _reach(self) -> None:
        if self.unreachable:
            self.unreachable -= 1
            raise ClientError("_TRANSPORT")

    def close(self) -> None:
        return


@dataclass
class FakeProducer:
    library: FakeLibrary
    config: ProducerConfig
    client_id: str
    bursts: list[list[TopicPartition]] = field(default_factory=list)
    abandoned: bool = False

    def send_burst(
        self,
        targets: Sequence[TopicPartition],
        payloads: Sequence[bytes],
        left_s: Callable[[], float],  # noqa: ARG002
        meanwhile: Callable[[], None] | None = None,
    ) -> Burst:
        assert not self.abandoned, "an abandoned producer is used"
        self.bursts.append(list(targets))
        burst = Burst([], [], [], [])
        for position, (target, payload) in enumerate(zip(targets, payloads, strict=True)):
            burst.invoke_ns.append(self.library.clock())
            scripted = self.library.outcomes.pop(0) if self.library.outcomes else None
            offset: int | None = None
            if scripted is None:
                log = self.library.logs.setdefault(target, [])
                log.append(payload)
                offset = len(log) - 1
            else:
                burst.errors[position] = scripted[1]
            silent = self.config.acks == 0 and scripted is None
            burst.statuses.append(scripted[0] if scripted else Outcome.INFO if silent else Outcome.OK)
            burst.offsets.append(None if silent else offset)
            burst.complete_ns.append(self.library.clock())
        if meanwhile is not None:
            meanwhile()
        return burst

    def retries(self) -> int | None:
        return 2

    def abandon(self) -> None:
        self.abandoned = True


@dataclass
class FakeConsumer:
    library: FakeLibrary
    isolation: Isolation
    client_id: str
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    assigned: list[dict[TopicPartition, int]] = field(default_factory=list)
    abandoned: bool = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        self.assigned.append(dict(positions))

    def poll(self, max_records: int, timeout_s: float) -> Batch:  # noqa: ARG002
        assert not self.abandoned, "an abandoned consumer is used"
        batch = Batch()
        for partition, position in self.positions.items():
            if position < self.library.log_starts.get(partition, 0):
                batch.out_of_range.append(partition)
                batch.error = "_AUTO_OFFSET_RESET"
                continue
            log = self.library.logs.get(partition, [])
            for offset in range(position, min(len(log), position + max_records - len(batch.offsets))):
                batch.sources.append(partition)
                batch.offsets.append(offset)
                batch.payloads.append(log[offset])
                self.positions[partition] = offset + 1
        if self.library.polls:
            batch.error = batch.error or self.library.polls.pop(0)
        return batch

    def watermarks(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:  # noqa: ARG002
        return self.library.log_starts.get(partition, 0), len(self.library.logs.get(partition, []))

    def abandon(self) -> None:
        self.abandoned = True


@dataclass
class World:
    """A worker's context on fakes, and the history that comes out of it."""

    folder: Path
    plan: Plan
    context: Context
    library: FakeLibrary
    clock: FakeClock
    keys: tuple[Key, ...]

    def history(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
        """Seal what was recorded: rows of ops, mops, coverage."""
        self.context.journal.close()
        out = self.folder / "history"
        seal(self.folder / "journal", out, meta(self.context.run_id, self.keys))
        ops, mops, coverage = (rows(out / table) for table in ("ops", "mops", "coverage"))
        return ops, mops, coverage


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(folder.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def meta(run_id: str, keys: Sequence[Key]) -> Meta:
    return Meta(
        run_id=run_id,
        origin="run",
        keys=tuple(KeyInfo(key.topic, key.partition) for key in keys),
        topics={key.topic: TopicSettings(2, 3, 2) for key in keys},
        producers=(ProducerSettings(-1, True, 3, 5), ProducerSettings(-1, False, 1, 1)),
    )


def make_world(
    folder: Path, clients: ClientPlan, topics: int = 1, topic: TopicPlan | None = None, seed: int = 7
) -> World:
    plan = Plan(seed=seed, clients=clients, topic=topic or TopicPlan())
    keys = tuple(Key(2 * number + part, f"t{number}", part) for number in range(topics) for part in range(2))
    clock = FakeClock()
    library = FakeLibrary(clock)
    (folder / "journal").mkdir()
    journal = JournalWriter(folder / "journal" / "worker-0.journal", "run", 0, clock.ns)
    context = Context(
        run_id="run",
        worker=0,
        plan=plan,
        journal=journal,
        keys=KeySpace(keys, plan.topic.writes_per_key, clients.workers),
        patience=ImpatientPatience(clock),
        bucket=TokenBucket(clients.rate, clock),
        libraries=[library],
        started_ns=clock.ns,
        clock=clock,
    )
    return World(folder, plan, context, library, clock, keys)
