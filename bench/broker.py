"""The shipped cluster's speed beside Apache Kafka's: the same load of the same client on both, in one run.

    python -m bench.broker [--turns 5] [--seconds 4] [--warm-up 60] [--only shipped] [produce fetch one start idle]

Three brokers and a ZooKeeper of each kind run at the same time; a pair of turns, one on each, gives one ratio, so
that a machine that slows down slows both. Whichever side rests costs the other its idle time, which is printed.

Apache Kafka runs with the virtual machine's settings of its own start script (G1, 1 GiB of heap, both
compilers) and its own numbers of threads, and is warmed up first. The settings are printed with the figures.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import confluent_kafka
import psutil

from bench.entry import enter
from bench.load import RECORD_BYTES, Batching, Turn, consume, produce, produce_one_wait, quantile
from checkers.java import JavaError
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan, TopicPlan
from harness.targets import TargetError
from harness.targets.kafka import KafkaTarget
from harness.targets.managed import ManagedTarget
from harness.targets.shipped import ShippedTarget
from harness.targets.waiting import wait_until

PARTITIONS: Final = 12
TOPIC: Final = TopicPlan(partitions=PARTITIONS, replication_factor=3, min_insync_replicas=2)
BATCHINGS: Final = (
    Batching("linger 5 ms, 64 KiB", 5, 65_536),
    Batching("linger 5 ms, 1 MB", 5, 1_000_000),
    Batching("linger 0", 0, 1_000_000),
)
ONE: Final = Batching("one at a time", 0, 1_000_000)
PACE_PER_S: Final = 10_000
PARTS: Final = ("produce", "fetch", "one", "start", "idle")


class StockKafka(KafkaTarget):
    """With the virtual machine as Kafka's own scripts start it, not as the harness does for short runs."""

    java_options = (
        "-Xmx1G",
        "-Xms1G",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
    )


@dataclass
class Side:
    name: str
    target: ManagedTarget
    topics: int = 0

    def new_topic(self) -> str:
        self.topics += 1
        name = f"bench-{self.topics}"
        self.target.create_topic(name, TOPIC)
        wait_until(lambda: self._is_whole(name), 60.0, lambda: f"not all partitions of {name} have all their replicas")
        return name

    def _is_whole(self, topic: str) -> bool:
        metadata = self.target.admin.metadata()
        found = None if metadata is None else metadata.topics.get(topic)
        return (
            found is not None
            and len(found.partitions) == PARTITIONS
            and all(len(each.isrs) == TOPIC.replication_factor for each in found.partitions.values())
        )

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(pid) for node in self.target.nodes if (pid := self.target.pid(node)) is not None]

    def cpu_s(self) -> float:
        return sum(float(each.cpu_times().user + each.cpu_times().system) for each in self.processes())

    def resident_mib(self) -> list[float]:
        return [each.memory_info().rss / 2**20 for each in self.processes()]


def launch(kind: str, folder: Path, undo: ExitStack) -> Side:
    fleet = undo.enter_context(LoopbackFleet(folder / "registry"))
    # Kafka's own numbers of threads instead of the harness's small ones.
    stock = {"num.network.threads": "3", "num.io.threads": "8", "background.threads": "10"}
    # Nobody shall leave an ISR because the machine was busy for a moment: this measures speed.
    plan = TargetPlan(
        kind=kind,
        session_timeout_ms=18_000,
        replica_lag_time_max_ms=30_000,
        settings=stock if kind == "kafka" else {},
    )
    target = (StockKafka if kind == "kafka" else ShippedTarget)(
        plan, logs=folder / "logs", data=folder / "data", fleet=fleet
    )
    undo.callback(target.stop)
    target.start()
    return Side(kind, target)


def warm_up(side: Side, seconds: float) -> None:
    """Each kind of load, until the compilers are done with it: on two cores under load that takes a virtual machine about a
    minute, and before it Apache Kafka is several times slower."""
    topic = side.new_topic()
    for batching in (*BATCHINGS, *BATCHINGS):
        produce(side.target.bootstrap, topic, PARTITIONS, batching, seconds / (2 * len(BATCHINGS) + 1))
    consume(side.target.bootstrap, topic, PARTITIONS, seconds / (2 * len(BATCHINGS) + 1))


def _columns(sides: list[Side]) -> dict[str, list[float]]:
    return {side.name: [] for side in sides}


def _ratios(columns: dict[str, list[float]]) -> str:
    if len(columns) < 2:
        return "-"
    return f"{statistics.median(a / b for a, b in zip(columns['shipped'], columns['kafka'], strict=True)):.2f} ×"


def _cells(columns: dict[str, list[float]], form: str) -> str:
    return " | ".join(format(statistics.median(each), form) for each in columns.values())


