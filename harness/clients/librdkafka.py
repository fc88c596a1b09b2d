"""librdkafka through confluent-kafka.

Settings that the recording depends on: ``auto.offset.reset=error`` (a reset is otherwise invisible; the
workload records it and seeks), no auto-commit, ``check.crcs``. Moving a position is a new ``assign`` with
explicit offsets, never ``seek``: it needs no fetcher to be up, and drops what was fetched for the old one.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count as count_up
from itertools import islice
from typing import Any, Final

import confluent_kafka as kafka
import numpy as np

from harness.clients import errors
from harness.clients.base import (
    Batch,
    Burst,
    ClientError,
    ProducerConfig,
    TopicPartition,
)
from histories.schema import Isolation, Outcome

STATISTICS_INTERVAL_MS: Final = 500
WAIT_S: Final = 0.1
GATHER_S: Final = 0.01
"""How long a poll that has a record waits for more: ``consume`` would wait for all of them or its time-out."""
SENDS_PER_STAMP: Final = 16
"""Reading the clock takes a tenth of a send; handing over so many takes a few microseconds."""
NO_OFFSET: Final = -1
"""Of an outcome that has come without one."""
NO_ERROR: Final = kafka.KafkaError.NO_ERROR
OUT_OF_RANGE: Final = kafka.KafkaError._AUTO_OFFSET_RESET

_Callback = Callable[[Any, Any], None]


def _ignore_log(*_: object) -> None:
    """Disconnects are what a run is about; their log lines would only fill the worker's stderr."""


class _QuietLogger:
    """What confluent-kafka wants of a logger."""

    def log(self, *_: object) -> None:
        return


