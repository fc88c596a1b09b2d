"""Fetch sessions, the leader's side (KIP-227): a client names its partitions once and then only what changes.

A session is an ordered set of partitions with an id and an epoch that rises by one with each request. The answer to an
incremental request holds only partitions that have news. Partitions that had records move to the end, so that
under a tight ``max_bytes`` each has its turn. Followers' sessions may push out those of consumers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import FetchResponseData, NodeEndpoint, PartitionData, TopicData
from system_under_test.replication.fetching import FetchPartition
from system_under_test.types import TopicPartition

SESSIONLESS_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LARGEST_EPOCH = 0x7FFFFFFF
MIN_EVICTION_S = 120.0

PartitionKey = tuple[str | uuid.UUID, int]
"""Topic as the request names it, by name or by id, and partition."""


@dataclass(slots=True)
class CachedPartition:
    asked: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    told: PartitionData | None = None
    """The last answer, if it had no more in it than these two: leaders give it again as long as nothing changes."""

    def has_news(self, answer: PartitionData) -> bool:
        """Whether the client must hear of it; what it has heard is remembered."""
        news = (
            bool(answer.records)
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.diverging_epoch is not None
            or answer.error is not ErrorCode.none
        )
        # After an error the next good answer is news again.
        good = answer.error is ErrorCode.none
        self.told = answer if good and not answer.records and answer.diverging_epoch is None else None
        self.high_watermark = answer.high_watermark if good else -1
        self.log_start_offset = answer.log_start_offset if good else -1
        return news


@dataclass(slots=True)
class FetchSession:
    id: int
    is_privileged: bool
    uses_topic_ids: bool
    partitions: dict[PartitionKey, CachedPartition]
    last_used: float
    epoch: int = INITIAL_EPOCH + 1
    """What the next request must carry."""


class FetchContext(NamedTuple):
    """What one request asks for, after its session was consulted."""

    asked: list[FetchPartition]
    session_id: int = SESSIONLESS_ID
    error: ErrorCode = ErrorCode.none
    cached: list[CachedPartition] | None = None
    """The session's partitions, beside ``asked``."""
    session: FetchSession | None = None
    is_incremental: bool = False

    def respond(self, answers: Sequence[PartitionData], endpoints: tuple[NodeEndpoint, ...] = ()) -> FetchResponseData:
        """Put the answers to ``asked``, in its order, into a response."""
        topics: list[TopicData] = []
        last: TopicData | None = None
        cached = self.cached
        for index, (asked, answer) in enumerate(zip(self.asked, answers, strict=True)):
            if cached is not None:
                known = cached[index]
                news = answer is not known.told and known.has_news(answer)
                if self.is_incremental:
                    if not news:
                        continue
                    if answer.records:
                        self._move_to_end(asked)
            topic = asked.topic_partition.topic
            if last is None or last.name != topic or last.topic_id != asked.topic_id:
                last = TopicData(topic, asked.topic_id, [])
                topics.append(last)
            last.partitions.append(answer)
        return FetchResponseData(topics, error=self.error, session_id=self.session_id, node_endpoints=endpoints)

    def _move_to_end(self, asked: FetchPartition) -> None:
        assert self.session is not None
        key = _key(asked, self.session.uses_topic_ids)
        cached = self.session.partitions.pop(key, None)
        if cached is not None:
            self.session.partitions[key] = cached


def _key(asked: FetchPartition, uses_topic_ids: bool) -> PartitionKey:
    topic, partition = asked.topic_partition
    return (asked.topic_id if uses_topic_ids else topic, partition)


@dataclass(slots=True)
class FetchSessionCache:
    slots: int
    random: Random
    sessions: dict[int, FetchSession] = field(default_factory=dict)
    """The one used last is at the end."""
    evictions: int = 0
    topic_name: Callable[[uuid.UUID], str | None] = lambda _: None
    """Asked again for topic ids that were unknown when a session began: a follower may be told of a topic, and fetch,
    before the leader has heard of it."""

    def context(
        self,
        session_id: int,
        epoch: int,
        asked: list[FetchPartition],
        forgotten: Iterable[PartitionKey],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now: float,
    ) -> FetchContext:
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH or not asked:
                return FetchContext(asked)
            return self._create(asked, is_follower, uses_topic_ids, now)
        session = self.sessions.get(session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.fetch_session_id_not_found)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext([], session_id, ErrorCode.fetch_session_topic_id_error)
        if session.epoch != epoch:
            return FetchContext([], session_id, ErrorCode.invalid_fetch_session_epoch)
        return self._incremental(session, asked, forgotten, now)

    def _incremental(
        self, session: FetchSession, asked: list[FetchPartition], forgotten: Iterable[PartitionKey], now: float
    ) -> FetchContext:
        partitions = session.partitions
        for each in asked:
            key = _key(each, session.uses_topic_ids)
            cached = partitions.get(key)
            if cached is None:
                partitions[key] = CachedPartition(each)
            else:
                cached.asked = each
        for key in forgotten:
            partitions.pop(key, None)
        del self.sessions[session.id]
        if not partitions:
            return FetchContext([])
        self.sessions[session.id] = session
        session.last_used = now
        session.epoch = 1 if session.epoch == LARGEST_EPOCH else session.epoch + 1
        cached_list = list(partitions.values())
        for cached in cached_list:
            if cached.asked.error is ErrorCode.unknown_topic_id:
                self._resolve(cached.asked)
        return FetchContext(
            [each.asked for each in cached_list],
            session.id,
            cached=cached_list,
            session=session,
            is_incremental=True,
        )

    def _resolve(self, asked: FetchPartition) -> None:
        name = self.topic_name(asked.topic_id)
        if name is not None:
            asked.topic_partition = TopicPartition(name, asked.topic_partition.partition)
            asked.error = ErrorCode.none

    def _create(self, asked: list[FetchPartition], is_follower: bool, uses_topic_ids: bool, now: float) -> FetchContext:
        if not self._make_room(is_follower, now):
            return FetchContext(asked)
        session_id = self.random.randrange(1, 2**31)
        while session_id in self.sessions:
            session_id = self.random.randrange(1, 2**31)
        partitions = {_key(each, uses_topic_ids): CachedPartition(each) for each in asked}
        session = FetchSession(session_id, is_follower, uses_topic_ids, partitions, now)
        self.sessions[session_id] = session
        cached = list(partitions.values())
        return FetchContext([each.asked for each in cached], session_id, cached=cached, session=session)

    def _make_room(self, is_privileged: bool, now: float) -> bool:
        """Evict the session that was unused for longest, if it may be; a follower's may push out any consumer's."""
        if len(self.sessions) < self.slots:
            return True
        for each in self.sessions.values():
            if now - each.last_used > MIN_EVICTION_S or (is_privileged and not each.is_privileged):
                del self.sessions[each.id]
                self.evictions += 1
                return True
        return False
