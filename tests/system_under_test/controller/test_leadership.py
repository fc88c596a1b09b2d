"""Who leads, as topics and brokers come and go."""

from __future__ import annotations

import pytest

from system_under_test.controller.elections import ElectionType
from system_under_test.failpoints import Action
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.types import TopicPartition
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from tests.system_under_test.controller.cluster import Cluster

T0 = TopicPartition("t", 0)


async def three(cluster: Cluster, partitions: int = 3, factor: int = 3) -> None:
    """Brokers 0, 1, 2 and a topic; broker 0 is controller."""
    await cluster.start(0, 1, 2)
    await cluster.elected()
    await cluster.topics.create("t", assign_replicas([0, 1, 2], partitions, factor), {})
    await cluster.settled()


def test_a_topic_gets_leaders() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=5)
        for number, leader in enumerate((0, 1, 2, 0, 1)):
            state = await cluster.state("t", number)
            assert (state.leader, state.leader_epoch, sorted(state.isr)) == (leader, 0, [0, 1, 2])

    Cluster().run(scenario)


def test_a_new_replica_is_told_that_it_is_new_and_once_only() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=1)
        told = [body for api, body in cluster.brokers[1].told if api is ApiKey.LEADER_AND_ISR]
        states = [state for body in told for topic in body.topic_states for state in topic.partition_states]
        assert [state.is_new for state in states] == [True]

    Cluster().run(scenario)


def test_the_leaderships_of_a_dead_broker_go_to_the_isr() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster)
        before = await cluster.state("t", 2)
        await cluster.kill_now(2)
        await cluster.settled()
        after = await cluster.state("t", 2)
        assert after.leader == 0
        assert after.leader_epoch > before.leader_epoch
        assert sorted(after.isr) == [0, 1]
        await cluster.start(2)
        await cluster.settled()
        assert (await cluster.state("t", 2)).leader == 0  # coming back gives no leadership

    Cluster(settings={"auto.leader.rebalance.enable": "false"}).run(scenario)


def test_a_partition_without_its_isr_waits_for_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.in_sync = False
        await three(cluster, partitions=1)
        await cluster.kill_now(1, 2)
        await cluster.settled()
        await cluster.kill_now(0)
        await cluster.start(1)
        await cluster.settled(offline=frozenset({T0}))
        assert (await cluster.state("t")).isr == (0,)
        await cluster.start(0)
        await cluster.settled()
        assert (await cluster.state("t")).leader == 0

    Cluster().run(scenario)


def test_unclean_election_by_the_topics_config_and_when_it_is_turned_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.in_sync = False
        await three(cluster, partitions=1)
        await cluster.kill_now(1, 2)
        await cluster.settled()
        await cluster.kill_now(0)
        await cluster.start(1)
        await cluster.settled(offline=frozenset({T0}))
        overrides = {"unclean.leader.election.enable": "true"}
        await cluster.admin.set(nodes.topic_config_path("t"), nodes.encode_config(overrides))
        cluster.active().topic_config_changed("t", overrides)
        await cluster.settled()
        state = await cluster.state("t")
        assert (state.leader, state.isr) == (1, (1,))

    Cluster().run(scenario)


def test_a_broker_that_bounced_unseen_leaves_its_isrs() -> None:
    """All that the controller sees is another broker epoch."""

    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=2, factor=2)
        cluster.in_sync = False
        controller = cluster.controller()
        assert controller == 0
        cluster.simulation.host("broker-0").pause()
        session = cluster.running[1].sessions.current.session_id
        cluster.kill(1)
        cluster.simulation.zookeeper.expire(session)
        await cluster.start(1)
        cluster.simulation.host("broker-0").resume()

        async def moved() -> bool:
            return (await cluster.state("t", 1)).leader == 2

        await cluster.until("partition 1 is led by 2", moved)
        await cluster.settled()
        assert (await cluster.state("t", 0)).isr == (0,)
        assert (await cluster.state("t", 1)).isr == (2,)

    Cluster().run(scenario)


def test_controlled_shutdown_hands_over_and_says_what_is_left() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=3, factor=2)
        cluster.in_sync = False
        left = await cluster.active().controlled_shutdown(1, cluster.brokers[1].epoch)
        assert left == []
        for number in range(3):
            state = await cluster.state("t", number)
            assert state.leader != 1
            assert 1 not in state.isr
        # The other replica of partition 1 is on broker 2: when that one goes, nobody can take over.
        assert await cluster.active().controlled_shutdown(2, -1) == [TopicPartition("t", 1)]
        with pytest.raises(ApiError) as refused:
            await cluster.active().controlled_shutdown(1, cluster.brokers[1].epoch - 1)
        assert refused.value.code is ErrorCode.stale_broker_epoch

    Cluster().run(scenario)


