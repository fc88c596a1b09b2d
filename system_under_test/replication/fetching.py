"""Fetch on a leader: reads for followers and consumers, and the wait for ``min_bytes``.

A follower's fetch is its acknowledgement of everything before the offset that it asks for, and is counted when it
arrives, not when it is answered. Each fetch of a follower is checked for divergence (see :mod:`truncation`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.fetch_response import EpochEndOffset, LeaderIdAndEpoch, PartitionData
from system_under_test.replication.delayed import DelayedOperation
from system_under_test.replication.isr import RemoteReplica
from system_under_test.replication.partition import NO_EPOCH, Leadership, Partition
from system_under_test.replication.truncation import diverges
from system_under_test.types import TopicPartition
from system_under_test.world import Buffer

NO_TOPIC_ID = uuid.UUID(int=0)


Asker = tuple[int, int, bool]
"""Replica id, broker epoch, whether read_committed: what of a request decides its answers beside the offsets."""


class FetchParams(NamedTuple):
    replica_id: int
    """-1 for consumers; below that for debugging ones."""
    broker_epoch: int
    max_wait_s: float
    min_bytes: int
    max_bytes: int
    read_committed: bool

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def asker(self) -> Asker:
        return self.replica_id, self.broker_epoch, self.read_committed


@dataclass(slots=True)
class FetchPartition:
    """What is asked of one partition. Kept in fetch sessions, and changed there by later requests."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1
    error: ErrorCode = ErrorCode.none
    """Known before anything is read: the topic id is not known."""
    quiet: Quiet | None = field(default=None, compare=False, repr=False)


class Quiet(NamedTuple):
    """A reading that found the partition's end, and all that it depended on. Most partitions of a session are idle most of the
    time: as long as nothing of it has changed the same answer is right, and nothing is checked or read again."""

    asker: Asker
    partition: Partition
    leadership: Leadership
    end_offset: int
    high_watermark: int
    start_offset: int
    replica: RemoteReplica | None
    """The follower that asked."""
    answer: PartitionData

    def holds(self, asker: Asker) -> bool:
        partition = self.partition
        log = partition.log
        return (
            # A new one for each leader epoch, and None from the moment on in which the replica is deleted.
            partition.leadership is self.leadership
            and log.end_offset == self.end_offset
            and log.high_watermark == self.high_watermark
            and log.start_offset == self.start_offset
            and asker == self.asker
        )

    def fetched_again(self, asked: FetchPartition, now: float) -> bool:
        """Count the follower's fetch, if all that it tells is that the follower is still there: it is in the ISR, and has what
        it had when it fetched before. Otherwise it is not counted, and the caller has to look closer."""
        replica = self.replica
        if (
            replica is None
            or replica.log_end_offset != asked.fetch_offset
            or replica.log_start_offset != asked.log_start_offset
            or replica.broker_epoch != self.asker[1]
            or replica.broker_id not in self.leadership.isr.isr
        ):
            return False
        replica.fetched(asked.fetch_offset, asked.log_start_offset, self.end_offset, now, replica.broker_epoch)
        return True


def failed(asked: FetchPartition, code: ErrorCode, partition: Partition | None) -> PartitionData:
    leader = None
    if partition is not None and code in (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch):
        leader = LeaderIdAndEpoch(partition.leader_id, partition.leader_epoch)
    return PartitionData(asked.topic_partition.partition, code, current_leader=leader)


def check(partition: Partition, params: FetchParams, asked: FetchPartition) -> PartitionData | None:
    """Raise what forbids this fetch. The answer, if the logs diverge; None if it can be read."""
    partition.leading(asked.current_leader_epoch)
    if asked.topic_id != NO_TOPIC_ID and partition.topic_id not in (None, asked.topic_id):
        raise ApiError(ErrorCode.inconsistent_topic_id)
    if asked.last_fetched_epoch != NO_EPOCH:
        end = partition.end_of_epoch(asked.last_fetched_epoch)
        if end.is_undefined or asked.fetch_offset < partition.log.start_offset:
            raise ApiError(ErrorCode.offset_out_of_range)
        if diverges(end, asked.last_fetched_epoch, asked.fetch_offset):
            log = partition.log
            return PartitionData(
                asked.topic_partition.partition,
                ErrorCode.none,
                log.high_watermark,
                partition.last_stable_offset,
                log.start_offset,
                aborted=_aborted(params),
                diverging_epoch=EpochEndOffset(end.epoch, end.end_offset),
            )
    partition.check_range(asked.fetch_offset)
    return None


def read(
    partition: Partition, params: FetchParams, asked: FetchPartition, max_bytes: int, at_least_one: bool
) -> PartitionData:
    log = partition.log
    up_to = partition.readable_end(params.is_follower)
    records: Buffer = b""
    if asked.fetch_offset < up_to and (max_bytes > 0 or at_least_one):
        records = log.read(asked.fetch_offset, max_bytes, up_to, at_least_one=at_least_one)
    answer = PartitionData(
        asked.topic_partition.partition,
        ErrorCode.none,
        log.high_watermark,
        partition.last_stable_offset,
        log.start_offset,
        aborted=_aborted(params),
        records=records,
    )
    asked.quiet = _quiet(partition, params, answer) if asked.fetch_offset >= up_to else None
    return answer


def _quiet(partition: Partition, params: FetchParams, answer: PartitionData) -> Quiet:
    leadership, log = partition.leading(), partition.log
    replica = leadership.remotes.get(params.replica_id)
    return Quiet(
        params.asker, partition, leadership, log.end_offset, log.high_watermark, log.start_offset, replica, answer
    )


def _aborted(params: FetchParams) -> tuple[()] | None:
    return () if params.read_committed else None


Answers = list[PartitionData]


class DelayedFetch(DelayedOperation):
    """Waits until enough bytes have come, or one of its partitions cannot be read any more."""

    __slots__ = ("_answer", "_is_follower", "_missing_bytes", "_read", "_seen")

    def __init__(
        self,
        params: FetchParams,
        found: list[Partition],
        readable_bytes: int,
        read_again: Callable[[], Any],
    ) -> None:
        """``read_again`` makes what the waiting request is answered with."""
        self._is_follower = params.is_follower
        self._missing_bytes = params.min_bytes - readable_bytes
        self._seen: dict[TopicPartition, tuple[Partition, Leadership, int]] = {}
        is_follower = self._is_follower
        for partition in found:
            leadership = partition.leadership
            assert leadership is not None, f"{partition} was read, and does not lead"
            count = leadership.appended_bytes if is_follower else leadership.committed_bytes
            self._seen[partition.topic_partition] = (partition, leadership, count)
        self._read = read_again
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def answer(self) -> asyncio.Future[Any]:
        return self._answer

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(self._seen)

    def try_complete(self, key: TopicPartition) -> bool:
        partition, leadership, before = self._seen[key]
        if partition.leadership is not leadership:
            return True  # another epoch, or no leader any more: the answer says so
        count = leadership.appended_bytes if self._is_follower else leadership.committed_bytes
        if count > before:
            self._missing_bytes -= count - before
            self._seen[key] = (partition, leadership, count)
        return self._missing_bytes <= 0

    def on_complete(self) -> None:
        if not self._answer.done():
            self._answer.set_result(self._read())

    def on_expire(self) -> None:
        self.on_complete()
