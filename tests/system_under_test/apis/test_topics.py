"""CreateTopics, DeleteTopics, CreatePartitions, Metadata on whole brokers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from system_under_test.apis import create_partitions, create_topics, delete_topics, metadata
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Maker
from system_under_test.types import TopicPartition
from tests.system_under_test.apis.cluster import TIMEOUT, Brokers, play


def new_topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignments: dict[int, tuple[int, ...]] | None = None,
    configs: dict[str, str | None] | None = None,
    *,
    validate_only: bool = False,
) -> Any:
    def build(make: Maker) -> Body:
        topic = make(
            "CreatableTopic",
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=tuple(
                make("CreatableReplicaAssignment", partition_index=number, broker_ids=replicas)
                for number, replicas in (assignments or {}).items()
            ),
            configs=tuple(
                make("CreatableTopicConfig", name=each, value=value) for each, value in (configs or {}).items()
            ),
        )
        return make.root(topics=(topic,), timeout=TIMEOUT, validate_only=validate_only)

    return build


def asked_topics(names: list[str] | None, *, create: bool = False) -> Any:
    def build(make: Maker) -> Body:
        topics = (
            None if names is None else tuple(make("MetadataRequestTopic", name=each, topic_id=None) for each in names)
        )
        if make.version == 0 and topics is None:
            topics = ()
        return make.root(
            topics=topics,
            allow_auto_topic_creation=create,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=False,
        )

    return build


def test_a_topic_is_there_when_its_creation_is_answered() -> None:
    async def scenario(brokers: Brokers) -> None:
        for version in create_topics.VERSIONS:
            topic = f"t{version}"
            answer = await brokers.ask(ApiKey.CREATE_TOPICS, version, new_topic(topic, 5, 3))
            assert [each.error_code for each in answer.topics] == [ErrorCode.none]
            cache = brokers.broker(brokers.controller).metadata
            infos = cache.partitions(topic)
            # The table of the design, with brokers 1, 2, 3 in the place of 0, 1, 2.
            assert [infos[number].replicas for number in range(5)] == [
                (1, 2, 3),
                (2, 3, 1),
                (3, 1, 2),
                (1, 3, 2),
                (2, 1, 3),
            ]
            assert [infos[number].leader for number in range(5)] == [1, 2, 3, 1, 2]
            if version >= 7:
                assert answer.topics[0].topic_id == cache.topic_id(topic)
            if version >= 5:
                assert answer.topics[0].num_partitions == 5
                assert {each.name: each.value for each in answer.topics[0].configs}["min.insync.replicas"] == "2"

    play(scenario)


def test_what_may_be_created() -> None:
    cases = [
        (new_topic("", 1, 1), ErrorCode.invalid_topic_exception),
        (new_topic("a b", 1, 1), ErrorCode.invalid_topic_exception),
        (new_topic("..", 1, 1), ErrorCode.invalid_topic_exception),
        (new_topic("x" * 250, 1, 1), ErrorCode.invalid_topic_exception),
        (new_topic("there", 1, 1), ErrorCode.topic_already_exists),
        (new_topic("a_b", 1, 1), ErrorCode.invalid_topic_exception),
        (new_topic("n", 0, 1), ErrorCode.invalid_partitions),
        (new_topic("n", 1, 0), ErrorCode.invalid_replication_factor),
        (new_topic("n", 1, 4), ErrorCode.invalid_replication_factor),
        (new_topic("n", 1, 1, {0: (1,)}), ErrorCode.invalid_request),
        (new_topic("n", assignments={1: (1,)}), ErrorCode.invalid_replica_assignment),
        (new_topic("n", assignments={0: (1, 1)}), ErrorCode.invalid_replica_assignment),
        (new_topic("n", assignments={0: (1,), 1: (1, 2)}), ErrorCode.invalid_replica_assignment),
        (new_topic("n", 1, 1, configs={"no.such": "1"}), ErrorCode.invalid_config),
        (new_topic("n", 1, 1, configs={"retention.ms": "soon"}), ErrorCode.invalid_config),
        (new_topic("n", 1, 1, configs={"retention.ms": None}), ErrorCode.invalid_config),
        (new_topic("valid", 1, 1, validate_only=True), ErrorCode.none),
        (new_topic("defaults"), ErrorCode.none),
        (new_topic("fine", assignments={0: (3, 1), 1: (2, 1)}), ErrorCode.none),
    ]

    async def scenario(brokers: Brokers) -> None:
        await brokers.create("there")
        await brokers.create("a.b")
        for build, code in cases:
            before = await brokers.broker(1).context.topics.names()
            (result,) = (await brokers.ask(ApiKey.CREATE_TOPICS, 7, build)).topics
            assert result.error_code is code, result
            after = await brokers.broker(1).context.topics.names()
            created = code is ErrorCode.none and result.topic_id is not None
            assert len(after) == len(before) + created
        assert {"fine", "defaults"} <= set(after)
        assert "valid" not in after

    play(scenario)


def test_only_the_controller_creates_grows_and_deletes() -> None:
    async def scenario(brokers: Brokers) -> None:
        refused = await brokers.ask(ApiKey.CREATE_TOPICS, 7, new_topic("t", 1, 1), brokers.other)
        assert [each.error_code for each in refused.topics] == [ErrorCode.not_controller]
        refused = await brokers.ask(ApiKey.DELETE_TOPICS, 5, deletion(["t"]), brokers.other)
        assert [each.error_code for each in refused.responses] == [ErrorCode.not_controller]
        refused = await brokers.ask(ApiKey.CREATE_PARTITIONS, 3, growth("t", 3), brokers.other)
        assert [each.error_code for each in refused.results] == [ErrorCode.not_controller]

    play(scenario)


def deletion(names: list[str], ids: list[UUID] | None = None, timeout: timedelta = TIMEOUT) -> Any:
    def build(make: Maker) -> Body:
        if make.version < 6:
            return make.root(topic_names=tuple(names), timeout=timeout)
        topics = [make("DeleteTopicState", name=each, topic_id=None) for each in names]
        topics += [make("DeleteTopicState", name=None, topic_id=each) for each in ids or ()]
        return make.root(topics=tuple(topics), timeout=timeout)

    return build


def test_a_deleted_topic_is_gone_and_its_name_is_free() -> None:
    async def scenario(brokers: Brokers) -> None:
        for version in delete_topics.VERSIONS:
            topic = f"t{version}"
            first = (await brokers.create(topic, 2)).topic_id
            answer = await brokers.ask(ApiKey.DELETE_TOPICS, version, deletion([topic, "gone"]))
            assert [each.error_code for each in answer.responses] == [
                ErrorCode.none,
                ErrorCode.unknown_topic_or_partition,
            ]
            while topic in await brokers.broker(1).context.topics.names():
                await brokers.broker(brokers.controller).metadata.until(lambda: False, 0.1)
            assert (await brokers.create(topic, 1)).topic_id not in (None, first)
            for each in (1, 2, 3):
                hosted = brokers.broker(each).context.replicas.partitions
                async with asyncio.timeout(10):
                    while TopicPartition(topic, 0) not in hosted:
                        await asyncio.sleep(0.05)
                assert TopicPartition(topic, 1) not in hosted

    play(scenario)


def test_a_topic_is_deleted_by_its_id() -> None:
    async def scenario(brokers: Brokers) -> None:
        topic_id = (await brokers.create("t")).topic_id
        answer = await brokers.ask(ApiKey.DELETE_TOPICS, 6, deletion([], [topic_id, UUID(int=5)]))
        assert [(each.name, each.error_code) for each in answer.responses] == [
            ("t", ErrorCode.none),
            (None, ErrorCode.unknown_topic_id),
        ]

    play(scenario)


def growth(topic: str, count: int, assignments: list[tuple[int, ...]] | None = None, *, validate: bool = False) -> Any:
    def build(make: Maker) -> Body:
        manual = (
            None
            if assignments is None
            else tuple(make("CreatePartitionsAssignment", broker_ids=each) for each in assignments)
        )
        wanted = make("CreatePartitionsTopic", name=topic, count=count, assignments=manual)
        return make.root(topics=(wanted,), timeout=TIMEOUT, validate_only=validate)

    return build


def test_partitions_are_added() -> None:
    async def scenario(brokers: Brokers) -> None:
        for version in create_partitions.VERSIONS:
            topic = f"t{version}"
            await brokers.create(topic, 3, 2)
            answer = await brokers.ask(ApiKey.CREATE_PARTITIONS, version, growth(topic, 5))
            assert [each.error_code for each in answer.results] == [ErrorCode.none]
            infos = brokers.broker(brokers.controller).metadata.partitions(topic)
            assert [infos[number].replicas for number in (3, 4)] == [(1, 3), (2, 1)]
            for build, code in (
                (growth(topic, 5), ErrorCode.invalid_partitions),
                (growth(topic, 4), ErrorCode.invalid_partitions),
                (growth("gone", 4), ErrorCode.unknown_topic_or_partition),
                (growth(topic, 6, [(1,)]), ErrorCode.invalid_replica_assignment),
                (growth(topic, 6, [(1, 9)]), ErrorCode.invalid_replica_assignment),
                (growth(topic, 6, [(1, 2), (2, 3)]), ErrorCode.invalid_replica_assignment),
                (growth(topic, 9, validate=True), ErrorCode.none),
                (growth(topic, 6, [(3, 1)]), ErrorCode.none),
            ):
                (result,) = (await brokers.ask(ApiKey.CREATE_PARTITIONS, version, build)).results
                assert result.error_code is code
            assert len(brokers.broker(brokers.controller).metadata.partitions(topic)) == 6

    play(scenario)


def test_metadata_of_every_version() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 2)
        await brokers.create("u", 1)
        await brokers.broker(brokers.other).metadata.until(lambda: len(_topics(brokers)) == 2, 5)
        for version in metadata.VERSIONS:
            answer = await brokers.ask(ApiKey.METADATA, version, asked_topics(None), brokers.other)
            assert [(each.node_id, each.host) for each in answer.brokers] == [(n, f"broker-{n}") for n in (1, 2, 3)]
            assert [each.name for each in answer.topics] == ["t", "u"]
            assert [each.leader_id for each in answer.topics[0].partitions] == [1, 2]
            assert answer.topics[0].partitions[0].replica_nodes == (1, 2, 3)
            if version >= 1:
                assert answer.controller_id == brokers.controller
            if version >= 2:
                assert answer.cluster_id == brokers.broker(1).context.cluster_id
            if version >= 10:
                assert answer.topics[0].topic_id == brokers.broker(1).metadata.topic_id("t")
            some = await brokers.ask(ApiKey.METADATA, version, asked_topics(["u", "gone", "bad name"]), brokers.other)
            assert [each.error_code for each in some.topics] == [
                ErrorCode.none,
                ErrorCode.unknown_topic_or_partition,
                ErrorCode.invalid_topic_exception,
            ]
            if version >= 1:
                nothing = await brokers.ask(ApiKey.METADATA, version, asked_topics([]), brokers.other)
                assert nothing.topics == ()

    play(scenario)


def _topics(brokers: Brokers) -> list[str]:
    return brokers.broker(brokers.other).metadata.topics()


def test_metadata_by_topic_id() -> None:
    async def scenario(brokers: Brokers) -> None:
        topic_id = (await brokers.create("t")).topic_id

        def build(make: Maker) -> Body:
            topics = tuple(make("MetadataRequestTopic", name=None, topic_id=each) for each in (topic_id, UUID(int=9)))
            return make.root(topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False)

        answer = await brokers.ask(ApiKey.METADATA, 12, build)
        assert [(each.name, each.error_code) for each in answer.topics] == [
            ("t", ErrorCode.none),
            (None, ErrorCode.unknown_topic_id),
        ]

    play(scenario)


def test_a_topic_is_made_by_asking_for_it() -> None:
    async def scenario(brokers: Brokers) -> None:
        answer = await brokers.ask(ApiKey.METADATA, 12, asked_topics(["new"], create=True), brokers.other)
        assert [each.error_code for each in answer.topics] == [ErrorCode.leader_not_available]
        await brokers.broker(brokers.other).metadata.until(lambda: _topics(brokers) == ["new"], 5)
        answer = await brokers.ask(ApiKey.METADATA, 12, asked_topics(["new"], create=True), brokers.other)
        assert [(each.error_code, len(each.partitions)) for each in answer.topics] == [(ErrorCode.none, 4)]
        answer = await brokers.ask(ApiKey.METADATA, 12, asked_topics(["other"], create=False), brokers.other)
        assert [each.error_code for each in answer.topics] == [ErrorCode.unknown_topic_or_partition]

    play(scenario, auto_create_topics_enable="true", num_partitions="4", default_replication_factor="2")


def test_a_partition_without_a_leader_says_so() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 3, 1)
        dead = brokers.other
        brokers.cluster.host(dead).kill()
        live = brokers.controller
        await brokers.broker(live).metadata.until(lambda: len(brokers.broker(live).metadata.brokers()) == 2, 20)
        answer = await brokers.ask(ApiKey.METADATA, 12, asked_topics(["t"]), live)
        lost = [each for each in answer.topics[0].partitions if each.replica_nodes == (dead,)]
        assert [(each.error_code, each.leader_id, each.offline_replicas) for each in lost] == [
            (ErrorCode.leader_not_available, -1, (dead,))
        ]

    play(scenario)
