"""The controller stops after its n-th write to ZooKeeper, for every n: the next one finishes the work.

Each scenario is played once to count the controller's writes, and then once for every one of them. The controller stops
in two ways: it is killed, or its session expires and it goes on as a broker. Afterwards everybody is alive, and the
cluster has to reach the state that it would have reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from system_under_test.controller.elections import ElectionType
from system_under_test.protocol.errors import ApiError
from system_under_test.types import TopicPartition
from system_under_test.world import NodeExists
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from tests.system_under_test.controller.cluster import Cluster

Step = Callable[[Cluster], Awaitable[None]]


class Saboteur:
    """Counts the writes of the broker that is controller, and strikes after the n-th."""

    def __init__(self, cluster: Cluster, after: int | None, how: str) -> None:
        self._cluster = cluster
        self._after = after
        self._how = how
        self._broker = cluster.controller()
        assert self._broker is not None
        self._session = cluster.running[self._broker].sessions.current.session_id
        self.writes = 0
        self.total = 0
        self.struck = False
        tree = cluster.simulation.zookeeper.tree
        self._transact = tree.transact
        tree.transact = self._watch  # type: ignore[method-assign,assignment]

    def _watch(self, changes: Any, session: int, time_ms: int) -> Any:
        done = self._transact(changes, session, time_ms)
        if session == self._session:
            self.writes += 1
            if self.writes == self._after:
                self.struck = True
                self._cluster.simulation.loop.world_at(self._cluster.simulation.loop.time(), self._strike)
        return done

    def _strike(self) -> None:
        assert self._broker is not None
        if self._how == "kill":
            self._cluster.kill(self._broker)
        self._cluster.simulation.zookeeper.expire(self._session)

    async def revive(self) -> None:
        if self.struck and self._how == "kill" and self._broker is not None:
            await self._cluster.start(self._broker)


def at_every_write(prepare: Step, act: Step, check: Step, how: str, settings: dict[str, str] | None = None) -> int:
    """How many writes there were."""

    def play(after: int | None) -> Saboteur:
        found: list[Saboteur] = []

        async def scenario(cluster: Cluster) -> None:
            await prepare(cluster)
            await cluster.settled()
            saboteur = Saboteur(cluster, after, how)
            found.append(saboteur)
            await act(cluster)
            if after is None:
                await cluster.settled()
                saboteur.total = saboteur.writes
            else:

                async def struck() -> bool:
                    return saboteur.struck

                await cluster.until(f"write {after}", struck)
                await cluster.until("a controller", lambda: _other(cluster))
                await saboteur.revive()
                await cluster.settled()
            await check(cluster)

        Cluster(settings={"auto.leader.rebalance.enable": "false", **(settings or {})}).run(scenario)
        return found[0]

    total = play(None).total
    assert total > 0, "this scenario writes nothing"
    for number in range(1, total + 1):
        assert play(number).struck
    return total


async def _other(cluster: Cluster) -> bool:
    return cluster.controller() is not None


both = pytest.mark.parametrize("how", ["kill", "expire"])


async def _three_brokers(cluster: Cluster) -> None:
    await cluster.start(0, 1, 2)
    await cluster.elected()


async def _topic(cluster: Cluster) -> None:
    await _three_brokers(cluster)
    await cluster.topics.create("t", {0: (0, 1), 1: (1, 2)}, {})


async def _create(cluster: Cluster) -> None:
    await cluster.topics.create("t", assign_replicas([0, 1, 2], 3, 2), {})


async def _nothing(_: Cluster) -> None: ...


@both
def test_creation(how: str) -> None:
    async def check(cluster: Cluster) -> None:
        assert dict((await cluster.assignment("t")).partitions) == {0: (0, 1), 1: (1, 2), 2: (2, 0)}

    at_every_write(_three_brokers, _create, check, how)


@both
def test_more_partitions(how: str) -> None:
    async def grow(cluster: Cluster) -> None:
        await cluster.topics.add_partitions("t", lambda _: {2: (2, 0), 3: (0, 2)})

    async def check(cluster: Cluster) -> None:
        assert sorted((await cluster.assignment("t")).partitions) == [0, 1, 2, 3]

    at_every_write(_topic, grow, check, how)


@both
def test_deletion(how: str) -> None:
    async def delete(cluster: Cluster) -> None:
        await cluster.topics.delete("t")

    async def check(cluster: Cluster) -> None:
        assert await cluster.topics.names() == []
        assert await cluster.admin.exists(nodes.topic_config_path("t")) is None
        for broker in cluster.brokers.values():
            assert broker.disk == set()
            assert broker.hosted == {}
        await cluster.topics.create("t", {0: (2, 1)}, {"retention.ms": "5"})
        await cluster.settled()
        assert (await cluster.state("t")).leader == 2

    at_every_write(_topic, delete, check, how)


@both
def test_reassignment(how: str) -> None:
    async def move(cluster: Cluster) -> None:
        wanted = {TopicPartition("t", 0): (2, 1), TopicPartition("t", 1): (0, 2)}
        try:
            await cluster.admin.create(nodes.REASSIGN_PARTITIONS, nodes.encode_reassignment(wanted))
        except NodeExists:
            raise AssertionError("a reassignment was left over") from None

    async def check(cluster: Cluster) -> None:
        assert dict((await cluster.assignment("t")).partitions) == {0: (2, 1), 1: (0, 2)}

    at_every_write(_topic, move, check, how)


@both
def test_a_broker_dies(how: str) -> None:
    async def prepare(cluster: Cluster) -> None:
        await _three_brokers(cluster)
        await cluster.topics.create("t", {0: (0, 1, 2), 1: (1, 2, 0)}, {})

    async def die(cluster: Cluster) -> None:
        await cluster.kill_now(1)

    async def check(cluster: Cluster) -> None:
        for number in range(2):
            assert 1 not in (await cluster.state("t", number)).isr

    at_every_write(prepare, die, check, how)


@both
def test_a_broker_bounces(how: str) -> None:
    async def bounce(cluster: Cluster) -> None:
        await cluster.kill_now(1)
        await cluster.start(1)

    at_every_write(_topic, bounce, _nothing, how)


@both
def test_preferred_election(how: str) -> None:
    async def unbalanced(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.settled()
        await cluster.kill_now(1)
        await cluster.settled()
        await cluster.start(1)

    async def elect(cluster: Cluster) -> None:
        wanted = nodes.encode_partition_list([TopicPartition("t", 1)])
        await cluster.admin.create(nodes.PREFERRED_REPLICA_ELECTION, wanted)

    at_every_write(unbalanced, elect, _nothing, how)


@both
def test_controlled_shutdown(how: str) -> None:
    async def shut_down(cluster: Cluster) -> None:
        asked = cluster.controller()
        try:
            await asyncio.wait_for(cluster.active().controlled_shutdown(1, -1), 2.0)
        except (ApiError, TimeoutError):  # the controller stopped before it answered: brokers ask the next one

            async def another() -> bool:
                return cluster.controller() not in (None, asked)

            await cluster.until("another controller", another)
            await cluster.active().controlled_shutdown(1, -1)
        await cluster.kill_now(1)
        await cluster.start(1)

    at_every_write(_topic, shut_down, _nothing, how)


def test_the_first_election_of_all() -> None:
    """Nobody was controller before: its recovery is interrupted too."""

    async def prepare(cluster: Cluster) -> None:
        await _topic(cluster)
        await cluster.settled()
        outcomes = await cluster.active().elect_leaders(None, ElectionType.PREFERRED)
        assert outcomes == {}

    async def lose_two(cluster: Cluster) -> None:
        await cluster.kill_now(1, 2)
        await cluster.start(1, 2)

    at_every_write(prepare, lose_two, _nothing, "kill")
