"""One schedule from beginning to end: bring up, load, faults, heal, recover, judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from system_under_test.bugs import NONE, Bugs
from system_under_test.simulation.client import CLIENT_ERRORS, SimpleClient
from system_under_test.simulation.cluster import SETTINGS, SimulatedCluster, Topic
from system_under_test.simulation.invariants import Judge, Violation
from system_under_test.simulation.nemesis import Nemesis
from system_under_test.simulation.producers import IdempotentProducer
from system_under_test.simulation.schedule import Fault, Pace, Schedule, random_schedule
from system_under_test.simulation.world import Simulation
from system_under_test.types import TopicPartition

BROKERS = 3
TOPICS = (Topic("t", ((1, 2, 3), (2, 3, 1), (3, 1, 2))),)
_START_S = 30.0
_RECOVERY_S = 60.0
_CONSUMERS = 1
_THINK_S = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    violation: str | None
    schedule: list[Fault]
    virtual_s: float
    steps: int
    acknowledged: int
    read: int
    leader_changes: int
    void: int
    digest: str
    last_lines: list[str]


def run_schedule(seed: int, seconds: float, bugs: Bugs = NONE, *, trace_lines: int = 0) -> Outcome:
    with Simulation(seed) as simulation:
        cluster = SimulatedCluster(simulation, BROKERS, TOPICS, bugs=bugs)
        judge = Judge(cluster, int(SETTINGS["min.insync.replicas"]))
        schedule = random_schedule(simulation.fork("schedule"), cluster.ids, sorted(cluster.partitions), seconds)
        simulation.loop.on_moment = judge.look
        violation: str | None = None
        try:
            simulation.run(_play(cluster, judge, schedule, seconds))
        except Violation as found:
            violation = str(found)
        finally:
            simulation.loop.on_moment = None
        return Outcome(
            seed,
            violation,
            schedule.faults,
            simulation.loop.time(),
            simulation.loop.steps,
            judge.acknowledged_count,
            judge.read_count,
            judge.leader_changes,
            len(judge.void),
            simulation.trace.digest(),
            simulation.trace.last(trace_lines),
        )


async def _play(cluster: SimulatedCluster, judge: Judge, schedule: Schedule, seconds: float) -> None:
    cluster.start_all()
    await _whole(cluster, judge, _START_S, "after the start")
    load = Load(cluster, judge, schedule.pace)
    load.start()
    nemesis = Nemesis(cluster, judge)
    began = cluster.simulation.loop.time()
    await nemesis.run(schedule.faults)
    await asyncio.sleep(max(0.0, began + seconds - cluster.simulation.loop.time()))
    await nemesis.heal()
    load.finish()
    await _whole(cluster, judge, _RECOVERY_S, "after everything was healed")
    await load.write_once_more(_RECOVERY_S)
    # A replica may have been in the ISR without having heard of its leader; the last write throws it out until it has.
    await _whole(cluster, judge, _RECOVERY_S, "after the last writes")
    await _wait(cluster, judge, _RECOVERY_S, judge.lagging, "everywhere what was committed")
    judge.check_replicas()


async def _whole(cluster: SimulatedCluster, judge: Judge, within_s: float, when: str) -> None:
    """Every partition has its leader and its whole ISR."""

    def not_whole() -> list[TopicPartition]:
        return [each for each in sorted(cluster.partitions) if each not in judge.void and not cluster.is_whole(each)]

    await _wait(cluster, judge, within_s, not_whole, f"whole {when}")


async def _wait(
    cluster: SimulatedCluster, judge: Judge, within_s: float, missing: Callable[[], list[TopicPartition]], what: str
) -> None:
    deadline = cluster.simulation.loop.time() + within_s
    while waiting := missing():
        if cluster.simulation.loop.time() > deadline:
            replicas = "; ".join(judge.describe(each) for each in waiting)
            raise Violation("recovers", waiting[0], f"not within {within_s} s {what}: {replicas}")
        await asyncio.sleep(0.1)


class Load:
    """Producers with a think time, of which some are idempotent and send again what is not answered, and a consumer.
    What they see goes to the judge."""

    def __init__(self, cluster: SimulatedCluster, judge: Judge, pace: Pace) -> None:
        self._cluster = cluster
        self._judge = judge
        self._pace = pace
        self._partitions = sorted(cluster.partitions)
        self._tasks: list[asyncio.Task[None]] = []
        self._finished = False
        self._produced = 0

    def start(self) -> None:
        for number in range(self._pace.producers):
            self._spawn(f"producer-{number}", self._produce)
        for number in range(self._pace.idempotent_producers):
            self._spawn(f"idempotent-producer-{number}", self._produce_once)
        for number in range(_CONSUMERS):
            self._spawn(f"consumer-{number}", self._consume)

    def _spawn(self, name: str, work: Callable[[SimpleClient, Random], Coroutine[Any, Any, None]]) -> None:
        client = self._cluster.client(name)
        node = self._cluster.simulation.host(name).node
        assert node is not None
        random = self._cluster.simulation.fork(name)
        self._tasks.append(node.start(work(client, random), name))

    def finish(self) -> None:
        """Producers and consumers end with what they are doing."""
        self._finished = True

    async def _produce(self, client: SimpleClient, random: Random) -> None:
        while not self._finished:
            await asyncio.sleep(random.random() * 2 * self._pace.think_s)
            partition = random.choice(self._partitions)
            acks = -1 if random.random() < self._pace.acks_all_share else 1
            values = [self._value() for _ in range(random.choice((1, 1, 2, 5)))]
            try:
                offset = await client.produce(partition, values, acks=acks)
            except CLIENT_ERRORS:
                await client.try_refresh()
                continue
            if acks == -1:
                self._cluster.simulation.trace.add("client", "acknowledged", str(partition), offset, len(values))
                self._judge.acknowledged(partition, offset, values)

    async def _produce_once(self, client: SimpleClient, random: Random) -> None:
        producer = IdempotentProducer(client, random, self._judge, self._value, lambda: self._finished)
        await client.try_refresh()
        while not self._finished:
            await asyncio.sleep(random.random() * 2 * _THINK_S)
            await producer.send_burst(random.choice(self._partitions))

    def _value(self) -> bytes:
        self._produced += 1
        return b"v%d" % self._produced

    async def _consume(self, client: SimpleClient, random: Random) -> None:
        positions = dict.fromkeys(self._partitions, 0)
        while not self._finished:
            partition = random.choice(self._partitions)
            try:
                records = await client.fetch(partition, positions[partition])
            except CLIENT_ERRORS:
                await asyncio.sleep(random.random() * _THINK_S)
                await client.try_refresh()
                continue
            for record in records:
                self._judge.read(partition, record.offset, record.value)
                positions[partition] = record.offset + 1
            await asyncio.sleep(random.random() * _THINK_S)

    async def write_once_more(self, within_s: float) -> None:
        """The cluster is whole: every partition takes a record and gives it back."""
        client = self._cluster.client("last-client")
        loop = self._cluster.simulation.loop
        deadline = loop.time() + within_s
        for partition in self._partitions:
            while partition not in self._judge.void:
                try:
                    value = self._value()
                    offset = await client.produce(partition, [value], acks=-1)
                    self._judge.acknowledged(partition, offset, [value])
                    records = await client.fetch(partition, offset)
                except CLIENT_ERRORS as error:
                    if loop.time() > deadline:
                        raise Violation("recovers", partition, f"not writable {within_s} s later: {error!r}") from None
                    await asyncio.sleep(0.2)
                    await client.try_refresh()
                    continue
                if [each.value for each in records if each.offset == offset] == [value]:
                    break
        client.close()
