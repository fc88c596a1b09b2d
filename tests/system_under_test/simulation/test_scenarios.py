"""The schedules by which Kafka once lost or mixed up records, played by hand: with the bug they do, without they don't."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from system_under_test.bugs import Bug
from system_under_test.simulation.client import SimpleClient
from system_under_test.simulation.cluster import SETTINGS, SimulatedCluster, Topic
from system_under_test.simulation.invariants import Judge, Violation
from system_under_test.simulation.world import Simulation, until
from system_under_test.types import TopicPartition
from system_under_test.world import Create
from system_under_test.zookeeper.nodes import (
    PREFERRED_REPLICA_ELECTION,
    encode_partition_list,
)

T0 = TopicPartition("t", 0)

Scenario = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """Four brokers; the fourth has no replica and starts first, so it is the controller."""

    def __init__(self, simulation: Simulation, replicas: tuple[int, ...], leader: int, bugs: frozenset[Bug]) -> None:
        self.simulation = simulation
        settings: Mapping[str, str] = {**SETTINGS, "min.insync.replicas": "1"}
        topics = (Topic("t", (replicas,)),)
        self.cluster = SimulatedCluster(simulation, 4, topics, settings=settings, bugs=bugs)
        self.judge = Judge(self.cluster, 1)
        simulation.loop.on_moment = self.judge.look
        self.client: SimpleClient = self.cluster.client("client")
        self._first_leader = leader

    async def start(self) -> None:
        self.cluster.start(4)
        await until(lambda: self.cluster.controller() == 4, 10, "the fourth broker is the controller")
        # Alone it leads, whoever is preferred; the others join its ISR.
        self.cluster.start(self._first_leader)
        await until(lambda: self.cluster.state(T0) is not None, 10, "the partition has a leader")
        for broker_id in self.cluster.ids:
            if not self.cluster.is_running(broker_id):
                self.cluster.start(broker_id)
        await until(lambda: self.cluster.is_whole(T0), 20, "the partition is whole")
        assert self.leader() == self._first_leader
        await until(lambda: _told(self, self._first_leader), 5, "every broker knows the leader")
        await self.client.refresh()

    def ends(self, broker_id: int) -> int:
        replica = self.cluster.replica(broker_id, T0)
        return -1 if replica is None else replica.log.end_offset

    def leader(self) -> int:
        state = self.cluster.state(T0)
        assert state is not None
        return state.leader

    async def produce(self, *values: bytes, acks: int = -1) -> None:
        for value in values:
            offset = await self.client.produce(T0, [value], acks=acks)
            if acks == -1:
                self.judge.acknowledged(T0, offset, [value])

    def elect_preferred(self) -> None:
        self.simulation.zookeeper.administer([Create(PREFERRED_REPLICA_ELECTION, encode_partition_list([T0]))])

    async def leads(self, broker_id: int, within_s: float = 10.0) -> None:
        def knows() -> bool:
            replica = self.cluster.replica(broker_id, T0)
            return self.leader() == broker_id and replica is not None and replica.is_leader

        await until(knows, within_s, f"broker {broker_id} leads", every_s=0.001)


def _play(scenario: Scenario, replicas: tuple[int, ...], leader: int, bugs: frozenset[Bug]) -> None:
    with Simulation(seed=1) as simulation:
        stage = Stage(simulation, replicas, leader, bugs)

        async def main() -> None:
            await stage.start()
            await scenario(stage)

        simulation.run(main())
        simulation.loop.on_moment = None


async def _kip_101(stage: Stage) -> None:
    """The new leader dies before a follower, which has cut its log back, could fetch again what it cut.

    Brokers 1, 2, 3 are replicas; 3 leads, 1 is preferred. 2 has the second record and does not know yet that it is
    committed: it would hear of that with the answer to a fetch that is still waiting.
    """
    await stage.produce(b"m1")
    await until(lambda: _high_watermark(stage, 2) == 1, 5, "broker 2 knows that m1 is committed")
    await stage.produce(b"m2")
    assert (stage.ends(2), _high_watermark(stage, 2)) == (2, 1)
    stage.simulation.cut("broker-1", "broker-2")
    stage.elect_preferred()
    await stage.leads(1)
    await until(lambda: _follows(stage, 2, 1), 5, "broker 2 follows broker 1", every_s=0.001)
    stage.cluster.host(1).kill()
    await stage.leads(2)


async def _kip_279(stage: Stage) -> None:
    """Leaders change from 1 to 2 and back, faster than the ISR, and both append what the other does not get.

    2 then has an epoch that 1 never had. Where 1 answers with the start of its next larger epoch, 2 keeps records of
    its own epoch below that, which differ from 1's.
    """
    await stage.produce(b"m1")
    stage.simulation.cut("broker-1", "broker-2")
    await stage.produce(b"a2", b"a3", acks=1)
    stage.elect_preferred()
    await stage.leads(2)
    await stage.client.refresh()
    await until(lambda: _told(stage, 2), 5, "the client is sent to broker 2")
    await stage.client.refresh()
    await stage.produce(b"b2", b"b3", b"b4", acks=1)
    stage.cluster.host(2).kill()
    await stage.leads(1)
    await until(lambda: _told(stage, 1), 5, "the client is sent to broker 1")
    await stage.client.refresh()
    await stage.produce(b"c4", b"c5")
    stage.simulation.heal("broker-1", "broker-2")
    stage.cluster.start(2)
    await until(lambda: stage.cluster.is_whole(T0), 20, "broker 2 is in the ISR again")
    await stage.produce(b"c6")
    await until(lambda: stage.judge.lagging() == [], 5, "broker 2 has everything")
    stage.judge.check_replicas()


def _high_watermark(stage: Stage, broker_id: int) -> int:
    replica = stage.cluster.replica(broker_id, T0)
    assert replica is not None
    return replica.log.high_watermark


def _follows(stage: Stage, broker_id: int, leader: int) -> bool:
    replica = stage.cluster.replica(broker_id, T0)
    return replica is not None and replica.leader_id == leader


def _told(stage: Stage, leader: int) -> bool:
    """Every running broker's metadata names this leader."""
    infos = [stage.cluster.brokers[each].told(T0) for each in stage.cluster.running()]
    return all(info is not None and info.leader == leader for info in infos)


_SCENARIOS: list[tuple[Scenario, tuple[int, ...], int, Bug, str]] = [
    (_kip_101, (1, 2, 3), 3, Bug.TRUNCATE_TO_HIGH_WATERMARK, "committed-is-kept"),
    (_kip_279, (2, 1), 1, Bug.EPOCH_END_OF_NEXT_LARGER, "logs-equal-below-watermark"),
]


@pytest.mark.parametrize(("scenario", "replicas", "leader", "bug", "invariant"), _SCENARIOS)
def test_with_the_bug_it_happens(
    scenario: Scenario, replicas: tuple[int, ...], leader: int, bug: Bug, invariant: str
) -> None:
    with pytest.raises(Violation) as found:
        _play(scenario, replicas, leader, frozenset({bug}))
    assert found.value.invariant == invariant


@pytest.mark.parametrize(("scenario", "replicas", "leader", "bug", "invariant"), _SCENARIOS)
def test_without_it_does_not(
    scenario: Scenario, replicas: tuple[int, ...], leader: int, bug: Bug, invariant: str
) -> None:
    del bug, invariant
    _play(scenario, replicas, leader, frozenset())


async def _nothing(stage: Stage) -> None:
    await stage.produce(b"a")
    await asyncio.sleep(1)


def test_a_cluster_at_peace() -> None:
    _play(_nothing, (1, 2, 3), 3, frozenset())
