"""Followers' side: one fetcher per leader, which keeps all partitions that follow it up to date over one connection.

A fetcher always has one Fetch under way for all of its partitions that are not backing off. Its fetch offsets are the
logs' ends, so the next Fetch acknowledges what the last one brought. An answer is applied to a partition only if that
still follows in the leader epoch in which it was asked for, and its log still ends where it did: between question and
answer a LeaderAndIsr may have changed everything.

Failpoints: ``follower.fetch`` (about to send, peer), ``follower.before_append`` (topic, partition, peer).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from system_under_test.bugs import Bug, Bugs
from system_under_test.config import BrokerConfig
from system_under_test.failpoints import Dropped, FailpointError, Failpoints
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.fetch_request import (
    FETCH_VERSION,
    FetchRequestData,
    PartitionToFetch,
    encode_fetch_request,
)
from system_under_test.protocol.messages import Body, RawRequest, maker
from system_under_test.replication.fetch_session_handler import FetchSessionHandler, SessionRequest, Wanted
from system_under_test.replication.fetching import NO_TOPIC_ID
from system_under_test.replication.partition import NO_EPOCH, Partition
from system_under_test.replication.truncation import EpochEnd, truncation_offset
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition
from system_under_test.world import Clock, ConnectionLost

log = logging.getLogger(__name__)

LIST_OFFSETS_VERSION = 7
_LATEST, _EARLIEST = -1, -2
SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""A new session is begun at once."""


class PeerLike(Protocol):
    async def request(self, api: ApiKey, version: int, body: Body | RawRequest, timeout_s: float) -> Body: ...


class PeersLike(Protocol):
    def get(self, broker_id: int) -> PeerLike: ...

    def forget(self, broker_id: int) -> None: ...


@dataclass(slots=True, eq=False)
class Followed:
    """One partition that follows. A new one for each leader epoch, so identity tells stale answers."""

    partition: Partition
    leader_epoch: int
    names_last_epoch: bool = True
    """Whether fetches let the leader look for divergence."""
    retry_at: float = 0.0
    last_wanted: Wanted | None = None

    def is_current(self) -> bool:
        partition = self.partition
        return partition.leader_epoch == self.leader_epoch and not partition.is_leader

    def wanted(self, max_bytes: int) -> Wanted:
        """The same object as long as nothing has changed: most partitions are idle most of the time."""
        replica_log = self.partition.log
        epoch = replica_log.epochs.latest_epoch() if self.names_last_epoch else None
        last = self.last_wanted
        if (
            last is None
            or last.fetch_offset != replica_log.end_offset
            or last.last_fetched_epoch != (NO_EPOCH if epoch is None else epoch)
            or last.log_start_offset != replica_log.start_offset
        ):
            last = self.last_wanted = Wanted(
                self.partition.topic_id or NO_TOPIC_ID,
                replica_log.end_offset,
                NO_EPOCH if epoch is None else epoch,
                replica_log.start_offset,
                self.leader_epoch,
                max_bytes,
            )
        return last


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """What all fetchers of a broker share."""

    broker_id: int
    broker_epoch: Callable[[], int]
    config: BrokerConfig
    clock: Clock
    peers: PeersLike
    failpoints: Failpoints
    bugs: Bugs


class Fetchers:
    """All fetchers of a broker."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[int, Fetcher] = {}

    def follow(self, partition: Partition) -> None:
        """Follow the partition's leader in its present epoch, whatever it did before."""
        self.unfollow(partition.topic_partition)
        followed = Followed(partition, partition.leader_epoch)
        if Bug.TRUNCATE_TO_HIGH_WATERMARK in self._context.bugs:
            # As before KIP-101: what a predecessor may have committed is thrown away, and divergence goes unseen.
            partition.log.truncate_to(partition.log.high_watermark)
            followed.names_last_epoch = False
        leader = partition.leader_id
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = Fetcher(self._context, leader)
        fetcher.add(followed)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(topic_partition)

    def stop_idle(self) -> None:
        """End fetchers that have nothing left; called when a batch of changes is through."""
        for leader, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                del self._fetchers[leader]
                fetcher.stop()

    def stop(self) -> None:
        fetchers, self._fetchers = self._fetchers, {}
        for fetcher in fetchers.values():
            fetcher.stop()

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        return next((leader for leader, each in self._fetchers.items() if topic_partition in each.partitions), None)


