"""LeaderAndIsr and StopReplica: who is obeyed."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine
from typing import Any

import pytest

from system_under_test.bugs import NONE, Bug
from system_under_test.protocol.errors import ErrorCode
from system_under_test.simulation.world import Simulation
from tests.system_under_test.replication.bench import KEY, Bench


def run(work: Coroutine[Any, Any, None], simulation: Simulation) -> None:
    with simulation:
        simulation.run(work, within_s=300)


@pytest.mark.parametrize("has_bug", [False, True])
def test_a_deposed_controller_is_refused(has_bug: bool) -> None:
    async def main() -> None:
        bench = Bench(simulation, bugs=frozenset({Bug.STALE_CONTROLLER_OBEYED}) if has_bug else NONE)
        await bench.start()
        bench.controller_epoch = 5
        await bench.elect(1, (1, 2, 3))
        answer = await bench.tell(1, controller_epoch=4, leader=2, leader_epoch=7)
        assert answer is (ErrorCode.none if has_bug else ErrorCode.stale_controller_epoch)
        assert bench[1].partition.is_leader is not has_bug
        if not has_bug:
            assert await bench.stop_replica(1, -2, delete=True, controller_epoch=4) is ErrorCode.stale_controller_epoch
            assert KEY in bench[1].replicas.partitions

    run(main(), simulation := Simulation(1))


def test_a_request_for_an_earlier_registration_is_refused() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        earlier = bench[1].context.broker_epoch - 1
        assert await bench.tell(1, broker_epoch=earlier, leader_epoch=9) is ErrorCode.stale_broker_epoch
        answer = await bench.stop_replica(1, 9, delete=True, broker_epoch=earlier)
        assert answer is ErrorCode.stale_broker_epoch
        assert bench[1].partition.leader_epoch == 0

    run(main(), simulation := Simulation(2))


def test_partitions_are_fenced_by_leader_epoch_and_topic_id() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.elect(1, (1, 2, 3))
        leadership = bench[1].partition.leadership
        assert await bench.tell(1) is ErrorCode.stale_controller_epoch
        assert await bench.tell(1, leader_epoch=0) is ErrorCode.stale_controller_epoch
        assert await bench.tell(1, leader_epoch=9, topic_id=uuid.UUID(int=8)) is ErrorCode.inconsistent_topic_id
        assert await bench.tell(1, leader_epoch=9, replicas=(2, 3)) is ErrorCode.unknown_topic_or_partition
        assert bench[1].partition.leadership is leadership
        assert await bench.stop_replica(1, 0, delete=True) is ErrorCode.fenced_leader_epoch
        assert await bench.stop_replica(1, -2, delete=True) is ErrorCode.none
        assert KEY not in bench[1].replicas.partitions
        assert bench[1].logs.get(KEY) is None
        # Not there any more, which is what is asked for.
        assert await bench.stop_replica(1, -2, delete=True) is ErrorCode.none
        assert (await bench.fetch(1, 0)).error is ErrorCode.not_leader_or_follower

    run(main(), simulation := Simulation(3))


def test_a_stopped_follower_does_not_fetch_and_keeps_its_log() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        assert await bench.stop_replica(3, 0, delete=False) is ErrorCode.none
        await bench.elect(1, (1, 2), tell=(1, 2))
        await bench.produce(1, b"b")
        assert bench[3].values() == [(0, b"a")]
        assert bench[3].replicas.fetchers.leader_of(KEY) is None

    run(main(), simulation := Simulation(4))


def test_without_a_leader_nobody_is_followed() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.elect(-1, (1,))
        assert bench[2].replicas.fetchers.leader_of(KEY) is None
        assert (await bench.produce(1, b"a")).error is ErrorCode.not_leader_or_follower
        await bench.elect(2, (2, 3))
        assert (await bench.produce(2, b"a")).error is ErrorCode.none

    run(main(), simulation := Simulation(5))
