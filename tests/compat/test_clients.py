"""Each client makes a topic, produces with every compression and every acks, and reads it all back by assignment."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterable
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = (0, 1, -1)
PARTITIONS = 3
RECORDS = 30
DEADLINE_S = 30.0


def payloads(compression: str, acks: int) -> list[bytes]:
    """Compressible, and told apart by what sent them."""
    return [f"{compression}/{acks}/{number}/".encode() + b"x" * 200 for number in range(RECORDS)]


EXPECTED = sorted(each for compression in COMPRESSIONS for acks in ACKS for each in payloads(compression, acks))


def partition_of(position: int) -> int:
    return position % PARTITIONS


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})])[name].result(DEADLINE_S)
    await_leaders(bootstrap, name)


def await_leaders(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + DEADLINE_S
    while True:
        topic = admin.list_topics(timeout=DEADLINE_S).topics.get(name)
        partitions = topic.partitions.values() if topic is not None else ()
        if len(partitions) == PARTITIONS and all(each.leader >= 0 for each in partitions):
            return
        assert time.monotonic() < deadline, f"{name} has no leaders"
        time.sleep(0.05)


def read_all(bootstrap: str, topic: str, count: int) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "check.crcs": True}
    )
    found: list[confluent_kafka.Message] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                found.append(message)
    finally:
        consumer.close()
    return found


def test_librdkafka(bootstrap: str) -> None:
    create_topic(bootstrap, "librdkafka")
    outcomes: list[tuple[Any, Any]] = []
    for compression in COMPRESSIONS:
        for acks in ACKS:
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": bootstrap, "acks": acks, "compression.type": compression, "linger.ms": 5}
            )
            for position, value in enumerate(payloads(compression, acks)):
                producer.produce(
                    "librdkafka",
                    value,
                    partition=partition_of(position),
                    on_delivery=lambda *outcome: outcomes.append(outcome),
                )
            assert producer.flush(DEADLINE_S) == 0
    assert [error for error, _ in outcomes if error is not None] == []
    messages = read_all(bootstrap, "librdkafka", len(EXPECTED))
    assert sorted(each.value() or b"" for each in messages) == EXPECTED
    for partition in range(PARTITIONS):
        offsets = [each.offset() for each in messages if each.partition() == partition]
        assert offsets == list(range(len(offsets))), "dense offsets in order"


def test_aiokafka(bootstrap: str) -> None:
    assert asyncio.run(_aiokafka(bootstrap)) == EXPECTED


async def _aiokafka(bootstrap: str) -> list[bytes]:
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([aiokafka.admin.NewTopic("aiokafka", PARTITIONS, 3)])
    await admin.close()
    await asyncio.to_thread(await_leaders, bootstrap, "aiokafka")
    for compression in COMPRESSIONS:
        for acks in ACKS:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all" if acks == -1 else acks,
                compression_type=None if compression == "none" else compression,
                linger_ms=5,
            )
            await producer.start()
            sent = [
                await producer.send("aiokafka", value, partition=partition_of(position))
                for position, value in enumerate(payloads(compression, acks))
            ]
            await asyncio.wait_for(asyncio.gather(*sent), DEADLINE_S)
            await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    keys = [aiokafka.TopicPartition("aiokafka", each) for each in range(PARTITIONS)]
    consumer.assign(keys)
    await consumer.seek_to_beginning(*keys)
    values: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(values) < len(EXPECTED):
            values.append((await consumer.getone()).value)
    await consumer.stop()
    return sorted(values)


def test_kafka_python(bootstrap: str) -> None:
    servers = bootstrap.split(",")
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([kafka.admin.NewTopic("kafka-python", PARTITIONS, 3)])
    admin.close()
    await_leaders(bootstrap, "kafka-python")
    for compression in COMPRESSIONS:
        for acks in ACKS:
            producer = kafka.KafkaProducer(
                bootstrap_servers=servers,
                acks="all" if acks == -1 else acks,
                compression_type=None if compression == "none" else compression,
                linger_ms=5,
                enable_idempotence=False,  # acks 0 and 1 too; see test_idempotence
            )
            sent = [
                producer.send("kafka-python", value, partition=partition_of(position))
                for position, value in enumerate(payloads(compression, acks))
            ]
            producer.flush(DEADLINE_S)
            for each in sent:
                each.get(DEADLINE_S)
            producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    keys = [kafka.TopicPartition("kafka-python", each) for each in range(PARTITIONS)]
    consumer.assign(keys)
    consumer.seek_to_beginning(*keys)
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < len(EXPECTED) and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            values += [each.value for each in records]
    consumer.close()
    assert sorted(values) == EXPECTED


def test_kcat(bootstrap: str) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    create_topic(bootstrap, "kcat")
    for compression in COMPRESSIONS:
        for acks in ACKS:
            lines = b"\n".join(payloads(compression, acks)) + b"\n"
            settings = (f"compression.codec={compression}", f"acks={acks}")
            _kcat(kcat, ["-P", "-b", bootstrap, "-t", "kcat", *_options(settings)], lines)
    out = _kcat(kcat, ["-C", "-b", bootstrap, "-t", "kcat", "-e", "-q", "-o", "beginning"], b"")
    assert sorted(out.splitlines()) == EXPECTED
    described = _kcat(kcat, ["-L", "-b", bootstrap, "-t", "kcat"], b"").decode()
    assert "3 brokers" in described
    assert 'topic "kcat" with 3 partitions' in described


def _options(settings: Iterable[str]) -> list[str]:
    return [word for each in settings for word in ("-X", each)]


def _kcat(program: str, arguments: list[str], given: bytes) -> bytes:
    done = subprocess.run([program, *arguments], input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
