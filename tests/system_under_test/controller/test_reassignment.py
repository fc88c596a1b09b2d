"""Replicas that move, while brokers die and minds change."""

from __future__ import annotations

from system_under_test.controller.context import ReplicaAssignment
from system_under_test.protocol.errors import ErrorCode
from system_under_test.types import TopicPartition
from system_under_test.zookeeper import nodes
from tests.system_under_test.controller.cluster import Cluster

T0 = TopicPartition("t", 0)


async def _topic(cluster: Cluster) -> None:
    """On brokers 0 and 1; 2 and 3 are free."""
    await cluster.start(0, 1, 2, 3)
    await cluster.elected()
    await cluster.topics.create("t", {0: (0, 1)}, {})
    await cluster.settled()


async def _moved(cluster: Cluster, *replicas: int) -> None:
    await cluster.settled()
    assert dict((await cluster.assignment("t")).partitions) == {0: replicas}
    state = await cluster.state("t")
    assert sorted(state.isr) == sorted(replicas)
    assert state.leader in replicas
    for broker in cluster.brokers.values():
        assert (T0 in broker.disk) == (broker.id in replicas), broker.id


def test_assignments_during_a_move() -> None:
    start = ReplicaAssignment((0, 1))
    moving = start.reassign_to((2, 1))
    assert moving == ReplicaAssignment((2, 1, 0), adding=(2,), removing=(0,))
    assert (moving.origin, moving.target) == ((1, 0), (2, 1))
    assert moving.reassign_to((3,)) == ReplicaAssignment((3, 1, 0), adding=(3,), removing=(1, 0))
    assert not moving.reassign_to(moving.origin).is_being_reassigned


def test_a_move_to_other_brokers() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        assert await cluster.active().alter_partition_reassignments({T0: (2, 3)}) == {T0: None}
        await _moved(cluster, 2, 3)
        assert await cluster.active().list_partition_reassignments(None) == {}

    Cluster().run(scenario)


def test_a_new_replica_dies_before_it_has_caught_up() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.in_sync = False
        await cluster.active().alter_partition_reassignments({T0: (2, 1)})
        await cluster.kill_now(2)
        await cluster.settled(pending=True)
        assert (await cluster.assignment("t")).adding_replicas == {0: (2,)}
        cluster.in_sync = True
        await cluster.start(2)
        await _moved(cluster, 2, 1)

    Cluster().run(scenario)


def test_the_leader_dies_during_the_move() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.in_sync = False
        await cluster.active().alter_partition_reassignments({T0: (2, 3)})
        await cluster.kill_now(0)
        await cluster.settled(pending=True)
        cluster.in_sync = True
        cluster.roles_changed()
        await cluster.start(0)
        await _moved(cluster, 2, 3)

    Cluster().run(scenario)


def test_an_old_replica_is_dead_when_the_move_completes() -> None:
    """Its data stays on its disk; the broker is not told to host it any more."""

    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.kill_now(1)
        await cluster.settled()
        await cluster.active().alter_partition_reassignments({T0: (2, 3)})
        await cluster.settled()
        await cluster.start(1)
        await cluster.settled()
        assert T0 not in cluster.brokers[1].hosted
        assert (await cluster.state("t")).isr == (2, 3)

    Cluster().run(scenario)


def test_another_target_in_the_middle() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.in_sync = False
        await cluster.active().alter_partition_reassignments({T0: (2, 1)})
        await cluster.until("broker 2 is told", lambda: _hosts(cluster, 2))
        await cluster.active().alter_partition_reassignments({T0: (3, 1)})
        cluster.in_sync = True
        await _moved(cluster, 3, 1)

    Cluster().run(scenario)


async def _hosts(cluster: Cluster, broker: int) -> bool:
    return T0 in cluster.brokers[broker].hosted


def test_a_move_is_cancelled() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.in_sync = False
        await cluster.active().alter_partition_reassignments({T0: (2, 3)})
        await cluster.until("broker 3 is told", lambda: _hosts(cluster, 3))
        assert await cluster.active().alter_partition_reassignments({T0: None}) == {T0: None}
        cluster.in_sync = True
        await cluster.settled()
        assert dict((await cluster.assignment("t")).partitions) == {0: (0, 1)}
        assert cluster.brokers[2].disk == cluster.brokers[3].disk == set()

    Cluster().run(scenario)


def test_the_last_replica_in_sync_is_never_stopped() -> None:
    """A new replica has caught up and the old ones are dead: to cancel the move would delete all that is left."""

    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.cut.add((0, 3))  # broker 3 stays behind, so that the move is not complete
        cluster.cut.add((2, 3))
        await cluster.active().alter_partition_reassignments({T0: (2, 3)})

        async def caught_up() -> bool:
            return 2 in (await cluster.state("t")).isr

        await cluster.until("broker 2 has caught up", caught_up)
        await cluster.kill_now(1)
        await cluster.settled_leader(T0)
        await cluster.kill_now(0)
        await cluster.settled_leader(T0, 2)
        for target in (None, (0, 1), (3,)):
            outcome = (await cluster.active().alter_partition_reassignments({T0: target}))[T0]
            assert outcome is not None
            assert outcome.code is ErrorCode.invalid_replica_assignment
        assert (await cluster.state("t")).isr == (2,)
        assert T0 in cluster.brokers[2].disk
        cluster.cut.clear()
        await cluster.start(0, 1)
        cluster.roles_changed()
        await _moved(cluster, 2, 3)

    Cluster().run(scenario)


def test_requests_by_node_that_make_no_sense_are_removed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        for data in (
            b"garbage",
            nodes.encode_reassignment({TopicPartition("gone", 0): (1,), T0: ()}),
            nodes.encode_reassignment({T0: (1, 1)}),
            nodes.encode_reassignment({}),
        ):
            await cluster.admin.create(nodes.REASSIGN_PARTITIONS, data)
            await cluster.settled()
        await _moved(cluster, 0, 1)

    Cluster().run(scenario)


def test_a_topic_is_deleted_while_it_moves() -> None:
    """New replicas that never catch up are not waited for."""

    async def scenario(cluster: Cluster) -> None:
        await _topic(cluster)
        cluster.in_sync = False
        await cluster.active().alter_partition_reassignments({T0: (2, 3)})
        await cluster.until("broker 3 is told", lambda: _hosts(cluster, 3))
        await cluster.topics.delete("t")

        async def gone() -> bool:
            return await cluster.topics.names() == []

        await cluster.until("the topic is gone", gone)
        assert all(broker.disk == set() for broker in cluster.brokers.values())
        await cluster.settled()

    Cluster().run(scenario)
