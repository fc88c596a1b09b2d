"""How much recording costs: pipelined sends through the harness against the same client without it.

Both sides hand the same number of records of the same size to a producer with the same settings, wait for all
delivery callbacks, read the offset of each, and start over. The harness beside that makes values and payloads with
checksums, journals each burst before and after, and keeps the time and the outcome of every send. The sides take
turns within one run, so that a machine that slows down slows both.

``python -m bench.record BOOTSTRAP TOPIC [PARTITIONS]``; the topic must exist.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as kafka

from harness.clients.base import Patience
from harness.clients.librdkafka import Librdkafka, producer_settings
from harness.clients.registry import producer_config
from harness.plan import ClientPlan, Plan
from harness.workloads.base import Context, Key, KeySpace, TokenBucket
from harness.workloads.log_producer import LogProducer
from histories.journal import JournalWriter

Side = Callable[[], None]
"""One burst of a whole window."""


def measure(
    bootstrap: str,
    topic: str,
    partitions: int = 4,
    window: int = 1000,
    payload_bytes: int = 64,
    rounds: int = 5,
    seconds: float = 2.0,
) -> dict[str, float]:
    """Sends per second of both sides, by their median over the rounds, and the ratio of these."""
    clients = ClientPlan(rate=0, crash_every_s=0, payload_bytes=payload_bytes, workers=1)
    with tempfile.TemporaryDirectory() as folder:
        harness = _harness(bootstrap, topic, partitions, window, clients, Path(folder))
        bare = _bare(bootstrap, topic, partitions, window, clients)
        rates: dict[str, list[float]] = {"bare": [], "harness": []}
        for side in (bare, harness):
            _rate(side, window, seconds / 2)  # connections, metadata, producer ids
        for _ in range(rounds):
            rates["bare"].append(_rate(bare, window, seconds))
            rates["harness"].append(_rate(harness, window, seconds))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    ratios = [ours / theirs for ours, theirs in zip(rates["harness"], rates["bare"], strict=True)]
    return {
        "harness_sends_per_s": medians["harness"],
        "harness_operations_per_s": medians["harness"] / window,
        "bare_sends_per_s": medians["bare"],
        "ratio": statistics.median(ratios),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "window": window,
        "payload_bytes": payload_bytes,
        "rounds": rounds,
    }


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


def main(arguments: list[str]) -> None:
    bootstrap, topic, *rest = arguments
    print(json.dumps(measure(bootstrap, topic, *(int(each) for each in rest)), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
