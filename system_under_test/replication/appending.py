"""Produce on a broker: appends to leaders, and the wait of acks=all for the high watermark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.produce_response import PartitionResult
from system_under_test.replication.delayed import DelayedOperation
from system_under_test.replication.partition import Partition
from system_under_test.storage.log import AppendInfo
from system_under_test.types import TopicPartition

log = logging.getLogger(__name__)

Results = list[PartitionResult]


class DelayedProduce(DelayedOperation):
    """Waits until each partition's high watermark has passed what was appended, or its leader has lost its role."""

    __slots__ = ("_answer", "_open", "_results", "_then")

    def __init__(
        self,
        results: Results,
        waiting: dict[TopicPartition, tuple[int, Partition, int]],
        then: Callable[[Results], Any] | None = None,
    ) -> None:
        """``waiting``: by partition, its place in ``results``, itself, and the offset that must be committed. ``then`` makes
        of the results what the request is answered with."""
        self._then = then
        self._results = results
        self._open = waiting
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def answer(self) -> asyncio.Future[Any]:
        return self._answer

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(self._open)

    @property
    def is_done(self) -> bool:
        return not self._open

    def try_complete(self, key: TopicPartition) -> bool:
        waiting = self._open.get(key)
        if waiting is not None:
            index, partition, required_offset = waiting
            state = partition.ack_state(required_offset)
            if state is not None:
                del self._open[key]
                if state is not ErrorCode.none:
                    self._results[index] = replace(self._results[index], error=state)
        return not self._open

    def on_complete(self) -> None:
        if not self._answer.done():
            self._answer.set_result(self._results if self._then is None else self._then(self._results))

    def on_expire(self) -> None:
        for index, _, _ in self._open.values():
            self._results[index] = replace(self._results[index], error=ErrorCode.request_timed_out)
        self.on_complete()


def appended(index: int, info: AppendInfo) -> PartitionResult:
    return PartitionResult(
        index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def refused(topic_partition: TopicPartition, error: ApiError | OSError) -> PartitionResult:
    if isinstance(error, ApiError):
        return PartitionResult(topic_partition.partition, error.code, error_message=error.message)
    log.error("%s: append failed: %s", topic_partition, error)
    return PartitionResult(topic_partition.partition, ErrorCode.kafka_storage_error, error_message=str(error))
