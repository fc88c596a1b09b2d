"""Configs, elections, reassignments, folders and the cluster's description on whole brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from system_under_test.apis import (
    alter_configs,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    incremental_alter_configs,
)
from system_under_test.apis.incremental_alter_configs import Operation
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Maker
from system_under_test.types import TopicPartition
from tests.system_under_test.apis.cluster import TIMEOUT, Brokers, play

T0 = TopicPartition("t", 0)
TOPIC, BROKER = 2, 4


def described(kind: int, name: str, keys: tuple[str, ...] | None = None) -> Any:
    def build(make: Maker) -> Body:
        resource = make("DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=keys)
        return make.root(resources=(resource,), include_synonyms=True, include_documentation=True)

    return build


def test_settings_of_a_topic_and_where_they_come_from() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3, retention_ms="1234")
        for version in describe_configs.VERSIONS:
            (result,) = (await brokers.ask(ApiKey.DESCRIBE_CONFIGS, version, described(TOPIC, "t"))).results
            assert result.error_code is ErrorCode.none
            found = {each.name: each for each in result.configs}
            assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("1234", 1)
            assert (found["min.insync.replicas"].value, found["min.insync.replicas"].config_source) == ("2", 4)
            assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", 5)
            names = [(each.name, each.source) for each in found["retention.ms"].synonyms]
            assert names[0] == ("retention.ms", 1)
            if version >= 3:
                assert found["retention.ms"].config_type == 5
                assert found["preallocate"].config_type == 1
                assert found["retention.ms"].documentation
            (some,) = (
                await brokers.ask(ApiKey.DESCRIBE_CONFIGS, version, described(TOPIC, "t", ("flush.ms",)))
            ).results
            assert [each.name for each in some.configs] == ["flush.ms"]

    play(scenario)


def test_settings_of_a_broker() -> None:
    async def scenario(brokers: Brokers) -> None:
        (own,) = (await brokers.ask(ApiKey.DESCRIBE_CONFIGS, 4, described(BROKER, "2"), 2)).results
        found = {each.name: each for each in own.configs}
        assert (found["broker.id"].value, found["broker.id"].config_source, found["broker.id"].read_only) == (
            "2",
            4,
            True,
        )
        assert found["num.partitions"].config_source == 5
        for kind, name, code in (
            (BROKER, "1", ErrorCode.invalid_request),
            (TOPIC, "gone", ErrorCode.unknown_topic_or_partition),
            (8, "2", ErrorCode.invalid_request),
        ):
            (result,) = (await brokers.ask(ApiKey.DESCRIBE_CONFIGS, 4, described(kind, name), 2)).results
            assert result.error_code is code

    play(scenario)


def replaced(topic: str, configs: dict[str, str], *, validate: bool = False) -> Any:
    def build(make: Maker) -> Body:
        given = tuple(make("AlterableConfig", name=name, value=value) for name, value in configs.items())
        resource = make("AlterConfigsResource", resource_type=TOPIC, resource_name=topic, configs=given)
        return make.root(resources=(resource,), validate_only=validate)

    return build


def changed(topic: str, changes: Sequence[tuple[str, Operation, str | None]], kind: int = TOPIC) -> Any:
    def build(make: Maker) -> Body:
        given = tuple(
            make("AlterableConfig", name=name, config_operation=int(operation), value=value)
            for name, operation, value in changes
        )
        resource = make("AlterConfigsResource", resource_type=kind, resource_name=topic, configs=given)
        return make.root(resources=(resource,), validate_only=False)

    return build


async def _reach(brokers: Brokers, topic: str, wanted: dict[str, str]) -> None:
    async with asyncio.timeout(10):
        while any(dict(brokers.broker(each).configs.topic(topic)) != wanted for each in (1, 2, 3)):
            await asyncio.sleep(0.05)


def test_overrides_are_replaced_and_every_broker_hears_of_it() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3, retention_ms="1234")
        for version in alter_configs.VERSIONS:
            wanted = {"segment.bytes": str(5000 + version)}
            answer = await brokers.ask(ApiKey.ALTER_CONFIGS, version, replaced("t", wanted), brokers.other)
            assert [each.error_code for each in answer.responses] == [ErrorCode.none]
            await _reach(brokers, "t", wanted)
            for each in (1, 2, 3):
                log = brokers.broker(each).context.logs.get(T0)
                assert log is not None
                assert log.config.segment_bytes == 5000 + version
        for build, code in (
            (replaced("t", {"segment.bytes": "x"}), ErrorCode.invalid_config),
            (replaced("t", {"no.such": "1"}), ErrorCode.invalid_config),
            (replaced("gone", {}), ErrorCode.unknown_topic_or_partition),
            (replaced("t", {"segment.bytes": "9999"}, validate=True), ErrorCode.none),
        ):
            answer = await brokers.ask(ApiKey.ALTER_CONFIGS, 2, build)
            assert [each.error_code for each in answer.responses] == [code]
        await _reach(brokers, "t", {"segment.bytes": "5002"})

    play(scenario)


def test_single_overrides_are_changed() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3, retention_ms="1234")
        for version in incremental_alter_configs.VERSIONS:
            build = changed("t", [("cleanup.policy", Operation.APPEND, "compact"), ("flush.ms", Operation.SET, "7")])
            answer = await brokers.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, build)
            assert [each.error_code for each in answer.responses] == [ErrorCode.none]
            await _reach(brokers, "t", {"retention.ms": "1234", "cleanup.policy": "delete,compact", "flush.ms": "7"})
            build = changed(
                "t", [("cleanup.policy", Operation.SUBTRACT, "compact"), ("flush.ms", Operation.DELETE, None)]
            )
            await brokers.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, build)
            await _reach(brokers, "t", {"retention.ms": "1234", "cleanup.policy": "delete"})
        for build, code in (
            (changed("t", [("flush.ms", Operation.APPEND, "1")]), ErrorCode.invalid_config),
            (changed("t", [("flush.ms", Operation.SET, None)]), ErrorCode.invalid_request),
            (
                changed("t", [("flush.ms", Operation.SET, "1"), ("flush.ms", Operation.SET, "2")]),
                ErrorCode.invalid_request,
            ),
        ):
            answer = await brokers.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, build)
            assert [each.error_code for each in answer.responses] == [code]

    play(scenario)


def elected(kind: int, partitions: list[int] | None) -> Any:
    def build(make: Maker) -> Body:
        asked = None if partitions is None else (make("TopicPartitions", topic="t", partitions=tuple(partitions)),)
        return make.root(election_type=kind, topic_partitions=asked, timeout=TIMEOUT)

    return build


def test_preferred_leaders_are_elected() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 3)
        for version in elect_leaders.VERSIONS:
            away = brokers.other
            await brokers.cluster.stop(away)
            brokers.cluster.start(away)
            async with asyncio.timeout(60):
                while not all(_in_sync(brokers, number) for number in range(3)):
                    await asyncio.sleep(0.1)
            answer = await brokers.ask(ApiKey.ELECT_LEADERS, version, elected(0, [0, 1, 2, 9]))
            (topic,) = answer.replica_election_results
            codes = {each.partition_id: each.error_code for each in topic.partition_result}
            assert codes.pop(9) is ErrorCode.unknown_topic_or_partition
            assert sorted(code.name for code in codes.values()) == [
                "election_not_needed",
                "election_not_needed",
                "none",
            ]
            for number in range(3):
                info = brokers.broker(brokers.controller).metadata.partition(TopicPartition("t", number))
                assert info is not None
                assert info.leader == info.replicas[0]
            again = await brokers.ask(ApiKey.ELECT_LEADERS, version, elected(0, None))
            assert again.replica_election_results == ()
        refused = await brokers.ask(ApiKey.ELECT_LEADERS, 2, elected(0, [0]), brokers.other)
        assert refused.error_code is ErrorCode.not_controller

    play(scenario)


def _in_sync(brokers: Brokers, number: int) -> bool:
    state = brokers.cluster.state(TopicPartition("t", number))
    return state is not None and set(state.isr) == {1, 2, 3}


def moved(targets: dict[int, tuple[int, ...] | None]) -> Any:
    def build(make: Maker) -> Body:
        partitions = tuple(
            make("ReassignablePartition", partition_index=number, replicas=replicas)
            for number, replicas in targets.items()
        )
        topic = make("ReassignableTopic", name="t", partitions=partitions)
        return make.root(timeout=TIMEOUT, topics=(topic,))

    return build


def test_replicas_move_with_their_data() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 2)
        answer = await brokers.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moved({0: (3, 2), 7: (1,)}))
        codes = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
        assert codes == {0: ErrorCode.none, 7: ErrorCode.unknown_topic_or_partition}
        async with asyncio.timeout(60):
            while (info := brokers.broker(1).metadata.partition(T0)) is None or info.replicas != (3, 2):
                await asyncio.sleep(0.05)

        def listing(make: Maker) -> Body:
            return make.root(timeout=TIMEOUT, topics=None)

        async with asyncio.timeout(60):
            while (await brokers.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)).topics:
                await asyncio.sleep(0.05)
            while T0 in brokers.broker(1).context.replicas.partitions:
                await asyncio.sleep(0.05)
        assert info.leader in (2, 3)
        for target, code in (
            ({0: None}, ErrorCode.no_reassignment_in_progress),
            ({0: ()}, ErrorCode.invalid_replica_assignment),
            ({0: (1, 1)}, ErrorCode.invalid_replica_assignment),
            ({0: (1, 9)}, ErrorCode.invalid_replica_assignment),
        ):
            answer = await brokers.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moved(dict(target)))
            assert [each.error_code for each in answer.responses[0].partitions] == [code]

    play(scenario)


def test_a_move_under_way_is_listed_and_can_be_cancelled() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 2)
        controller, leader = brokers.controller, 1
        # The new replica can reach the controller and not the leader: it never catches up.
        target = 3
        assert {leader, target} != {controller}
        brokers.cluster.simulation.cut("broker-3", "broker-1")
        brokers.cluster.simulation.cut("broker-3", "broker-2")
        answer = await brokers.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moved({0: (1, 3)}))
        assert [each.error_code for each in answer.responses[0].partitions] == [ErrorCode.none]

        def listing(make: Maker) -> Body:
            asked = make("ListPartitionReassignmentsTopics", name="t", partition_indexes=(0,))
            return make.root(timeout=TIMEOUT, topics=(asked,))

        listed = (await brokers.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)).topics
        assert [(each.replicas, each.adding_replicas, each.removing_replicas) for each in listed[0].partitions] == [
            ((1, 3, 2), (3,), (2,))
        ]
        cancelled = await brokers.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moved({0: None}))
        assert [each.error_code for each in cancelled.responses[0].partitions] == [ErrorCode.none]
        assert (await brokers.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listing)).topics == ()
        stored = await brokers.broker(1).context.topics.assignment("t")
        assert stored is not None
        assert dict(stored.partitions) == {0: (1, 2)}

    play(scenario)


def test_the_cluster_and_its_folders_are_described() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 2, 3)
        for version in describe_cluster.VERSIONS:

            def cluster(make: Maker) -> Body:
                return make.root(include_cluster_authorized_operations=False, endpoint_type=1)

            answer = await brokers.ask(ApiKey.DESCRIBE_CLUSTER, version, cluster, brokers.other)
            assert answer.controller_id == brokers.controller
            assert [each.broker_id for each in answer.brokers] == [1, 2, 3]
            assert answer.cluster_id == brokers.broker(2).context.cluster_id
        for version in describe_log_dirs.VERSIONS:

            def folders(make: Maker) -> Body:
                return make.root(topics=None)

            answer = await brokers.ask(ApiKey.DESCRIBE_LOG_DIRS, version, folders, brokers.controller)
            (folder,) = answer.results
            assert folder.log_dir == "/data"
            assert [each.partition_index for each in folder.topics[0].partitions] == [0, 1]

    play(scenario)
