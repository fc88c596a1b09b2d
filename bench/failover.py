"""How long partitions cannot be written after kill -9 of a leader, of the controller, or of a broker that is both.

    python -m bench.failover [--rounds 10] [--session 4000] [--roles leader controller both]

Each round makes a topic whose leaders suit the role, sends to every partition one record after the other with acks=all (a
producer and a thread for each partition), kills the broker at a random moment, and waits until each partition has acknowledged
a send that began after the kill. Partitions that the broker only follows are affected too: acks=all waits for it until
it has left the ISR. The limit is the session time-out plus 500 ms.

Beside the whole stands where the time went: until ZooKeeper gave up the broker's session, until another controller
was there, until the partition's new state was in ZooKeeper, until a client got through.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.entry import enter
from harness.cluster.admin import Admin
from harness.cluster.wire import WireClient, connect
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan
from harness.targets.base import TargetError, node_name
from harness.targets.shipped import ShippedTarget
from harness.targets.waiting import wait_until
from system_under_test.protocol import batch
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode

SPARE_MS = 500
DEADLINE_S = 60.0
ROLES = ("leader", "controller", "both")
_LOOK_EVERY_S = 0.01
_RETRY_AFTER_S = 0.01


class _Client:
    """The least that a producer can be: it asks who leads when it does not know, and never waits longer than it must.

    librdkafka looks for a new leader more seldom as long as metadata names one that is dead: it would measure itself.
    """

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partition = partition
        self._leader: WireClient | None = None
        self._records = batch.encode([(None, b"x" * 64)], timestamp_ms=0)

    def send(self) -> bool:
        """Whether one record was acknowledged by the whole ISR."""
        try:
            if self._leader is None:
                self._leader = self._find()
            if self._leader is not None and self._produced(self._leader):
                return True
        except TargetError:
            pass  # the broker is gone
        self.close()
        return False

    def _find(self) -> WireClient | None:
        client = connect(self._bootstrap)
        try:
            topic = client.make(ApiKey.METADATA, "MetadataRequestTopic", name=self._topic, topic_id=None)
            answer = client.metadata((topic,))
        finally:
            client.close()
        found = {each.partition_index: each.leader_id for each in answer.topics[0].partitions}
        for broker in answer.brokers:
            if broker.node_id == found.get(self._partition):
                return WireClient(broker.host, broker.port, DEADLINE_S)
        return None

    def _produced(self, client: WireClient) -> bool:
        api = ApiKey.PRODUCE
        data = client.make(api, "PartitionProduceData", index=self._partition, records=self._records)
        answer = client.request(
            api,
            transactional_id=None,
            acks=-1,
            timeout=timedelta(seconds=DEADLINE_S),
            topic_data=(client.make(api, "TopicProduceData", name=self._topic, partition_data=(data,)),),
        )
        return bool(answer.responses[0].partition_responses[0].error_code is ErrorCode.none)

    def close(self) -> None:
        if self._leader is not None:
            self._leader.close()
            self._leader = None


@dataclass
class Probe:
    """Sends to one partition, one record after the other; ``acknowledged`` are (began, ended) of those that arrived."""

    bootstrap: str
    topic: str
    partition: int
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        client = _Client(self.bootstrap, self.topic, self.partition)
        try:
            while not self.stopping.is_set():
                began = time.monotonic()
                if client.send():
                    self.acknowledged.append((began, time.monotonic()))
                else:
                    self.stopping.wait(_RETRY_AFTER_S)
        finally:
            client.close()

    def first_after(self, moment: float) -> float | None:
        """When the first send that began after this moment was acknowledged."""
        return next((ended for began, ended in list(self.acknowledged) if began > moment), None)


@dataclass
class Watch:
    """When ZooKeeper first showed what a failover consists of."""

    target: ShippedTarget
    topic: str
    victim: int
    stopping: threading.Event = field(default_factory=threading.Event)
    expired: float | None = None
    controller: float | None = None
    states: dict[int, float] = field(default_factory=dict)

    def run(self) -> None:
        while not self.stopping.is_set():
            now, snapshot = time.monotonic(), self.target.view.snapshot(lambda topic: topic == self.topic)
            if snapshot is not None:
                if self.expired is None and self.victim not in snapshot.brokers:
                    self.expired = now
                if self.controller is None and snapshot.controller not in (None, self.victim):
                    self.controller = now
                for (_, partition), state in snapshot.partitions.items():
                    if state.leader not in (None, self.victim) and self.victim not in state.isr:
                        self.states.setdefault(partition, now)
            self.stopping.wait(_LOOK_EVERY_S)


@dataclass(frozen=True)
class Outage:
    """Of one partition, in ms since the kill."""

    expired: float
    controller: float
    state: float
    writable: float

    def line(self) -> str:
        return (
            f"writable after {self.writable:5.0f} ms (session gone {self.expired:5.0f}, controller "
            f"{self.controller:5.0f}, new state {self.state:5.0f})"
        )


def replicas(role: str, victim: int, others: Sequence[int]) -> list[tuple[int, ...]]:
    """Of each partition of a round's topic, the leader first."""
    one, other = others
    if role == "controller":
        return [(one, victim, other), (other, one, victim), (one, other, victim)]
    return [(victim, one, other), (victim, other, one), (one, victim, other)]


