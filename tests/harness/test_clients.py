"""Both client libraries against the mock broker that librdkafka has built in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from harness.clients.base import Batch, Consumer, Library, Patience, ProducerConfig
from harness.clients.librdkafka import LibrdkafkaProducer
from harness.clients.registry import LIBRARIES, MIXED, libraries_of, producer_config, producer_settings
from harness.plan import ClientPlan
from histories.schema import Isolation, Outcome
from tests.harness.cutting_proxy import CuttingProxy
from tests.harness.waiting import wait_until

TOPIC = "t"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    host = confluent_kafka.Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = host.list_topics(TOPIC, timeout=10).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    host.flush(0)  # the mock broker lives as long as its host


@pytest.fixture(scope="module", params=MIXED)
def library(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Library]:
    made = LIBRARIES[request.param](bootstrap)
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxy(bootstrap: str) -> Iterator[CuttingProxy]:
    made = CuttingProxy(int(bootstrap.rpartition(":")[2]))
    yield made
    made.close()


def config(**changes: object) -> ProducerConfig:
    return producer_config(ClientPlan(**changes))  # type: ignore[arg-type]


def patient() -> Callable[[], float]:
    return Patience().until(10)


def read(consumer: Consumer, count: int) -> Batch:
    got = Batch()

    def enough() -> bool:
        batch = consumer.poll(100, 0.2)
        got.sources += batch.sources
        got.offsets += batch.offsets
        got.payloads += batch.payloads
        got.error, got.out_of_range = batch.error, batch.out_of_range
        return len(got.offsets) >= count or batch.error is not None

    wait_until(enough, f"{count} records or an error")
    return got


@pytest.mark.parametrize("isolation", Isolation)
def test_what_is_acknowledged_is_read_at_its_offset(library: Library, isolation: Isolation) -> None:
    producer = library.producer(config(idempotence=False), "p")
    payloads = [b"%d" % number for number in range(20)]
    called = []
    burst = producer.send_burst([(TOPIC, 1)] * 20, payloads, patient(), lambda: called.append(1))
    assert called == [1]
    assert burst.statuses == [Outcome.OK] * 20
    assert not burst.errors
    first = burst.offsets[0]
    assert first is not None
    assert burst.offsets == list(range(first, first + 20))
    assert all(begin <= (end or 0) for begin, end in zip(burst.invoke_ns, burst.complete_ns, strict=True))
    consumer = library.consumer(isolation, "c")
    assert consumer.watermarks((TOPIC, 1), 5) == (0, first + 20)
    consumer.assign({(TOPIC, 1): first + 5})
    got = read(consumer, 15)
    assert got.payloads == payloads[5:]
    assert got.offsets == burst.offsets[5:]
    assert set(got.sources) == {(TOPIC, 1)}
    consumer.assign({(TOPIC, 1): first})
    assert read(consumer, 20).payloads == payloads
    consumer.abandon()
    producer.abandon()


def test_a_second_burst_does_not_remember_the_first(library: Library) -> None:
    producer = library.producer(config(idempotence=False), "p")
    first = producer.send_burst([(TOPIC, 0)] * 5, [b"x"] * 5, patient())
    kept = list(first.offsets)
    second = producer.send_burst([(TOPIC, 0)] * 3, [b"y"] * 3, patient())
    assert len(second.offsets) == len(second.statuses) == 3
    assert first.offsets == kept
    assert kept[-1] is not None
    assert second.offsets[0] == kept[-1] + 1
    producer.abandon()


def test_sends_without_acknowledgement_are_unknown_and_have_no_offset(library: Library) -> None:
    producer = library.producer(config(acks="0", idempotence=False), "p")
    burst = producer.send_burst([(TOPIC, 2)] * 4, [b"x"] * 4, patient())
    assert burst.statuses == [Outcome.INFO] * 4
    assert burst.offsets == [None] * 4
    assert None not in burst.complete_ns
    assert not burst.errors
    producer.abandon()


def test_a_position_that_the_broker_does_not_have_is_named(library: Library) -> None:
    consumer = library.consumer(Isolation.READ_COMMITTED, "c")
    consumer.assign({(TOPIC, 3): 10_000})
    got = read(consumer, 1)
    assert got.error
    assert got.out_of_range == [(TOPIC, 3)]
    consumer.abandon()


def test_patience_that_ends_leaves_sends_unknown(library: Library) -> None:
    producer = library.producer(config(idempotence=False, linger_ms=900), "p")
    burst = producer.send_burst([(TOPIC, 0)] * 3, [b"x"] * 3, Patience().until(0.05))
    assert burst.statuses == [Outcome.INFO] * 3
    assert burst.complete_ns == [None] * 3
    producer.abandon()


def test_a_record_that_is_too_large_never_leaves(library: Library) -> None:
    producer = library.producer(config(idempotence=False), "p")
    burst = producer.send_burst([(TOPIC, 0)] * 2, [bytes(2_000_000), b"x"], patient())
    assert burst.statuses == [Outcome.FAIL, Outcome.OK]
    assert set(burst.errors) == {0}
    producer.abandon()


def test_each_send_has_its_times_inside_those_of_the_burst(library: Library) -> None:
    """Also where the clock is read once for several sends."""
    producer = library.producer(config(idempotence=False), "p")
    handed_over: list[int] = []
    began = time.monotonic_ns()
    burst = producer.send_burst(
        [(TOPIC, 0)] * 50,
        [b"%d" % each for each in range(50)],
        patient(),
        lambda: handed_over.append(time.monotonic_ns()),
    )
    ended = time.monotonic_ns()
    assert len(burst.invoke_ns) == len(burst.complete_ns) == 50
    assert list(burst.invoke_ns) == sorted(burst.invoke_ns)
    for invoke_ns, complete_ns in zip(burst.invoke_ns, burst.complete_ns, strict=True):
        assert complete_ns is not None
        assert began <= invoke_ns <= complete_ns <= ended
    if isinstance(producer, LibrdkafkaProducer):  # the other one sends in a thread of its own
        assert len(set(burst.invoke_ns)) > 1
        assert burst.invoke_ns[-1] <= handed_over[0]
    producer.abandon()


def test_a_burst_of_which_nothing_leaves_is_not_waited_for(library: Library) -> None:
    producer = library.producer(config(idempotence=False), "p")
    burst = producer.send_burst([(TOPIC, 0)] * 2, [bytes(2_000_000)] * 2, patient())
    assert burst.statuses == [Outcome.FAIL] * 2
    assert None not in burst.complete_ns
    assert sorted(burst.errors) == [0, 1]
    producer.abandon()


def test_an_outcome_is_stamped_when_it_comes_not_when_the_burst_ends(bootstrap: str) -> None:
    """One partition is answered at once, the other never."""
    producer = LIBRARIES["librdkafka"](bootstrap).producer(config(idempotence=False, delivery_timeout_ms=1500), "p")
    targets = [(TOPIC, 0), ("no-such-topic", 7)] * 2
    burst = producer.send_burst(targets, [b"0", b"1", b"2", b"3"], patient())
    assert burst.statuses == [Outcome.OK, Outcome.INFO] * 2
    assert sorted(burst.errors) == [1, 3]
    assert [offset is None for offset in burst.offsets] == [False, True] * 2
    quick, late = (max(burst.complete_ns[first] or 0, burst.complete_ns[first + 2] or 0) for first in (0, 1))
    assert burst.invoke_ns[3] <= quick < late
    producer.abandon()


def test_a_record_that_the_broker_had_already_is_acknowledged_without_an_offset(bootstrap: str) -> None:
    """So librdkafka reports a retry that is answered with DUPLICATE_SEQUENCE_NUMBER."""

    class Answer:
        def offset(self) -> None:
            return None

    producer = LIBRARIES["librdkafka"](bootstrap).producer(config(), "p")
    assert isinstance(producer, LibrdkafkaProducer)
    burst = producer.send_burst(
        [(TOPIC, 0)] * 2, [b"0", b"1"], patient(), lambda: producer._callbacks[1](None, Answer())
    )
    assert burst.statuses == [Outcome.OK] * 2
    assert [offset is None for offset in burst.offsets] == [False, True]
    assert None not in burst.complete_ns
    producer.abandon()


@pytest.mark.parametrize("idempotence", [True, False])
def test_records_that_are_sent_again_are_counted(proxy: CuttingProxy, idempotence: bool) -> None:
    producer = LIBRARIES["librdkafka"](proxy.bootstrap).producer(config(idempotence=idempotence), "p")
    assert producer.send_burst([(TOPIC, 0)], [b"x"], patient()).statuses == [Outcome.OK]
    assert producer.retries() == 0
    proxy.cut()
    assert producer.send_burst([(TOPIC, 0)] * 5, [b"x"] * 5, patient()).statuses == [Outcome.OK] * 5

    def counted() -> bool:  # statistics come with the polls of later bursts
        producer.send_burst([(TOPIC, 0)], [b"x"], patient())
        return bool(producer.retries())

    wait_until(counted, "records of the burst, counted as sent again")
    assert proxy.has_cut
    # The client may have split the burst into requests of which one was cut off.
    assert 1 <= (producer.retries() or 0) <= 5
    producer.abandon()


def test_without_retries_a_lost_answer_leaves_the_send_unknown(proxy: CuttingProxy) -> None:
    library = LIBRARIES["librdkafka"](proxy.bootstrap)
    producer = library.producer(config(idempotence=False, retries=0), "p")
    assert producer.send_burst([(TOPIC, 0)], [b"x"], patient()).statuses == [Outcome.OK]
    proxy.cut()
    burst = producer.send_burst([(TOPIC, 0)], [b"x"], patient())
    assert (burst.statuses, burst.errors) == ([Outcome.INFO], {0: "_TRANSPORT"})
    producer.abandon()


def test_what_a_plan_makes_of_the_libraries() -> None:
    mixed = ClientPlan(library="mixed", retries=0, idempotence=False, acks="1")
    assert libraries_of(mixed) == ("librdkafka", "aiokafka")
    kinds = producer_settings(mixed)
    assert [(kind.client, kind.acks, kind.idempotent) for kind in kinds] == [
        ("librdkafka", 1, False),
        ("aiokafka", 1, False),
        ("librdkafka", -1, False),
    ]
    assert all(kind.retries > 0 for kind in kinds), "all of them send again by themselves"
    assert producer_settings(ClientPlan())[0].retries == 1000


class _FatalOnce:
    """A producer whose first poll raises what librdkafka raises after a fatal error; the rest is the real one's."""

    def __init__(self, producer: confluent_kafka.Producer) -> None:
        self._producer = producer
        self._raised = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._producer, name)

    def poll(self, timeout: float) -> int:
        if not self._raised:
            self._raised = True
            code = confluent_kafka.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(code, "desynchronized", fatal=True))
        return self._producer.poll(timeout)


def test_a_fatal_error_ends_the_client_and_not_the_worker(bootstrap: str) -> None:
    producer = LibrdkafkaProducer(bootstrap, config(), "fatal")
    producer._producer = _FatalOnce(producer._producer)  # type: ignore[assignment]
    burst = producer.send_burst([(TOPIC, 0)] * 3, [b"x"] * 3, patient())
    assert not burst.usable
    assert burst.statuses == [Outcome.OK] * 3, "reports that come after the error are still heard"
    producer.abandon()
