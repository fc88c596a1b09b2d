"""How much recording costs: pipelined sends through the harness against the same client without it.

    python -m bench.record [BOOTSTRAP TOPIC PARTITIONS]

Both sides hand the same number of records of the same size to a producer with the same settings, wait for all
delivery callbacks, read the offset of each, and start over. The harness beside that makes values and payloads with
checksums, journals each burst before and after, and keeps the time and the outcome of every send. The sides take
short turns, so that a machine that slows down slows both, and a pair of turns gives one ratio.

Without arguments a managed Apache Kafka of one broker is started for it. An existing topic must be there.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import confluent_kafka as kafka

from bench.entry import enter
from checkers.java import JavaError
from harness.clients.base import Patience
from harness.clients.librdkafka import Librdkafka, producer_settings
from harness.clients.registry import producer_config
from harness.fleet.loopback import LoopbackFleet
from harness.plan import ClientPlan, Plan, TargetPlan, TopicPlan
from harness.targets import TargetError, make_target
from harness.workloads.base import Context, Key, KeySpace, TokenBucket
from harness.workloads.log_producer import LogProducer
from histories.journal import JournalWriter

WINDOWS: Final = (100, 500, 1000)
TURNS: Final = 60
TURN_S: Final = 0.15
WARM_UP_S: Final = 1.0
PARTITIONS: Final = 4

Side = Callable[[], None]
"""One burst of a whole window."""


@dataclass(frozen=True)
class Cost:
    window: int
    harness_sends_per_s: float
    bare_sends_per_s: float
    ratio: float
    """Median over the pairs of turns; the quartiles say how far they scatter."""
    lower_quartile: float
    upper_quartile: float


def measure(
    bootstrap: str, topic: str, partitions: int, window: int, payload_bytes: int = 64, turns: int = TURNS
) -> Cost:
    clients = ClientPlan(rate=0, crash_every_s=0, payload_bytes=payload_bytes, workers=1)
    with tempfile.TemporaryDirectory() as folder:
        harness = _harness(bootstrap, topic, partitions, window, clients, Path(folder))
        bare = _bare(bootstrap, topic, partitions, window, clients)
        for side in (bare, harness):
            _rate(side, window, WARM_UP_S)  # connections, metadata, producer ids
        theirs: list[float] = []
        ours: list[float] = []
        for turn in range(turns):
            # Whoever comes second finds the broker warm; so they take turns in that too.
            for side, rates in ((bare, theirs), (harness, ours)) if turn % 2 else ((harness, ours), (bare, theirs)):
                rates.append(_rate(side, window, TURN_S))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    lower, ratio, upper = statistics.quantiles(ratios, n=4)
    return Cost(window, statistics.median(ours), statistics.median(theirs), ratio, lower, upper)


def _rate(side: Side, window: int, seconds: float) -> float:
    begin, bursts = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < seconds:
        side()
        bursts += 1
    return bursts * window / elapsed


def _bare(bootstrap: str, topic: str, partitions: int, window: int, clients: ClientPlan) -> Side:
    producer = kafka.Producer(producer_settings(bootstrap, producer_config(clients), "bench-bare"))
    payload = bytes(clients.payload_bytes)
    targets = [position % partitions for position in range(window)]
    landed: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            raise kafka.KafkaException(error)
        landed.append(message.offset())

    def burst() -> None:
        landed.clear()
        for partition in targets:
            producer.produce(topic, payload, None, partition, delivered)
        while len(landed) < window:
            producer.poll(0.1)

    return burst


def _harness(bootstrap: str, topic: str, partitions: int, window: int, clients: ClientPlan, folder: Path) -> Side:
    keys = [Key(number, topic, number) for number in range(partitions)]
    started_ns = time.monotonic_ns()
    context = Context(
        run_id="bench",
        worker=0,
        plan=Plan(seed=1, clients=clients),
        journal=JournalWriter(folder / "bench.journal", "bench", 0, started_ns),
        keys=KeySpace(keys, 0, 1),
        patience=Patience(),
        bucket=TokenBucket(0),
        libraries=[Librdkafka(bootstrap)],
        started_ns=started_ns,
    )
    producer = LogProducer(context, 0, 0)
    if not producer.renew():
        raise RuntimeError(f"no producer for {bootstrap}")
    targets = [keys[position % partitions] for position in range(window)]

    ready = [producer.prepare(targets)]

    def prepare() -> None:
        ready.append(producer.prepare(targets))

    def burst() -> None:
        outcome = producer.send(ready.pop(), prepare)
        if outcome.errors:
            raise RuntimeError(f"a send failed: {outcome.errors}")

    return burst


@contextmanager
def _one_broker(topic: str) -> Iterator[str]:
    """The bootstrap servers of a managed Kafka with a topic in it."""
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        fleet = undo.enter_context(LoopbackFleet())
        target = make_target(
            TargetPlan(kind="kafka", brokers=1), logs=folder / "logs", data=folder / "data", fleet=fleet
        )
        undo.callback(target.stop)
        target.start()
        target.create_topic(topic, TopicPlan(partitions=PARTITIONS, replication_factor=1, min_insync_replicas=1))
        yield target.bootstrap


def report(bootstrap: str, topic: str, partitions: int) -> None:
    print("| window | with the harness | bare client | ratio (quartiles) |")
    print("|---|---|---|---|")
    for window in WINDOWS:
        cost = measure(bootstrap, topic, partitions, window)
        print(
            f"| {window} | {cost.harness_sends_per_s / 1000:.0f} k/s | {cost.bare_sends_per_s / 1000:.0f} k/s "
            f"| {cost.ratio:.2f} ({cost.lower_quartile:.2f}–{cost.upper_quartile:.2f}) |",
            flush=True,
        )


def main(arguments: list[str]) -> int:
    if arguments:
        bootstrap, topic, partitions = arguments
        report(bootstrap, topic, int(partitions))
        return 0
    try:
        with _one_broker("bench") as bootstrap:
            report(bootstrap, "bench", PARTITIONS)
    except (TargetError, JavaError) as error:
        print(f"recording was not measured: {error}")
    return 0


if __name__ == "__main__":
    enter(main)
