"""What UpdateMetadata does to a broker's knowledge."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from system_under_test.bugs import Bug
from system_under_test.metadata.cache import FULL, MetadataCache
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body, maker
from system_under_test.types import BrokerEndpoint, TopicPartition

make = maker(ApiKey.UPDATE_METADATA, 8, False)
A, B = UUID(int=1), UUID(int=2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def partition(number: int, leader: int, epoch: int = 0) -> Body:
    return make(
        "UpdateMetadataPartitionState",
        partition_index=number,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=(1, 2),
        zk_version=3,
        replicas=(1, 2),
        offline_replicas=(2,),
    )


def update(
    *topics: tuple[str, UUID | None, list[Body]], epoch: int = 1, brokers: tuple[int, ...] = (1, 2), kind: int = 1
) -> Body:
    return make.root(
        controller_id=1,
        controller_epoch=epoch,
        broker_epoch=7,
        type_=kind,
        topic_states=tuple(
            make("UpdateMetadataTopicState", topic_name=name, topic_id=topic_id, partition_states=tuple(states))
            for name, topic_id, states in topics
        ),
        live_brokers=tuple(
            make(
                "UpdateMetadataBroker",
                id_=each,
                endpoints=(
                    make(
                        "UpdateMetadataEndpoint",
                        host=f"h{each}",
                        port=9092,
                        listener="PLAINTEXT",
                        security_protocol=0,
                    ),
                ),
                rack="r",
            )
            for each in brokers
        ),
    )


def test_it_knows_what_it_was_told() -> None:
    cache = MetadataCache()
    cache.apply_update(update(("t", A, [partition(0, 1, 5), partition(1, -1)])))
    assert cache.topics() == ["t"]
    assert (cache.topic_id("t"), cache.topic_name(A)) == (A, "t")
    info = cache.partition(T0)
    assert info is not None
    assert (info.leader, info.leader_epoch, info.isr, info.replicas, info.offline) == (1, 5, (1, 2), (1, 2), (2,))
    assert cache.endpoint(2) == BrokerEndpoint(2, "h2", 9092, "r")
    assert cache.endpoint(2, "SSL") is None
    assert cache.endpoint(9) is None
    assert cache.controller_id == 1
    cache.apply_update(update(brokers=(1,)))
    assert cache.endpoint(2) is None
    assert cache.contains(T1)


def test_partitions_end_one_by_one_and_the_topic_with_the_last() -> None:
    cache = MetadataCache()
    cache.apply_update(update(("t", A, [partition(0, 1), partition(1, 2)])))
    assert cache.apply_update(update(("t", A, [partition(0, -2)]))) == [T0]
    assert cache.topics() == ["t"]
    assert cache.apply_update(update(("t", A, [partition(0, -2), partition(1, -2)]))) == [T1]
    assert cache.topics() == []
    assert cache.topic_name(A) is None


def test_another_topic_of_the_same_name_inherits_nothing() -> None:
    cache = MetadataCache()
    cache.apply_update(update(("t", A, [partition(0, 1), partition(1, 2)])))
    assert cache.apply_update(update(("t", B, [partition(0, 2)]))) == [T0, T1]
    assert list(cache.partitions("t")) == [0]
    assert (cache.topic_name(A), cache.topic_name(B)) == (None, "t")


def test_a_full_update_ends_what_it_does_not_name() -> None:
    cache = MetadataCache()
    cache.apply_update(update(("t", A, [partition(0, 1), partition(1, 2)]), ("u", B, [partition(0, 1)])))
    assert cache.apply_update(update(("t", A, [partition(1, 2)]), kind=FULL)) == [T0, TopicPartition("u", 0)]
    assert cache.topics() == ["t"]
    assert cache.topic_name(B) is None


def test_strays_are_replicas_that_belong_to_others() -> None:
    cache = MetadataCache()
    cache.apply_update(update(("t", A, [partition(0, 1, 8)])))
    assert cache.strays([T0, T1], 3) == {T0: 8}
    assert cache.strays([T0, T1], 2) == {}


def test_a_deposed_controller_is_refused_unless_the_bug_is_on() -> None:
    for bugs, leader in ((frozenset[Bug](), 1), (frozenset({Bug.STALE_CONTROLLER_OBEYED}), 2)):
        cache = MetadataCache(bugs=bugs)
        cache.apply_update(update(("t", A, [partition(0, 1)]), epoch=5))
        if bugs:
            cache.apply_update(update(("t", A, [partition(0, 2)]), epoch=4))
        else:
            with pytest.raises(ApiError) as refused:
                cache.apply_update(update(("t", A, [partition(0, 2)]), epoch=4))
            assert refused.value.code is ErrorCode.stale_controller_epoch
        info = cache.partition(T0)
        assert info is not None
        assert info.leader == leader
        assert cache.controller_epoch == 5


def test_waiting_ends_with_the_update_that_satisfies_it() -> None:
    async def scenario() -> None:
        cache = MetadataCache()
        waiting = asyncio.ensure_future(cache.until(lambda: cache.contains(T1), 30))
        await asyncio.sleep(0)
        cache.apply_update(update(("t", A, [partition(0, 1)])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        cache.apply_update(update(("t", A, [partition(1, 1)])))
        assert await waiting
        assert not await cache.until(lambda: False, 0.01)

    asyncio.run(scenario())