def test_preferred_elections_by_api_by_node_and_by_rebalance() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster)
        for way in ("api", "node", "rebalance"):
            await cluster.kill_now(1)
            await cluster.settled()
            await cluster.start(1)
            await cluster.settled()
            if way == "rebalance":

                async def balanced() -> bool:
                    return (await cluster.state("t", 1)).leader == 1

                await cluster.until("leadership comes back by itself", balanced, within_s=40)
                continue
            assert (await cluster.state("t", 1)).leader != 1
            if way == "api":
                outcomes = await cluster.active().elect_leaders(None, ElectionType.PREFERRED)
                assert outcomes == {TopicPartition("t", 1): None}
                again = await cluster.active().elect_leaders([T0], ElectionType.PREFERRED)
                error = again[T0]
                assert error is not None
                assert error.code is ErrorCode.election_not_needed
            else:
                wanted = nodes.encode_partition_list([TopicPartition("t", 1), TopicPartition("gone", 0)])
                await cluster.admin.create(nodes.PREFERRED_REPLICA_ELECTION, wanted)
            await cluster.settled()
            assert (await cluster.state("t", 1)).leader == 1

    Cluster(settings={"leader.imbalance.check.interval.seconds": "30"}).run(scenario)


def test_unclean_election_by_hand() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.in_sync = False
        await three(cluster, partitions=1)
        await cluster.kill_now(1, 2)
        await cluster.settled()
        await cluster.kill_now(0)
        await cluster.start(2)
        await cluster.settled(offline=frozenset({T0}))
        refused = await cluster.active().elect_leaders([T0], ElectionType.PREFERRED)
        error = refused[T0]
        assert error is not None
        assert error.code is ErrorCode.preferred_leader_not_available
        assert await cluster.active().elect_leaders([T0], ElectionType.UNCLEAN) == {T0: None}
        assert (await cluster.state("t")).leader == 2

    Cluster().run(scenario)


def test_a_failed_folder_takes_its_replicas_offline() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=2)
        cluster.brokers[0].failing.add(T0)
        await cluster.admin.create(*nodes.log_dir_event(0), sequential=True)

        async def moved() -> bool:
            return (await cluster.state("t", 0)).leader == 1

        await cluster.until("broker 1 takes over", moved)
        assert 0 not in (await cluster.state("t", 0)).isr
        assert (await cluster.state("t", 1)).isr == (1, 2, 0)

    Cluster().run(scenario)


def test_requests_reach_a_broker_in_order_however_often_they_are_lost() -> None:
    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=1)
        failpoints = cluster.running[0].failpoints
        failpoints.arm("controller.request.sent", Action.DROP, {"peer": 2}, count=3)
        before = len(cluster.brokers[2].told)
        await cluster.kill_now(1)
        await cluster.start(1)
        await cluster.settled()
        epochs = [
            state.leader_epoch
            for api, body in cluster.brokers[2].told[before:]
            if api is ApiKey.LEADER_AND_ISR
            for topic in body.topic_states
            for state in topic.partition_states
        ]
        assert epochs == sorted(epochs)
        assert failpoints.armed()[0].hits == 3

    Cluster().run(scenario)


def test_a_leader_that_changes_its_isr_meanwhile_is_not_overwritten() -> None:
    """The controller's write meets another version, reads again and elects from what is there."""

    async def scenario(cluster: Cluster) -> None:
        await three(cluster, partitions=1)
        cluster.in_sync = False
        failpoints = cluster.running[0].failpoints
        hold = failpoints.arm("controller.before_state_write", Action.HOLD, {"topic": "t"})
        await cluster.kill_now(2)
        await cluster.until("the controller is about to write", lambda: _hits(cluster))
        state = await cluster.state("t")
        shrunk = nodes.PartitionState(state.leader, state.leader_epoch, (0,), state.controller_epoch)
        await cluster.admin.set(nodes.partition_state_path("t", 0), shrunk.encode())
        failpoints.release(hold)
        await cluster.settled()
        after = await cluster.state("t")
        assert (after.leader, after.isr) == (0, (0,))

    Cluster().run(scenario)


async def _hits(cluster: Cluster) -> bool:
    return cluster.running[0].failpoints.armed()[0].hits > 0
