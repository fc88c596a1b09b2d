"""The load of :mod:`bench.broker`: librdkafka against whatever speaks Kafka's protocol, with the same settings each time.

A turn counts as done when every record was acknowledged, and is checked: the partitions must have grown by exactly
what was sent. Latency is taken of every 61st record (a prime, so that all partitions are met), from the hand-over to
the client until its callback.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Final

import confluent_kafka as kafka

RECORD_BYTES: Final = 1024
SAMPLE_EVERY: Final = 61
_BURST: Final = 20
_PATIENCE_S: Final = 60.0
_NOT_YET: Final = (
    kafka.KafkaError._UNKNOWN_PARTITION,
    kafka.KafkaError._UNKNOWN_TOPIC,
    kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    kafka.KafkaError.NOT_LEADER_FOR_PARTITION,
    kafka.KafkaError.LEADER_NOT_AVAILABLE,
)


@dataclass(frozen=True)
class Batching:
    label: str
    linger_ms: int
    batch_bytes: int


@dataclass(frozen=True)
class Turn:
    records: int
    seconds: float
    latencies_ms: tuple[float, ...] = ()

    @property
    def mb_per_s(self) -> float:
        return self.records * RECORD_BYTES / 1e6 / self.seconds

    @property
    def per_s(self) -> float:
        return self.records / self.seconds


def quantile(values: tuple[float, ...], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def settings_of(batching: Batching) -> dict[str, Any]:
    """Whatever is not here has librdkafka's default: the client may hold 100,000 records, requests are pipelined."""
    return {
        "acks": "all",
        "linger.ms": batching.linger_ms,
        "batch.size": batching.batch_bytes,
        "batch.num.messages": 1_000_000,
    }


def produce(
    bootstrap: str, topic: str, partitions: int, batching: Batching, seconds: float, per_s: float = math.inf
) -> Turn:
    """As many records as the client takes, or ``per_s``, round robin over the partitions."""
    producer = kafka.Producer({"bootstrap.servers": bootstrap, **settings_of(batching)})
    payload = bytes(index * 131 % 256 for index in range(RECORD_BYTES))
    latencies: list[float] = []

    def sampled(error: Any, message: Any) -> None:
        if error is not None:
            raise kafka.KafkaException(error)
        latencies.append(message.latency() * 1e3)

    before = ends(producer, topic, partitions)
    sent = 0
    began = now = time.monotonic()
    while now - began < seconds:
        if sent > (now - began) * per_s:
            producer.poll(0.001)
        else:
            for _ in range(_BURST):
                _hand_over(producer, topic, payload, sent % partitions, None if sent % SAMPLE_EVERY else sampled)
                sent += 1
            producer.poll(0)
        now = time.monotonic()
    if producer.flush(_PATIENCE_S):
        raise RuntimeError(f"not everything was acknowledged within {_PATIENCE_S:.0f} s")
    elapsed = time.monotonic() - began
    grown = ends(producer, topic, partitions) - before
    if grown != sent:
        raise RuntimeError(f"{sent} records were sent to {topic} and it grew by {grown}")
    return Turn(sent, elapsed, tuple(latencies))


def _hand_over(producer: Any, topic: str, payload: bytes, partition: int, callback: Any) -> None:
    while True:
        try:
            producer.produce(topic, payload, None, partition, callback)
            return
        except BufferError:
            producer.poll(0.01)


def produce_one_wait(bootstrap: str, topic: str, partitions: int, batching: Batching, seconds: float) -> Turn:
    """One record, its acknowledgement, the next record."""
    producer = kafka.Producer({"bootstrap.servers": bootstrap, **settings_of(batching)})
    payload = bytes(RECORD_BYTES)
    latencies: list[float] = []
    failures: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)
        latencies.append((time.perf_counter() - handed_over) * 1e3)

    handed_over = time.perf_counter()
    ends(producer, topic, partitions)  # connects
    began = time.monotonic()
    sent = 0
    while time.monotonic() - began < seconds:
        handed_over = time.perf_counter()
        producer.produce(topic, payload, None, sent % partitions, delivered)
        sent += 1
        if producer.flush(_PATIENCE_S) or failures:
            raise RuntimeError(f"a record was not acknowledged: {failures or 'time-out'}")
    return Turn(sent, time.monotonic() - began, tuple(latencies[partitions:]))


def consume(bootstrap: str, topic: str, partitions: int, seconds: float) -> Turn:
    """Everything from the beginning, as fast as it comes, for so long or to the end."""
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": "false",
            "check.crcs": "false",
            "fetch.min.bytes": 1,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 262_144,
        }
    )
    total = ends(consumer, topic, partitions)
    consumer.assign([kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    began, read = time.monotonic(), 0
    while read < total and time.monotonic() - began < seconds:
        messages = consumer.consume(10_000, 1.0)
        for each in messages:
            if each.error() is not None:
                raise kafka.KafkaException(each.error())
        read += len(messages)
    elapsed = time.monotonic() - began
    consumer.close()
    return Turn(read, elapsed)


def ends(client: Any, topic: str, partitions: int) -> int:
    """The sum of the partitions' high watermarks."""
    if not isinstance(client, kafka.Consumer):
        reader = kafka.Consumer({"bootstrap.servers": _bootstrap_of(client), "group.id": "bench"})
        try:
            return ends(reader, topic, partitions)
        finally:
            reader.close()
    return sum(_end(client, kafka.TopicPartition(topic, number)) for number in range(partitions))


def _end(reader: Any, partition: Any) -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return int(reader.get_watermark_offsets(partition, _PATIENCE_S)[1])
        except kafka.KafkaException as error:
            # A broker may hear of a new topic a moment after it was created.
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _bootstrap_of(producer: Any) -> str:
    return ",".join(f"{each.host}:{each.port}" for each in producer.list_topics(timeout=_PATIENCE_S).brokers.values())