def compare_produce(sides: list[Side], turns: int, seconds: float) -> None:
    """As much as goes through; and the latency when the same client sends a steady stream that neither side strains at."""
    names = " | ".join(f"{side.name} MB/s" for side in sides)
    costs = " | ".join(f"{side.name} CPU s/GB" for side in sides)
    tails = " | ".join(f"{side.name} p99 ms" for side in sides)
    steady = " | ".join(f"{side.name} p99 ms at {PACE_PER_S // 1000} MB/s" for side in sides)
    print(f"| produce, acks=all | {names} | ratio | {costs} | {tails} | ratio | {steady} | ratio |")
    print("|---" * (4 + 4 * len(sides)) + "|")
    for batching in BATCHINGS:
        topics = {side.name: side.new_topic() for side in sides}
        speed, cost, tail, calm = (_columns(sides) for _ in range(4))
        for number in range(turns):
            for side in sides if number % 2 else reversed(sides):
                cpu = side.cpu_s()
                turn = produce(side.target.bootstrap, topics[side.name], PARTITIONS, batching, seconds)
                cost[side.name].append((side.cpu_s() - cpu) / (turn.records * RECORD_BYTES / 1e9))
                speed[side.name].append(turn.mb_per_s)
                tail[side.name].append(quantile(turn.latencies_ms, 0.99))
            for side in sides if number % 2 else reversed(sides):
                turn = produce(side.target.bootstrap, topics[side.name], PARTITIONS, batching, seconds, PACE_PER_S)
                calm[side.name].append(quantile(turn.latencies_ms, 0.99))
        print(
            f"| {batching.label} | {_cells(speed, '.1f')} | {_ratios(speed)} | {_cells(cost, '.1f')} "
            f"| {_cells(tail, '.0f')} | {_ratios(tail)} | {_cells(calm, '.1f')} | {_ratios(calm)} |",
            flush=True,
        )


def compare_one(sides: list[Side], turns: int, seconds: float) -> None:
    found: dict[str, list[Turn]] = {side.name: [] for side in sides}
    topics = {side.name: side.new_topic() for side in sides}
    for number in range(turns):
        for side in sides if number % 2 else reversed(sides):
            found[side.name].append(
                produce_one_wait(side.target.bootstrap, topics[side.name], PARTITIONS, ONE, seconds)
            )
    print("\none record at a time, acks=all:")
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        columns = {name: [quantile(each.latencies_ms, share) for each in mine] for name, mine in found.items()}
        print(f"  {label} ms: {' | '.join(columns)}: {_cells(columns, '.2f')}, ratio {_ratios(columns)}", flush=True)


def compare_fetch(sides: list[Side], turns: int, seconds: float) -> None:
    topics = {side.name: side.new_topic() for side in sides}
    for side in sides:
        produce(side.target.bootstrap, topics[side.name], PARTITIONS, BATCHINGS[1], seconds)
    speed, cost = _columns(sides), _columns(sides)
    for number in range(turns):
        for side in sides if number % 2 else reversed(sides):
            cpu = side.cpu_s()
            turn = consume(side.target.bootstrap, topics[side.name], PARTITIONS, seconds)
            speed[side.name].append(turn.mb_per_s)
            cost[side.name].append((side.cpu_s() - cpu) / (turn.records * RECORD_BYTES / 1e9))
    print(f"\nfetch, one consumer of {PARTITIONS} partitions:")
    print(f"  MB/s: {' | '.join(speed)}: {_cells(speed, '.1f')}, ratio {_ratios(speed)}")
    print(f"  brokers' CPU s/GB: {' | '.join(cost)}: {_cells(cost, '.2f')}", flush=True)


def idle(sides: list[Side], seconds: float) -> None:
    before = [side.cpu_s() for side in sides]
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    print("\nmemory and idle time of three brokers:")
    for side, cpu in zip(sides, before, strict=True):
        share = 100 * (side.cpu_s() - cpu) / elapsed
        memory = ", ".join(f"{each:.0f}" for each in side.resident_mib())
        print(f"  {side.name}: {memory} MiB; idle {share:.1f} % of one core", flush=True)


def start_to_first_write(kind: str) -> float:
    """From nothing to the first acknowledged write of a topic with three replicas."""
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        began = time.monotonic()
        side = launch(kind, folder, undo)
        # It outlives the cluster by a moment, and would say so.
        producer = confluent_kafka.Producer({"bootstrap.servers": side.target.bootstrap, "acks": "all", "log_level": 0})
        topic = side.new_topic()
        failures: list[object] = []
        producer.produce(topic, b"first", None, 0, lambda error, _: failures.append(error) if error else None)
        if producer.flush(60) or failures:
            raise RuntimeError(f"the first write was not acknowledged: {failures}")
        return time.monotonic() - began


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.broker", description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-up", type=float, default=60.0)
    parser.add_argument("--only", choices=("shipped", "kafka"), help="one side alone, without ratios")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    options = parser.parse_args(arguments)
    kinds = [options.only] if options.only else ["shipped", "kafka"]
    try:
        _measure(kinds, options.parts, options.turns, options.seconds, options.warm_up)
    except (TargetError, JavaError) as error:
        print(f"brokers were not measured: {error}")
    return 0


def _measure(kinds: list[str], parts: list[str], turns: int, seconds: float, warm_up_s: float) -> None:
    print(
        f"three brokers each, replication 3, min.insync.replicas 2, {PARTITIONS} partitions, records of {RECORD_BYTES} "
        f"bytes; median of {turns} turns of {seconds:g} s on each side; Kafka: {' '.join(StockKafka.java_options)}"
    )
    if "start" in parts:
        for kind in kinds:
            print(
                f"start of {kind}, three brokers and ZooKeeper, to the first write: {start_to_first_write(kind):.1f} s"
            )
    if not set(parts) - {"start"}:
        return
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        sides = [launch(kind, folder / kind, undo) for kind in kinds]
        for side in sides:
            warm_up(side, warm_up_s if side.name == "kafka" else min(warm_up_s, 7.0))
            versions = ", ".join(f"{name} {value}" for name, value in side.target.versions().items())
            print(f"{side.name}: {versions}", flush=True)
        if "produce" in parts:
            compare_produce(sides, turns, seconds)
        if "one" in parts:
            compare_one(sides, turns, seconds)
        if "fetch" in parts:
            compare_fetch(sides, turns, seconds)
        if "idle" in parts:
            idle(sides, 10.0)


if __name__ == "__main__":
    enter(main)