class Fetcher:
    def __init__(self, context: FetcherContext, leader_id: int) -> None:
        self._context = context
        self._leader_id = leader_id
        self._session = FetchSessionHandler()
        self._wake = asyncio.Event()
        self.partitions: dict[TopicPartition, Followed] = {}
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetcher-{leader_id}")

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    def add(self, followed: Followed) -> None:
        self.partitions[followed.partition.topic_partition] = followed
        self._wake.set()

    def remove(self, topic_partition: TopicPartition) -> None:
        self.partitions.pop(topic_partition, None)

    def stop(self) -> None:
        self._task.cancel()
        self._context.peers.forget(self._leader_id)

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        context = self._context
        timeout_s = context.config.replica_socket_timeout_ms / 1000
        while True:
            asked = self._ready()
            if not asked:
                await self._idle()
                continue
            try:
                if context.failpoints.on:
                    await context.failpoints.reach("follower.fetch", peer=self._leader_id)
                    asked = self._ready()
                max_bytes = context.config.replica_fetch_max_bytes
                wanted = {key: each.wanted(max_bytes) for key, each in asked.items()}
                body = self._request(self._session.next_request(wanted))
                peer = context.peers.get(self._leader_id)
                response = await peer.request(ApiKey.FETCH, FETCH_VERSION, body, timeout_s)
            except (ConnectionLost, TimeoutError, Dropped, FailpointError) as error:
                log.info("fetching from broker %d failed: %s", self._leader_id, error or type(error).__name__)
                self._session.reset()
                self._back_off(self.partitions.values())
                continue
            if self._session.answered(response.error_code, response.session_id):
                await self._process(asked, wanted, response)
            elif response.error_code not in SESSION_ERRORS:
                log.warning("broker %d refuses to be fetched from: %s", self._leader_id, response.error_code.name)
                self._back_off(self.partitions.values())

    def _ready(self) -> dict[TopicPartition, Followed]:
        now = self._context.clock.monotonic()
        return {key: each for key, each in self.partitions.items() if each.retry_at <= now}

    async def _idle(self) -> None:
        """Until a partition comes, or one has backed off for long enough."""
        self._wake.clear()
        due = min((each.retry_at for each in self.partitions.values()), default=None)
        timeout = None if due is None else max(due - self._context.clock.monotonic(), 0.0)
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _back_off(self, partitions: Iterable[Followed]) -> None:
        until = self._context.clock.monotonic() + self._context.config.replica_fetch_backoff_ms / 1000
        for each in partitions:
            each.retry_at = until

    def _request(self, session: SessionRequest) -> RawRequest:
        context = self._context
        topics: dict[uuid.UUID, list[PartitionToFetch]] = {}
        for key, each in session.send.items():
            partition = PartitionToFetch(
                key.partition,
                each.current_leader_epoch,
                each.fetch_offset,
                each.last_fetched_epoch,
                each.log_start_offset,
                each.max_bytes,
            )
            topics.setdefault(each.topic_id, []).append(partition)
        forgotten: dict[uuid.UUID, list[int]] = {}
        for topic_id, index in session.forget:
            forgotten.setdefault(topic_id, []).append(index)
        return encode_fetch_request(
            FetchRequestData(
                context.broker_id,
                context.broker_epoch(),
                context.config.replica_fetch_wait_max_ms,
                context.config.replica_fetch_min_bytes,
                context.config.replica_fetch_response_max_bytes,
                session.session_id,
                session.epoch,
                topics,
                forgotten,
            )
        )

    # -- applying ----------------------------------------------------------------------------------------------------

    async def _process(
        self, asked: dict[TopicPartition, Followed], wanted: dict[TopicPartition, Wanted], response: Body
    ) -> None:
        by_id = {each.topic_id: key.topic for key, each in wanted.items()}
        for topic in response.responses:
            name = by_id.get(topic.topic_id)
            if name is None:
                continue
            for answer in topic.partitions:
                key = TopicPartition(name, answer.partition_index)
                followed = asked.get(key)
                if followed is None or not self._is_fresh(followed, wanted[key]):
                    continue
                if answer.error_code is not ErrorCode.none:
                    await self._refused(followed, wanted[key], answer.error_code)
                    continue
                if answer.records and self._context.failpoints.on:
                    try:
                        await self._context.failpoints.reach(
                            "follower.before_append", topic=key.topic, partition=key.partition, peer=self._leader_id
                        )
                    except (Dropped, FailpointError):
                        continue
                    if not self._is_fresh(followed, wanted[key]):
                        continue
                self._apply(followed, answer)

    def _is_fresh(self, followed: Followed, wanted: Wanted) -> bool:
        """Whether an answer to ``wanted`` may still be applied."""
        partition = followed.partition
        return (
            self.partitions.get(partition.topic_partition) is followed
            and followed.is_current()
            and partition.log.end_offset == wanted.fetch_offset
        )

    def _apply(self, followed: Followed, answer: Body) -> None:
        diverging = answer.diverging_epoch
        try:
            if diverging.epoch != NO_EPOCH:
                self._truncate(followed, EpochEnd(diverging.epoch, diverging.end_offset))
            else:
                self._append(followed.partition.log, answer)
        except (ApiError, OSError) as error:
            log.error("%s: cannot apply what broker %d sent: %s", followed.partition, self._leader_id, error)
            self._back_off([followed])

    def _append(self, replica_log: Log, answer: Body) -> None:
        if answer.records:
            replica_log.append_as_follower(answer.records)
        # The leader's high watermark and log start hold for this log as far as it reaches.
        high_watermark = min(answer.high_watermark, replica_log.end_offset)
        if high_watermark > replica_log.high_watermark:
            replica_log.update_high_watermark(high_watermark)
        start = min(answer.log_start_offset, replica_log.high_watermark)
        if start > replica_log.start_offset:
            replica_log.increment_start_offset(start)

    def _truncate(self, followed: Followed, leader: EpochEnd) -> None:
        partition = followed.partition
        replica_log = partition.log
        end = replica_log.end_offset
        target = truncation_offset(leader, end, lambda epoch: EpochEnd(*replica_log.epochs.end_offset_for(epoch, end)))
        level = logging.WARNING if target < replica_log.high_watermark else logging.INFO
        log.log(
            level,
            "%s: leader has epoch %d up to %d; truncating from %d to %d, high watermark %d",
            partition,
            leader.epoch,
            leader.end_offset,
            end,
            target,
            replica_log.high_watermark,
        )
        replica_log.truncate_to(target)
        # An epoch that was entered without a record starts at the log's end and is not cut off with any record.
        replica_log.epochs.truncate_from_end(replica_log.end_offset)

    async def _refused(self, followed: Followed, wanted: Wanted, code: ErrorCode) -> None:
        log.info("%s: broker %d answers %s", followed.partition, self._leader_id, code.name)
        if code is not ErrorCode.offset_out_of_range:
            self._back_off([followed])
            return
        try:
            end = await self._leader_offset(followed, _LATEST)
            start = await self._leader_offset(followed, _EARLIEST)
        except (ConnectionLost, TimeoutError, ApiError) as error:
            log.info("%s: offsets of broker %d: %s", followed.partition, self._leader_id, error)
            self._back_off([followed])
            return
        if not self._is_fresh(followed, wanted):
            return
        try:
            self._out_of_range(followed, start, end)
        except OSError as error:
            log.error("%s: cannot follow broker %d: %s", followed.partition, self._leader_id, error)
            self._back_off([followed])

    def _out_of_range(self, followed: Followed, start: int, end: int) -> None:
        """What the leader has, from ``start`` to ``end``, does not begin where this log ends."""
        replica_log = followed.partition.log
        if end < replica_log.end_offset:
            # Only after an unclean election, and only where divergence could not be told by epochs.
            log.warning("%s: ends at %d, its leader at %d", followed.partition, replica_log.end_offset, end)
            replica_log.truncate_to(end)
        elif start > replica_log.end_offset:
            log.info("%s: starting anew at its leader's start %d", followed.partition, start)
            replica_log.truncate_fully_and_start_at(start)
        else:
            self._back_off([followed])

    async def _leader_offset(self, followed: Followed, timestamp: int) -> int:
        topic, number = followed.partition.topic_partition
        make = maker(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, False)
        part = make(
            "ListOffsetsPartition",
            partition_index=number,
            current_leader_epoch=followed.leader_epoch,
            timestamp=timestamp,
        )
        body = make.root(
            replica_id=self._context.broker_id,
            isolation_level=0,
            topics=(make("ListOffsetsTopic", name=topic, partitions=(part,)),),
        )
        peer = self._context.peers.get(self._leader_id)
        timeout_s = self._context.config.replica_socket_timeout_ms / 1000
        answer = await peer.request(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, timeout_s)
        found = answer.topics[0].partitions[0]
        if found.error_code is not ErrorCode.none:
            raise ApiError(found.error_code)
        return int(found.offset)
