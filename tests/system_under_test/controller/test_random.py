"""Random faults and random requests; afterwards everybody is alive and the cluster has to come to rest.

No step of any controller may fail in an unforeseen way meanwhile, and no leader epoch may have two leaders.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from system_under_test.controller.elections import ElectionType
from system_under_test.protocol.errors import ApiError
from system_under_test.types import TopicPartition
from system_under_test.world import CoordinationError
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from system_under_test.zookeeper.nodes import PartitionState
from tests.system_under_test.controller.cluster import Cluster

BROKERS = (0, 1, 2, 3)
STEPS = 40


class Chaos:
    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._made = 0
        self.leaders: dict[tuple[str, int, bytes], int] = {}

    async def step(self) -> None:
        action = self._chance.choice(
            (
                self._kill,
                self._kill,
                self._start,
                self._start,
                self._start,
                self._expire,
                self._disconnect,
                self._pause,
                self._cut,
                self._create,
                self._create,
                self._delete,
                self._grow,
                self._move,
                self._move,
                self._elect,
                self._shut_down,
                self._depose,
            )
        )
        with suppress(ApiError, CoordinationError, TimeoutError):
            await asyncio.wait_for(action(), 20)
        await asyncio.sleep(self._chance.choice((0, 0.001, 0.01, 0.1, 1, 3)))

    def _running(self) -> list[int]:
        return sorted(self._cluster.running)

    async def _kill(self) -> None:
        if len(self._running()) > 1:
            victim = self._chance.choice(self._running())
            session = self._cluster.running[victim].sessions.current.session_id
            self._cluster.kill(victim)
            if self._chance.random() < 0.7:
                self._cluster.simulation.zookeeper.expire(session)

    async def _start(self) -> None:
        for each in BROKERS:
            if each not in self._cluster.running:
                await self._cluster.start(each)
                return

    async def _expire(self) -> None:
        each = self._chance.choice(self._running())
        self._cluster.simulation.zookeeper.expire(self._cluster.running[each].sessions.current.session_id)

    async def _disconnect(self) -> None:
        zookeeper = self._cluster.simulation.zookeeper
        zookeeper.disconnect(self._chance.choice(list(zookeeper.sessions)))

    async def _pause(self) -> None:
        each = self._chance.choice(self._running())
        host = self._cluster.simulation.host(f"broker-{each}")
        host.pause()
        if self._chance.random() < 0.5:
            self._cluster.simulation.zookeeper.expire(self._cluster.running[each].sessions.current.session_id)
        await asyncio.sleep(self._chance.choice((0.01, 0.5, 2)))
        host.resume()

    async def _cut(self) -> None:
        pair = (self._chance.choice(BROKERS), self._chance.choice(BROKERS))
        self._cluster.cut.add(pair)
        asyncio.get_running_loop().call_later(self._chance.random(), self._cluster.cut.discard, pair)

    async def _create(self) -> None:
        self._made += 1
        factor = self._chance.randint(1, 3)
        replicas = assign_replicas(BROKERS, self._chance.randint(1, 3), factor)
        await self._cluster.topics.create(f"t{self._made % 3}", replicas, {})

    async def _topic(self) -> str:
        return self._chance.choice(await self._cluster.topics.names() or ["none"])

    async def _delete(self) -> None:
        await self._cluster.topics.delete(await self._topic())

    async def _grow(self) -> None:
        replicas = tuple(self._chance.sample(BROKERS, 2))
        await self._cluster.topics.add_partitions(
            await self._topic(), lambda current: {len(current.partitions): replicas}
        )

    async def _move(self) -> None:
        topic = await self._topic()
        wanted = TopicPartition(topic, self._chance.randint(0, 1))
        target = tuple(self._chance.sample(BROKERS, self._chance.randint(1, 3)))
        if self._chance.random() < 0.5:
            await self._cluster.admin.create(nodes.REASSIGN_PARTITIONS, nodes.encode_reassignment({wanted: target}))
        elif self._cluster.controller() is not None:
            cancel = self._chance.random() < 0.3
            await self._cluster.active().alter_partition_reassignments({wanted: None if cancel else target})

    async def _elect(self) -> None:
        if self._cluster.controller() is not None:
            kind = self._chance.choice((ElectionType.PREFERRED, ElectionType.UNCLEAN))
            await self._cluster.active().elect_leaders(None, kind)

    async def _shut_down(self) -> None:
        if self._cluster.controller() is not None and len(self._running()) > 1:
            each = self._chance.choice(self._running())
            await self._cluster.active().controlled_shutdown(each, -1)
            self._cluster.kill(each)
            await self._cluster.expire_dead()

    async def _depose(self) -> None:
        await self._cluster.admin.delete(nodes.CONTROLLER)

    def observe(self, path: str, data: bytes, created: int) -> None:
        """A state is written: no two leaders in one epoch of one life of a partition."""
        state = PartitionState.decode(data)
        key = (path, state.leader_epoch, str(created).encode())
        if state.leader >= 0:
            before = self.leaders.setdefault(key, state.leader)
            assert before == state.leader, f"{path}: {before} and {state.leader} lead in epoch {state.leader_epoch}"


@pytest.mark.parametrize("seed", range(20))
def test_random(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "system_under_test.controller")
    play(seed)
    failed = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert not failed


def play(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        chance = Random(seed)
        await cluster.start(*BROKERS)
        await cluster.elected()
        chaos = Chaos(cluster, chance)
        tree = cluster.simulation.zookeeper.tree
        transact = tree.transact

        def watched(changes: Any, session: int, now_ms: int) -> Any:
            done = transact(changes, session, now_ms)
            for each in changes:
                if each.path.endswith("/state") and each.path in tree.nodes:
                    node = tree.nodes[each.path]
                    chaos.observe(each.path, node.data, node.czxid)
            return done

        tree.transact = watched  # type: ignore[method-assign]
        for _ in range(STEPS):
            await chaos.step()
        await asyncio.sleep(2)
        cluster.cut.clear()
        await cluster.expire_dead()
        for each in BROKERS:
            if each not in cluster.running:
                await cluster.start(each)
        cluster.roles_changed()
        await cluster.settled()

    Cluster(seed).run(scenario, within_s=3000)
