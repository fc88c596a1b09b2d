"""Who is controller: elections, resignations, and what a deposed one can still do."""

from __future__ import annotations

import pytest

from system_under_test.controller.elections import ElectionType
from system_under_test.failpoints import Action
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.world import NodeExists
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from system_under_test.zookeeper.nodes import ControllerNode
from tests.system_under_test.controller.cluster import Cluster


async def _epoch(cluster: Cluster) -> int:
    return nodes.decode_controller_epoch((await cluster.admin.get(nodes.CONTROLLER_EPOCH))[0])


def test_one_of_them_is_elected_and_the_epoch_rises_with_each() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2)
        await cluster.settled()
        assert await _epoch(cluster) == 1
        assert sum(each.controller.is_active for each in cluster.running.values()) == 1
        node = ControllerNode.decode((await cluster.admin.get(nodes.CONTROLLER))[0])
        assert node.broker_id == cluster.controller()
        for epoch in (2, 3):
            await cluster.admin.delete(nodes.CONTROLLER)

            async def risen(epoch: int = epoch) -> bool:
                return await _epoch(cluster) == epoch

            await cluster.until("another election", risen)
            await cluster.settled()
            assert cluster.active().epoch == epoch

    Cluster().run(scenario)


@pytest.mark.parametrize("garbage", [b"", b"garbage", b'{"version":2}', b"\xff"])
@pytest.mark.parametrize("how", ["set", "replaced"])
def test_garbage_is_replaced(garbage: bytes, how: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1)
        await cluster.settled()
        if how == "set":
            await cluster.admin.set(nodes.CONTROLLER, garbage)
        else:
            await cluster.admin.delete(nodes.CONTROLLER)
            try:
                await cluster.admin.create(nodes.CONTROLLER, garbage)
            except NodeExists:
                await cluster.admin.set(nodes.CONTROLLER, garbage)

        async def replaced() -> bool:
            return b"brokerid" in (await cluster.admin.get(nodes.CONTROLLER))[0]

        await cluster.until("the garbage is gone", replaced)
        await cluster.settled()

    Cluster().run(scenario)


def test_a_controller_that_finds_another_in_office_resigns() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1)
        await cluster.settled()
        await cluster.admin.set(nodes.CONTROLLER, ControllerNode(77, 0).encode())

        async def nobody() -> bool:
            return cluster.controller() is None

        await cluster.until("the resignation", nobody)
        with pytest.raises(ApiError) as refused:
            await cluster.running[0].controller.elect_leaders(None, ElectionType.PREFERRED)
        assert refused.value.code is ErrorCode.not_controller

    Cluster().run(scenario)


def test_a_paused_controller_is_deposed_and_changes_nothing_when_it_wakes() -> None:
    """Its writes are conditional on the epoch, its requests carry the old one."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2)
        await cluster.elected()
        await cluster.topics.create("t", assign_replicas([0, 1, 2], 2, 3), {})
        await cluster.settled()
        assert cluster.controller() == 0
        host = cluster.simulation.host("broker-0")
        failpoints = cluster.running[0].failpoints
        hold = failpoints.arm("controller.before_state_write", Action.HOLD)
        await cluster.kill_now(2)

        async def about_to_write() -> bool:
            return failpoints.armed()[0].hits > 0

        await cluster.until("the controller is about to write", about_to_write)
        host.pause()
        cluster.brokers[0].up = False
        await cluster.expire_dead()
        cluster.simulation.zookeeper.expire(cluster.running[0].sessions.current.session_id)

        async def another() -> bool:
            return cluster.running[1].controller.is_active

        await cluster.until("broker 1 is controller", another)
        before = [await cluster.state("t", each) for each in range(2)]
        failpoints.release(hold)
        host.resume()
        cluster.brokers[0].up = True

        async def back() -> bool:
            return 0 in {each.id for each in cluster.brokers[1].metadata.brokers()}

        await cluster.until("broker 0 registers again", back)
        await cluster.settled()
        assert cluster.controller() == 1
        for number, state in enumerate(before):
            after = await cluster.state("t", number)
            assert after.controller_epoch >= state.controller_epoch
            assert after.leader_epoch >= state.leader_epoch

    Cluster().run(scenario)


def test_expired_sessions_of_all_brokers_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2)
        await cluster.elected()
        await cluster.topics.create("t", assign_replicas([0, 1, 2], 3, 3), {})
        await cluster.settled()
        for running in cluster.running.values():
            cluster.simulation.zookeeper.expire(running.sessions.current.session_id)

        async def again() -> bool:
            return await _epoch(cluster) > 1

        await cluster.until("another election", again)
        await cluster.settled()

    Cluster().run(scenario)


def test_an_unforeseen_failure_gives_the_office_up_and_the_work_is_done_by_the_next() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2)
        await cluster.elected()
        assert cluster.controller() == 0
        cluster.running[0].failpoints.arm("controller.before_state_write", Action.ERROR)
        await cluster.topics.create("t", assign_replicas([0, 1, 2], 3, 3), {})
        await cluster.settled()
        assert cluster.controller() != 0

    Cluster().run(scenario)


def test_zookeeper_away_for_a_while() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start(0, 1, 2)
        await cluster.elected()
        await cluster.topics.create("t", assign_replicas([0, 1, 2], 3, 3), {})
        await cluster.settled()
        epoch = cluster.active().epoch
        cluster.simulation.zookeeper.stop()
        cluster.kill(2)
        cluster.simulation.zookeeper.start()
        await cluster.settled()
        assert cluster.active().epoch == epoch  # nobody's session ended but the dead one's

    Cluster().run(scenario)
