"""A topic id that nobody knew when a fetch session began is known later."""

from __future__ import annotations

import uuid
from random import Random

from system_under_test.protocol.errors import ErrorCode
from system_under_test.replication.fetch_session import FetchSessionCache
from system_under_test.replication.fetching import FetchPartition
from system_under_test.types import TopicPartition

TOPIC_ID = uuid.UUID(int=7)


def test_an_unknown_topic_id_is_asked_for_again_with_each_request() -> None:
    names: dict[uuid.UUID, str] = {}
    cache = FetchSessionCache(10, Random(1), topic_name=names.get)
    asked = FetchPartition(TopicPartition("", 3), TOPIC_ID, 0, 100, error=ErrorCode.unknown_topic_id)
    first = cache.context(0, 0, [asked], (), is_follower=True, uses_topic_ids=True, now=0.0)
    for epoch, expected in ((1, ErrorCode.unknown_topic_id), (2, ErrorCode.none)):
        again = cache.context(first.session_id, epoch, [], (), is_follower=True, uses_topic_ids=True, now=0.0)
        assert again.asked[0].error is expected
        names[TOPIC_ID] = "t"
    assert again.asked[0].topic_partition == TopicPartition("t", 3)
