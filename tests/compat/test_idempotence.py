"""Idempotent producers of three libraries, in whose mid-stream the leader is killed: nothing is lost, and nothing is there twice.

On a cluster of their own: brokers die. The stream goes on until the new leader has acknowledged something, so
batches were under way when the old one died, and were sent again.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan
from harness.targets.shipped import ShippedTarget

DEADLINE_S = 40.0
BEFORE = 300
"""Records acknowledged before the leader dies."""
AFTER = 300
"""Records acknowledged after it has died."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedTarget]:
    folder: Path = tmp_path_factory.mktemp("idempotence")
    plan = TargetPlan(
        kind="shipped", brokers=3, session_timeout_ms=3000, settings={"auto.leader.rebalance.enable": "false"}
    )
    with LoopbackFleet(folder / "registry") as fleet:
        target = ShippedTarget(plan, logs=folder / "logs", data=folder / "data", fleet=fleet)
        try:
            target.start()
            yield target
        finally:
            target.stop()


class Killing:
    """The leader of the topic's one partition dies when enough records are acknowledged; the stream goes on."""

    def __init__(self, cluster: ShippedTarget, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self.acknowledged: dict[bytes, int] = {}
        """The offset of each value."""
        self._victim: str | None = None
        self._acknowledged_at_death = 0
        self._deadline = time.monotonic() + DEADLINE_S
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(topic, 1, 3, config={"min.insync.replicas": "2"})])[topic].result(DEADLINE_S)
        self._await(lambda: self.leader() >= 0, "a leader")
        self._await(lambda: cluster.view.unhealthy() == [], "a whole cluster")

    def leader(self) -> int:
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})
        found = admin.list_topics(self._topic, timeout=DEADLINE_S).topics[self._topic].partitions
        return int(found[0].leader) if 0 in found else -1

    def goes_on(self) -> bool:
        """To be asked before each record; kills when it is time."""
        assert time.monotonic() < self._deadline, f"{len(self.acknowledged)} records are acknowledged, no more come"
        if self._victim is None:
            if len(self.acknowledged) >= BEFORE:
                self._victim = f"broker-{self.leader()}"
                self._cluster.kill_node(self._victim)
                self._acknowledged_at_death = len(self.acknowledged)
            return True
        return len(self.acknowledged) < self._acknowledged_at_death + AFTER

    def check(self, sent: list[bytes]) -> None:
        """Every record is there once, in the order in which it was sent, and where it was acknowledged."""
        assert self._victim is not None
        assert sorted(self.acknowledged) == sorted(sent), "idempotent producers send again until it is acknowledged"
        self._cluster.start_node(self._victim)
        self._await(lambda: self._cluster.view.unhealthy() == [], "all replicas in sync again")
        found = self._read(len(sent))
        assert [value for value, count in Counter(found).items() if count > 1] == []
        assert found == sent
        assert {value: offset for offset, value in enumerate(found)} == self.acknowledged

    def _read(self, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._cluster.bootstrap, "group.id": self._topic, "enable.auto.commit": False}
        )
        key = confluent_kafka.TopicPartition(self._topic, 0, 0)
        _, end = consumer.get_watermark_offsets(key, timeout=DEADLINE_S)
        assert end >= count
        consumer.assign([key])
        found: list[bytes] = []
        while len(found) < end:
            messages = consumer.consume(500, timeout=DEADLINE_S)
            assert messages, f"{len(found)} of {end} records were read"
            for each in messages:
                assert each.error() is None
                found.append(each.value() or b"")
        consumer.close()
        return found

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: awaited for {DEADLINE_S} s"
            time.sleep(0.1)


def value(number: int) -> bytes:
    return b"%06d" % number


def test_librdkafka(cluster: ShippedTarget) -> None:
    killing = Killing(cluster, "idempotent-librdkafka")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, str(error)
        killing.acknowledged[message.value() or b""] = message.offset() or 0

    sent: list[bytes] = []
    while killing.goes_on():
        if len(sent) < len(killing.acknowledged) + 1000:
            sent.append(value(len(sent)))
            producer.produce("idempotent-librdkafka", sent[-1], partition=0, on_delivery=delivered)
        producer.poll(0.001)
    assert producer.flush(DEADLINE_S) == 0
    killing.check(sent)


def test_aiokafka(cluster: ShippedTarget) -> None:
    killing = Killing(cluster, "idempotent-aiokafka")
    asyncio.run(_with_aiokafka(cluster.bootstrap, killing))


async def _with_aiokafka(bootstrap: str, killing: Killing) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", linger_ms=1, request_timeout_ms=5000
    )
    await producer.start()
    sent: list[bytes] = []
    under_way: set[asyncio.Future[aiokafka.structs.RecordMetadata]] = set()

    def answered(future: asyncio.Future[aiokafka.structs.RecordMetadata], content: bytes) -> None:
        killing.acknowledged[content] = future.result().offset
        under_way.discard(future)

    while await asyncio.to_thread(killing.goes_on):
        while len(under_way) < 200:
            content = value(len(sent))
            sent.append(content)
            future = await producer.send("idempotent-aiokafka", content, partition=0)
            under_way.add(future)
            future.add_done_callback(functools.partial(answered, content=content))
        await asyncio.wait(under_way, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait_for(asyncio.gather(*under_way), DEADLINE_S)
    await producer.stop()
    killing.check(sent)


def test_kafka_python(cluster: ShippedTarget) -> None:
    killing = Killing(cluster, "idempotent-kafka-python")
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, linger_ms=1, request_timeout_ms=5000
    )
    sent: list[bytes] = []

    def delivered(metadata: kafka.producer.future.RecordMetadata, content: bytes) -> None:
        killing.acknowledged[content] = metadata.offset

    while killing.goes_on():
        if len(sent) < len(killing.acknowledged) + 500:
            sent.append(value(len(sent)))
            producer.send("idempotent-kafka-python", sent[-1], partition=0).add_callback(delivered, content=sent[-1])
        else:
            time.sleep(0.005)  # its own thread sends
    producer.flush(DEADLINE_S)
    producer.close()
    killing.check(sent)