def producer_settings(bootstrap: str, config: ProducerConfig, client_id: str) -> dict[str, Any]:
    """A producer's settings, by librdkafka's names."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "acks": config.acks,
        "enable.idempotence": config.idempotence,
        "retries": config.retries,
        "max.in.flight.requests.per.connection": config.max_in_flight,
        "delivery.timeout.ms": config.delivery_timeout_ms,
        "request.timeout.ms": config.request_timeout_ms,
        "socket.timeout.ms": config.request_timeout_ms + 1000,
        "linger.ms": config.linger_ms,
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
        "error_cb": _ignore_log,
    }
    if config.idempotence and config.retries == 0:
        del settings["retries"]  # librdkafka refuses the combination: idempotence needs retries
    return settings


class LibrdkafkaProducer:
    """One producer object. Used by one thread.

    What is done per record is done as rarely as possible. The delivery callbacks are made once per position in a
    burst and used for every burst: a burst only begins when all outcomes of the one before are in, or on a new
    producer. They keep the offset and nothing else. A send begins at the time that was read before it or a few sends
    earlier, and is acknowledged at the time when the ``poll`` that reported it returned: never too late, never too
    early.
    """

    def __init__(self, bootstrap: str, config: ProducerConfig, client_id: str) -> None:
        self._config = config
        self._retries = 0
        self._handed_over = 0
        settings = producer_settings(bootstrap, config, client_id)
        settings["stats_cb"] = self._on_statistics
        self._producer = kafka.Producer(settings, logger=_QuietLogger())
        self._offsets: list[int | None] = []
        """By position, as soon as the outcome is there; NO_OFFSET where it has none."""
        self._order: list[int] = []
        """Positions in the order in which their outcomes came."""
        self._odd: dict[int, int] = {}
        """Error codes by position; NO_ERROR where an offset was expected and is missing."""
        self._callbacks: list[_Callback] = []

    def send_burst(
        self,
        targets: Sequence[TopicPartition],
        payloads: Sequence[bytes],
        left_s: Callable[[], float],
        meanwhile: Callable[[], None] | None = None,
    ) -> Burst:
        count = len(payloads)
        self._handed_over += count  # before the first is: a statistic in between must not count too much
        self._offsets[:] = [None] * count
        self._order.clear()
        self._odd.clear()
        while len(self._callbacks) < count:
            self._callbacks.append(self._callback(len(self._callbacks)))
        refused: dict[int, str] = {}
        stamps_ns, usable = self._hand_over(targets, payloads, refused)
        if meanwhile is not None:
            meanwhile()
        invoke_ns = array("q", np.repeat(stamps_ns, SENDS_PER_STAMP)[:count].tobytes())
        complete_ns, still_usable = self._awaited(refused, left_s)
        return self._outcome(invoke_ns, complete_ns, refused, usable and still_usable)

    def _hand_over(
        self, targets: Sequence[TopicPartition], payloads: Sequence[bytes], refused: dict[int, str]
    ) -> tuple[list[int], bool]:
        """The times before every SENDS_PER_STAMP records, and whether the client can be used any further."""
        stamps_ns: list[int] = []
        usable = True
        produce = self._producer.produce
        sends = zip(count_up(), targets, payloads, self._callbacks, strict=False)
        for _ in range(0, len(payloads), SENDS_PER_STAMP):
            stamps_ns.append(time.monotonic_ns())
            for position, (topic, partition), payload, callback in islice(sends, SENDS_PER_STAMP):
                try:
                    produce(topic, payload, None, partition, callback)
                except BufferError:
                    refused[position] = "_QUEUE_FULL"
                except kafka.KafkaException as error:
                    refused[position] = str(error.args[0].name())
                    usable = False  # a fatal error of the producer, mostly: it refuses all that follows
        return stamps_ns, usable

    def _awaited(
        self, refused: dict[int, str], left_s: Callable[[], float]
    ) -> tuple[array[int] | list[int | None], bool]:
        """Wait for the outcomes; when each was there, and whether the client can be used any further."""
        order, poll, clock = self._order, self._producer.poll, time.monotonic_ns
        usable = True
        awaited = len(self._offsets) - len(refused)
        stamps_ns: list[int] = []
        landed: list[int] = []
        """How many outcomes each poll brought."""
        seen = 0
        while seen < awaited and (left := left_s()) > 0:
            try:
                poll(left if left < WAIT_S else WAIT_S)
            except kafka.KafkaException:
                # A fatal error of an idempotent producer, such as sequences that an unclean election has cut off, is
                # raised here besides being reported for each record: those reports still come.
                usable = False
            stamps_ns.append(clock())
            landed.append(len(order) - seen)
            seen = len(order)
        complete_ns = np.zeros(len(self._offsets), np.int64)
        complete_ns[order] = np.repeat(np.array(stamps_ns, np.int64), landed)
        if seen < awaited:
            return [int(at) or None for at in complete_ns], usable
        return array("q", complete_ns.tobytes()), usable

    def _callback(self, position: int) -> _Callback:
        offsets, odd, acknowledged = self._offsets, self._odd, self._config.acks != 0
        land = self._order.append

        def delivered(error: Any, message: Any) -> None:
            land(position)
            offset = message.offset()
            if error is None and offset is not None:
                offsets[position] = offset
                return
            if error is not None:
                odd[position] = error.code()
            elif acknowledged:
                # A retry whose first attempt the broker has already: it does not say where.
                odd[position] = NO_ERROR
            offsets[position] = NO_OFFSET

        return delivered

    def _outcome(
        self,
        invoke_ns: array[int],
        complete_ns: array[int] | list[int | None],
        refused: dict[int, str],
        usable: bool,
    ) -> Burst:
        count, config, odd = len(invoke_ns), self._config, self._odd
        offsets = self._offsets.copy()
        if config.acks == 0:
            burst = Burst([errors.DELIVERED_WITHOUT_ACK] * count, [None] * count, invoke_ns, complete_ns)
        elif usable and not odd and not refused and isinstance(complete_ns, array):
            return Burst([Outcome.OK] * count, offsets, invoke_ns, complete_ns)
        else:
            statuses = [Outcome.INFO if offset is None else Outcome.OK for offset in offsets]
            burst = Burst(statuses, offsets, invoke_ns, complete_ns)
        burst.usable = usable
        for position, code in odd.items():
            burst.offsets[position] = None
            if code != NO_ERROR:
                burst.statuses[position] = errors.delivery_outcome(
                    code, retries=config.retries, idempotent=config.idempotence
                )
                burst.errors[position] = errors.name_of(code)
        for position, name in refused.items():
            burst.offsets[position] = None
            burst.statuses[position] = errors.LOCAL_REFUSAL
            burst.complete_ns[position] = invoke_ns[position]
            burst.errors[position] = name
        return burst

    def _on_statistics(self, text: str) -> None:
        """Count records that were sent again: transmitted more often than handed over.

        Not by the brokers' ``txretries``: they do not count what a lost connection makes librdkafka send
        again, and they start from zero with each new connection (tried with 2.16)."""
        partitions = [each for topic in json.loads(text)["topics"].values() for each in topic["partitions"].values()]
        transmitted = sum(each["txmsgs"] for each in partitions)
        self._retries = max(self._retries, transmitted - self._handed_over)

    def retries(self) -> int:
        return self._retries

    def abandon(self) -> None:
        self._producer.purge(blocking=False)
        with suppress(kafka.KafkaException):  # the fatal error for which it is abandoned
            self._producer.poll(0)


class LibrdkafkaConsumer:
    """One consumer object. It has a group id because librdkafka wants one, and never joins the group."""

    def __init__(self, bootstrap: str, isolation: Isolation, client_id: str) -> None:
        self._consumer = kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": client_id,
                "isolation.level": str(isolation),
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 100,
                "reconnect.backoff.max.ms": 1000,
                "socket.timeout.ms": 5000,
                "topic.metadata.refresh.interval.ms": 5000,
                "error_cb": _ignore_log,
            },
            logger=_QuietLogger(),
        )

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._consumer.assign(
            [kafka.TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
        )

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        batch = Batch()
        try:
            first = self._consumer.poll(timeout_s)
            if first is None:
                return batch
            messages: list[Any] = [first, *self._consumer.consume(max_records - 1, GATHER_S)]
        except (kafka.KafkaException, RuntimeError) as failure:
            batch.error = _name(failure)
            return batch
        sources, offsets, payloads = batch.sources, batch.offsets, batch.payloads
        for message in messages:
            error = message.error()
            if error is None:
                sources.append((message.topic(), message.partition()))
                offsets.append(message.offset())
                payloads.append(message.value())
                continue
            code = error.code()
            if code == OUT_OF_RANGE:
                batch.out_of_range.append((message.topic(), message.partition()))
            batch.error = batch.error or error.name()
        return batch

    def watermarks(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
        try:
            marks = self._consumer.get_watermark_offsets(
                kafka.TopicPartition(*partition), timeout=timeout_s, cached=False
            )
        except kafka.KafkaException as error:
            raise ClientError(_name(error)) from None
        if marks is None:
            raise ClientError("_TIMED_OUT")
        return int(marks[0]), int(marks[1])

    def abandon(self) -> None:
        # No group was joined and nothing is committed: nobody notices this close.
        self._consumer.close()


def _name(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.name()) if isinstance(first, kafka.KafkaError) else str(first)


class Librdkafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, config: ProducerConfig, client_id: str) -> LibrdkafkaProducer:
        return LibrdkafkaProducer(self._bootstrap, config, client_id)

    def consumer(self, isolation: Isolation, client_id: str) -> LibrdkafkaConsumer:
        return LibrdkafkaConsumer(self._bootstrap, isolation, client_id)

    def close(self) -> None:
        return
