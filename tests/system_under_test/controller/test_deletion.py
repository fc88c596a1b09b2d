"""Topics that end, whoever is alive."""

from __future__ import annotations

from system_under_test.protocol.api import ApiKey
from system_under_test.types import TopicPartition
from system_under_test.zookeeper import nodes
from tests.system_under_test.controller.cluster import Cluster


async def _gone(cluster: Cluster) -> bool:
    return await cluster.topics.names() == [] and await cluster.topics.doomed() == []


async def _topic(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.elected()
    await cluster.topics.create("t", {0: (0, 1), 1: (1, 2)}, {})
    await cluster.settled()


def test_a_dead_broker_is_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.kill_now(1)
        await cluster.settled()
        await cluster.topics.delete("t")

        async def rest_deleted() -> bool:
            return not cluster.brokers[0].disk and not cluster.brokers[2].disk

        await cluster.until("the living delete their replicas", rest_deleted)
        await cluster.settled(pending=True)  # nobody's metadata has the topic
        assert await cluster.topics.names() == ["t"]
        await cluster.start(1)
        await cluster.until("the topic is gone", lambda: _gone(cluster))
        assert cluster.brokers[1].disk == set()
        await cluster.settled()

    Cluster().run(scenario)


def test_a_broker_that_dies_during_the_deletion() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.cut.add((0, 1))  # the controller's StopReplica does not arrive
        await cluster.topics.delete("t")

        async def rest_deleted() -> bool:
            return not cluster.brokers[2].disk

        await cluster.until("broker 2 deletes its replica", rest_deleted)
        await cluster.kill_now(1)
        cluster.cut.clear()
        await cluster.settled(pending=True)
        await cluster.start(1)
        await cluster.until("the topic is gone", lambda: _gone(cluster))
        assert cluster.brokers[1].disk == set()

    Cluster().run(scenario)


def test_a_dead_broker_and_another_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.kill_now(1)
        await cluster.topics.delete("t")
        await cluster.settled(pending=True)
        await cluster.kill_now(0)
        await cluster.settled(pending=True)
        assert cluster.controller() == 2
        await cluster.start(1)
        await cluster.settled(pending=True)
        assert await cluster.topics.names() == ["t"]  # broker 0 has a replica too
        await cluster.start(0)
        await cluster.until("the topic is gone", lambda: _gone(cluster))
        assert all(broker.disk == set() for broker in cluster.brokers.values())

    Cluster().run(scenario)


def test_a_replica_that_cannot_be_deleted_is_tried_again_when_its_broker_is_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.brokers[1].failing.add(TopicPartition("t", 0))
        await cluster.topics.delete("t")

        async def tried() -> bool:
            told = [body for api, body in cluster.brokers[1].told if api is ApiKey.STOP_REPLICA]
            return any(
                state.delete_partition for body in told for t in body.topic_states for state in t.partition_states
            )

        await cluster.until("the deletion is tried", tried)
        await cluster.settled(pending=True)
        assert await cluster.topics.names() == ["t"]
        cluster.brokers[1].failing.clear()
        await cluster.kill_now(1)
        await cluster.start(1)
        await cluster.until("the topic is gone", lambda: _gone(cluster))

    Cluster().run(scenario)


def test_marks_of_topics_that_do_not_exist_are_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.admin.create(nodes.delete_topic_path("never"))
        await cluster.settled()
        assert await cluster.topics.names() == ["t"]

    Cluster().run(scenario)


def test_deletion_can_be_disabled() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.topics.delete("t")
        await cluster.settled()
        assert await cluster.topics.names() == ["t"]

    Cluster(settings={"delete.topic.enable": "false"}).run(scenario)


def test_partitions_added_to_a_doomed_topic_are_taken_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.kill_now(1)
        await cluster.settled()
        await cluster.topics.delete("t")
        await cluster.settled(pending=True)
        await cluster.topics.add_partitions("t", lambda _: {2: (0, 2)})

        async def taken_back() -> bool:
            return sorted((await cluster.assignment("t")).partitions) == [0, 1]

        await cluster.until("the partition is taken back", taken_back)
        await cluster.start(1)
        await cluster.until("the topic is gone", lambda: _gone(cluster))
        assert all(broker.disk == set() for broker in cluster.brokers.values())

    Cluster().run(scenario)


def test_a_topic_that_somebody_removes_by_hand_is_forgotten() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        for number in (0, 1):
            for path in (nodes.partition_state_path("t", number), nodes.partition_path("t", number)):
                await cluster.admin.delete(path)
        await cluster.admin.delete(nodes.partitions_path("t"))
        await cluster.admin.delete(nodes.topic_path("t"))
        await cluster.settled()
        await cluster.topics.create("t", {0: (2, 0)}, {})

        async def led() -> bool:
            info = cluster.brokers[1].metadata.partition(TopicPartition("t", 0))
            return info is not None and info.leader == 2

        await cluster.until("the new topic is led", led)

    Cluster().run(scenario)