class Bench:
    def __init__(self, target: ShippedTarget, seed: int) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._rounds = 0

    def round(self, role: str) -> list[Outage]:
        target = self._target
        self._rounds += 1
        controller = target.view.controller()
        ids = [int(node.rpartition("-")[2]) for node in target.nodes]
        victim = next(each for each in ids if (each == controller) == (role != "leader"))
        topic = f"failover-{self._rounds}"
        self._create(topic, replicas(role, victim, [each for each in ids if each != victim]))
        probes = [Probe(target.bootstrap, topic, partition) for partition in range(3)]
        watch = Watch(target, topic, victim)
        with _running(probes):
            wait_until(
                lambda: all(len(each.acknowledged) > 20 for each in probes), DEADLINE_S, lambda: "probes do not start"
            )
            time.sleep(self._random.uniform(0.0, 2.0))  # any moment between two heartbeats of the session
            killed = time.monotonic()
            target.kill_node(node_name(victim))
            with _running([watch]):
                wait_until(
                    lambda: all(each.first_after(killed) is not None for each in probes) and len(watch.states) == 3,
                    DEADLINE_S,
                    lambda: f"{topic} is not writable again",
                )
        outages = [_outage(each, watch, killed) for each in probes]
        target.start_node(node_name(victim))
        wait_until(lambda: not target.view.unhealthy(), DEADLINE_S, lambda: f"{target.view.unhealthy()}")
        Admin(target.bootstrap).delete_topic(topic)
        wait_until(lambda: target.view.leader(topic, 0) is None, DEADLINE_S, lambda: f"{topic} is still there")
        return outages

    def _create(self, topic: str, assignment: list[tuple[int, ...]]) -> None:
        admin = AdminClient({"bootstrap.servers": self._target.bootstrap})
        wanted = NewTopic(
            topic,
            num_partitions=len(assignment),
            replica_assignment=[list(each) for each in assignment],
            config={"min.insync.replicas": "2"},
        )
        admin.create_topics([wanted])[topic].result()
        leaders = {number: each[0] for number, each in enumerate(assignment)}
        view = self._target.view
        wait_until(
            lambda: all(view.leader(topic, number) == leader for number, leader in leaders.items()),
            DEADLINE_S,
            lambda: f"the leaders of {topic} should be {leaders}",
        )


def _outage(probe: Probe, watch: Watch, killed: float) -> Outage:
    writable = probe.first_after(killed)
    assert writable is not None
    assert watch.expired is not None
    assert watch.controller is not None
    moments = (watch.expired, watch.controller, watch.states[probe.partition], writable)
    return Outage(*(1000 * (each - killed) for each in moments))


@contextmanager
def _running(workers: Sequence[Probe | Watch]) -> Iterator[None]:
    threads = [threading.Thread(target=each.run, daemon=True) for each in workers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each in workers:
            each.stopping.set()
        for thread in threads:
            thread.join()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="of each role")
    parser.add_argument("--session", type=int, default=4000, help="ZooKeeper session time-out in ms")
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="a line for each partition")
    options = parser.parse_args(arguments)
    limit_ms = options.session + SPARE_MS
    plan = TargetPlan(kind="shipped", brokers=3, session_timeout_ms=options.session)
    found: dict[str, list[Outage]] = {role: [] for role in options.roles}
    with tempfile.TemporaryDirectory(prefix="tidemark-failover-") as scratch:
        folder = Path(scratch)
        with LoopbackFleet(folder / "registry") as fleet:
            target = ShippedTarget(plan, logs=folder / "logs", data=folder / "data", fleet=fleet)
            try:
                target.start()
                bench = Bench(target, options.seed)
                for number in range(options.rounds):
                    for role in options.roles:
                        outages = bench.round(role)
                        found[role] += outages
                        if options.verbose:
                            for partition, each in enumerate(outages):
                                print(f"round {number}, {role}, partition {partition}: {each.line()}", flush=True)
            finally:
                target.stop()
    return _report(found, limit_ms)


def _report(found: dict[str, list[Outage]], limit_ms: int) -> int:
    print(f"limit: {limit_ms} ms")
    print("| killed | partitions | writable after: least | median | p90 | most | within | session gone | new state |")
    print("|---|---|---|---|---|---|---|---|---|")
    late = 0
    for role, outages in found.items():
        times = sorted(each.writable for each in outages)
        within = sum(each <= limit_ms for each in times)
        late += len(times) - within
        gone, state = (statistics.median(getattr(each, name) for each in outages) for name in ("expired", "state"))
        print(
            f"| {role} | {len(times)} | {times[0]:.0f} ms | {statistics.median(times):.0f} ms "
            f"| {times[int(0.9 * (len(times) - 1))]:.0f} ms | {times[-1]:.0f} ms | {within} of {len(times)} "
            f"| {gone:.0f} ms | {state:.0f} ms |"
        )
    return 1 if late else 0


if __name__ == "__main__":
    enter(main)
