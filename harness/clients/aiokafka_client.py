"""aiokafka, behind the same interface: one event loop in a thread of its own serves all its clients.

It retries inside until its time-out and does not say how often, so everything but a local refusal is
unknown (see :mod:`harness.clients.errors`), and retries are not observable.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar

import aiokafka
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from harness.clients import errors
from harness.clients.base import (
    ALL,
    Batch,
    Burst,
    ClientError,
    ProducerConfig,
    TopicPartition,
)
from histories.schema import Isolation, Outcome

START_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 2.0
SLICE_S: Final = 0.05

T = TypeVar("T")


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        # Broken connections are what a run is about; aiokafka logs each one.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)
        threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True).start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run it to its end. Raises ClientError when it fails or takes too long."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            future.cancel()
            raise ClientError("_TIMED_OUT") from None
        except (KafkaError, OSError) as error:
            raise ClientError(type(error).__name__) from None

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class AiokafkaProducer:
    def __init__(self, loop: _Loop, bootstrap: str, config: ProducerConfig, client_id: str) -> None:
        self._loop = loop
        self._config = config
        self._producer = loop.call(_started_producer(bootstrap, config, client_id), START_TIMEOUT_S)

    def send_burst(
        self,
        targets: Sequence[TopicPartition],
        payloads: Sequence[bytes],
        left_s: Callable[[], float],
        meanwhile: Callable[[], None] | None = None,
    ) -> Burst:
        count, now = len(payloads), time.monotonic_ns()
        burst = Burst([Outcome.INFO] * count, [None] * count, [now] * count, [None] * count)
        future = self._loop.submit(self._send_all(targets, payloads, burst))
        if meanwhile is not None:
            meanwhile()
        while (left := left_s()) > 0:
            try:
                future.result(min(left, SLICE_S))
                return burst
            except FutureTimeout:
                continue
        future.cancel()
        # The loop may still be writing outcomes: what is returned must not change any more.
        return Burst(
            list(burst.statuses),
            list(burst.offsets),
            list(burst.invoke_ns),
            list(burst.complete_ns),
            dict(burst.errors),
        )

    async def _send_all(self, targets: Sequence[TopicPartition], payloads: Sequence[bytes], burst: Burst) -> None:
        waiting = []
        for position, ((topic, partition), payload) in enumerate(zip(targets, payloads, strict=True)):
            burst.invoke_ns[position] = time.monotonic_ns()
            try:
                future = await self._producer.send(topic, payload, partition=partition)
            except KafkaError as error:
                # Raised before the record was queued: it never left.
                burst.complete_ns[position] = time.monotonic_ns()
                burst.errors[position] = type(error).__name__
                burst.statuses[position] = errors.LOCAL_REFUSAL
                continue
            waiting.append(self._outcome(position, future, burst))
        await asyncio.gather(*waiting)

    async def _outcome(self, position: int, future: asyncio.Future[Any], burst: Burst) -> None:
        try:
            metadata = await future
        except KafkaError as error:
            burst.errors[position] = type(error).__name__
            burst.complete_ns[position] = time.monotonic_ns()
            return
        burst.complete_ns[position] = time.monotonic_ns()
        if self._config.acks != 0:
            burst.offsets[position] = metadata.offset
            burst.statuses[position] = Outcome.OK

    def retries(self) -> None:
        return None

    def abandon(self) -> None:
        self._loop.submit(_abandon_producer(self._producer))


async def _started_producer(bootstrap: str, config: ProducerConfig, client_id: str) -> Any:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        acks="all" if config.acks == ALL else config.acks,
        enable_idempotence=config.idempotence,
        linger_ms=config.linger_ms,
        # It has one time-out, after which a batch is given up.
        request_timeout_ms=config.delivery_timeout_ms,
        metadata_max_age_ms=5000,
    )
    await _start(producer)
    return producer


async def _start(client: Any) -> None:
    try:
        await client.start()
    except (KafkaError, OSError, asyncio.CancelledError):
        await client.stop()
        raise


async def _abandon_producer(producer: Any) -> None:
    # The connections go first: stop() alone would deliver what is queued.
    await producer.client.close()
    await _bounded(producer.stop())


async def _bounded(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await asyncio.wait_for(work, CLOSE_TIMEOUT_S)
    except (TimeoutError, KafkaError, OSError):
        return  # abandoned either way


class AiokafkaConsumer:
    def __init__(self, loop: _Loop, bootstrap: str, isolation: Isolation, client_id: str) -> None:
        self._loop = loop
        self._consumer = loop.call(_started_consumer(bootstrap, isolation, client_id), START_TIMEOUT_S)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._loop.call(self._assign(positions), START_TIMEOUT_S)

    async def _assign(self, positions: Mapping[TopicPartition, int]) -> None:
        # Both without giving way to the fetcher: it never sees the assignment without its positions.
        self._consumer.assign([aiokafka.TopicPartition(*each) for each in positions])
        for each, offset in positions.items():
            self._consumer.seek(aiokafka.TopicPartition(*each), offset)

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        batch = Batch()
        work = self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        try:
            polled = self._loop.submit(work).result(timeout_s + START_TIMEOUT_S)
        except OffsetOutOfRangeError as error:
            batch.error = "OffsetOutOfRangeError"
            batch.out_of_range = [(each.topic, each.partition) for each in error.args[0]]
            return batch
        except (KafkaError, OSError, FutureTimeout) as error:
            batch.error = type(error).__name__
            return batch
        for source, records in polled.items():
            partition = (source.topic, source.partition)
            for record in records:
                batch.sources.append(partition)
                batch.offsets.append(record.offset)
                batch.payloads.append(record.value)
        return batch

    def watermarks(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
        return self._loop.call(self._watermarks(partition), timeout_s)

    async def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        wanted = aiokafka.TopicPartition(*partition)
        starts = await self._consumer.beginning_offsets([wanted])
        ends = await self._consumer.end_offsets([wanted])
        return int(starts[wanted]), int(ends[wanted])

    def abandon(self) -> None:
        self._loop.submit(_bounded(self._consumer.stop()))


async def _started_consumer(bootstrap: str, isolation: Isolation, client_id: str) -> Any:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        group_id=None,
        auto_offset_reset="none",
        enable_auto_commit=False,
        check_crcs=True,
        isolation_level=str(isolation),
        fetch_max_wait_ms=100,
        request_timeout_ms=5000,
        metadata_max_age_ms=5000,
    )
    await _start(consumer)
    return consumer


class Aiokafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = _Loop()

    def producer(self, config: ProducerConfig, client_id: str) -> AiokafkaProducer:
        return AiokafkaProducer(self._loop, self._bootstrap, config, client_id)

    def consumer(self, isolation: Isolation, client_id: str) -> AiokafkaConsumer:
        return AiokafkaConsumer(self._loop, self._bootstrap, isolation, client_id)

    def close(self) -> None:
        self._loop.stop()
