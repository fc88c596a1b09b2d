"""Fetch sessions: both sides against each other, and the leader's rules one by one."""

from __future__ import annotations

import uuid
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import PartitionData
from system_under_test.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MIN_EVICTION_S,
    FetchContext,
    FetchSessionCache,
)
from system_under_test.replication.fetch_session_handler import FetchSessionHandler, Wanted
from system_under_test.replication.fetching import NO_TOPIC_ID, FetchPartition
from system_under_test.types import TopicPartition


def asked(number: int, offset: int = 0, topic: str = "t") -> FetchPartition:
    return FetchPartition(TopicPartition(topic, number), NO_TOPIC_ID, offset, 100)


def context(
    cache: FetchSessionCache,
    session_id: int,
    epoch: int,
    *parts: FetchPartition,
    forget: tuple[int, ...] = (),
    is_follower: bool = False,
    now: float = 0.0,
    uses_topic_ids: bool = False,
) -> FetchContext:
    return cache.context(
        session_id,
        epoch,
        list(parts),
        [("t", each) for each in forget],
        is_follower=is_follower,
        uses_topic_ids=uses_topic_ids,
        now=now,
    )


def answer(
    number: int, records: bytes = b"", high_watermark: int = 0, error: ErrorCode = ErrorCode.none
) -> PartitionData:
    return PartitionData(number, error, high_watermark, high_watermark, 0, records=records)


def told(found: FetchContext, *answers: PartitionData) -> list[int]:
    data = found.respond(answers)
    return [part.index for topic in data.topics for part in topic.partitions]


@st.composite
def wants(draw: st.DrawFn) -> dict[TopicPartition, Wanted]:
    """Topics may have been deleted and made again: then they have another id."""
    keys = draw(st.sets(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 3)), min_size=1))
    ids = {topic: uuid.UUID(int=draw(st.integers(first, first + 1))) for topic, first in (("t", 1), ("u", 3))}
    return {
        TopicPartition(topic, number): Wanted(ids[topic], draw(st.integers(0, 3)), 0, 0, 0, 9)
        for topic, number in sorted(keys)
    }


@given(
    st.lists(st.tuples(wants(), st.sampled_from(["fine", "fine", "fine", "lost request", "lost answer", "evicted"])))
)
def test_the_leader_always_reads_what_the_follower_wants(
    rounds: list[tuple[dict[TopicPartition, Wanted], str]],
) -> None:
    cache, handler = FetchSessionCache(100, Random(1)), FetchSessionHandler()
    orphans = 0
    for wanted, fate in rounds:
        request = handler.next_request(wanted)
        if fate == "lost request":
            handler.reset()
            continue
        if fate == "evicted":
            cache.sessions.clear()
        parts = [
            FetchPartition(key, each.topic_id, each.fetch_offset, each.max_bytes) for key, each in request.send.items()
        ]
        found = cache.context(
            request.session_id, request.epoch, parts, request.forget, is_follower=True, uses_topic_ids=True, now=0.0
        )
        if fate == "lost answer":
            handler.reset()
            orphans += request.epoch == INITIAL_EPOCH
            continue
        fine = handler.answered(found.error, found.session_id)
        if fine:
            read = {(each.topic_partition, each.topic_id): each.fetch_offset for each in found.asked}
            assert read == {(key, each.topic_id): each.fetch_offset for key, each in wanted.items()}
        else:
            assert fate == "evicted"
        assert len(cache.sessions) <= 1 + orphans, "a session that the follower knows is closed or goes on"


def test_an_incremental_answer_holds_news_only() -> None:
    cache = FetchSessionCache(10, Random(1))
    first = context(cache, 0, INITIAL_EPOCH, asked(0), asked(1))
    assert first.session_id > 0
    assert told(first, answer(0), answer(1)) == [0, 1]
    second = context(cache, first.session_id, 1)
    assert told(second, answer(0), answer(1)) == []
    third = context(cache, first.session_id, 2)
    assert told(third, answer(0, high_watermark=1), answer(1)) == [0]
    fourth = context(cache, first.session_id, 3)
    assert told(fourth, answer(0, high_watermark=1), answer(1, error=ErrorCode.fenced_leader_epoch)) == [1]
    fifth = context(cache, first.session_id, 4)
    assert told(fifth, answer(0, high_watermark=1), answer(1)) == [1], "the error is over: that is news"


def test_partitions_with_records_take_turns() -> None:
    cache = FetchSessionCache(10, Random(1))
    first = context(cache, 0, INITIAL_EPOCH, asked(0), asked(1), asked(2))
    told(first, answer(0), answer(1), answer(2))
    second = context(cache, first.session_id, 1)
    told(second, answer(0, b"x"), answer(1), answer(2))
    third = context(cache, first.session_id, 2, asked(1, 5), forget=(2,))
    assert [(each.topic_partition.partition, each.fetch_offset) for each in third.asked] == [(1, 5), (0, 0)]


def test_wrong_sessions_are_refused() -> None:
    cache = FetchSessionCache(10, Random(1))
    session = context(cache, 0, INITIAL_EPOCH, asked(0)).session_id
    assert context(cache, session + 1, 1).error is ErrorCode.fetch_session_id_not_found
    assert context(cache, session, 2).error is ErrorCode.invalid_fetch_session_epoch
    assert context(cache, session, 1, uses_topic_ids=True).error is ErrorCode.fetch_session_topic_id_error
    assert context(cache, session, 1).error is ErrorCode.none
    closing = context(cache, session, FINAL_EPOCH, asked(3))
    assert (closing.session_id, [each.topic_partition.partition for each in closing.asked]) == (0, [3])
    assert not cache.sessions


def test_a_full_cache_evicts_the_unused_and_prefers_followers() -> None:
    cache = FetchSessionCache(2, Random(1))
    old = context(cache, 0, INITIAL_EPOCH, asked(0)).session_id
    used = context(cache, 0, INITIAL_EPOCH, asked(0)).session_id
    context(cache, old, 1, now=50.0)
    assert context(cache, 0, INITIAL_EPOCH, asked(0), now=60.0).session_id == 0, "none is old enough: sessionless"
    late = MIN_EVICTION_S + 1
    new = context(cache, 0, INITIAL_EPOCH, asked(0), now=late).session_id
    assert sorted(cache.sessions) == sorted([old, new])
    assert used not in cache.sessions
    follower = context(cache, 0, INITIAL_EPOCH, asked(0), is_follower=True, now=late).session_id
    another = context(cache, 0, INITIAL_EPOCH, asked(0), is_follower=True, now=late).session_id
    assert sorted(cache.sessions) == sorted([follower, another])
    assert context(cache, 0, INITIAL_EPOCH, asked(0), is_follower=True, now=late).session_id == 0
    assert cache.evictions == 3
