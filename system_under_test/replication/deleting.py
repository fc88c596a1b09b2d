"""DeleteRecords on a leader: its log's start moves at once, and the answer waits until live replicas have followed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from system_under_test.protocol.errors import ErrorCode
from system_under_test.replication.delayed import DelayedOperation
from system_under_test.replication.partition import Partition
from system_under_test.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Deletion:
    topic_partition: TopicPartition
    low_watermark: int
    error: ErrorCode


class DelayedDeleteRecords(DelayedOperation):
    __slots__ = ("_answer", "_open", "_results")

    def __init__(self, results: list[Deletion], waiting: dict[TopicPartition, tuple[int, Partition, int]]) -> None:
        """``waiting``: by partition, its place in ``results``, itself, and the low watermark that is awaited."""
        self._results = results
        self._open = waiting
        self._answer: asyncio.Future[list[Deletion]] = asyncio.get_running_loop().create_future()

    @property
    def answer(self) -> asyncio.Future[list[Deletion]]:
        return self._answer

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(self._open)

    def try_complete(self, key: TopicPartition) -> bool:
        waiting = self._open.get(key)
        if waiting is not None:
            index, partition, required = waiting
            if not partition.is_leader:
                self._results[index] = Deletion(key, -1, ErrorCode.not_leader_or_follower)
                del self._open[key]
            elif partition.low_watermark >= required:
                self._results[index] = Deletion(key, partition.low_watermark, ErrorCode.none)
                del self._open[key]
        return not self._open

    def on_complete(self) -> None:
        if not self._answer.done():
            self._answer.set_result(self._results)

    def on_expire(self) -> None:
        for key, (index, _, _) in self._open.items():
            self._results[index] = Deletion(key, -1, ErrorCode.request_timed_out)
        self.on_complete()
