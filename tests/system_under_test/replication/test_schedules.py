"""The schedules behind the known bugs of this kind of broker, each on the correct broker, and with its switch where
there is one: the switch must break what the correct broker keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from system_under_test.bugs import NONE, Bug
from system_under_test.failpoints import Action
from system_under_test.protocol.errors import ErrorCode
from system_under_test.simulation.world import Simulation, until
from tests.system_under_test.replication.bench import Bench, values


def run(work: Coroutine[Any, Any, None], simulation: Simulation) -> None:
    with simulation:
        simulation.run(work, within_s=300)


@pytest.mark.parametrize("has_bug", [False, True])
def test_kip_101_a_new_follower_keeps_what_it_has_not_learned_to_be_committed(has_bug: bool) -> None:
    """F1 has m2 but not its high watermark. F2 leads, F1 follows, and before F1 has fetched F2 dies: F1 leads."""

    async def main() -> None:
        bugs = frozenset({Bug.TRUNCATE_TO_HIGH_WATERMARK}) if has_bug else NONE
        bench = Bench(simulation, bugs=bugs, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(3, (1, 2, 3))
        await bench.produce(3, b"m1")
        await bench.until_equal()
        point = bench[2].failpoints.arm("follower.fetch", Action.HOLD)
        write = asyncio.ensure_future(bench.produce(3, b"m2", timeout_s=60))
        # Broker 2 has a fetch under way that brings m2, and the next one, which would acknowledge it, is held.
        await until(lambda: bench[2].log.end_offset == 2, 5, "broker 2 has m2")
        bench[2].failpoints.release(point)
        point = bench[2].failpoints.arm("follower.fetch", Action.HOLD)
        assert (await write).error is ErrorCode.none
        await until(lambda: bench[2].failpoints.armed()[0].hits > 0, 5, "broker 2 is held")
        # Its answer to the acknowledging fetch may already have told it the high watermark; that is the race.
        bench[2].log.high_watermark = 1
        await bench.elect(1)
        bench.kill(1)
        await bench.elect(2, (2, 3))
        bench[2].failpoints.release(point)
        kept = [value for _, value in bench[2].values()]
        assert kept == ([b"m1"] if has_bug else [b"m1", b"m2"])
        assert (await bench.produce(2, b"m3")).base_offset == (1 if has_bug else 2)

    run(main(), simulation := Simulation(1))


@pytest.mark.parametrize("has_bug", [False, True])
def test_kip_279_logs_part_ways_by_fast_changes_of_leaders_and_come_together(has_bug: bool) -> None:
    """A writes alone, B writes alone at the same offsets, A leads again before it has heard of B."""

    async def main() -> None:
        bugs = frozenset({Bug.EPOCH_END_OF_NEXT_LARGER}) if has_bug else NONE
        bench = Bench(simulation, brokers=2, bugs=bugs, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2))
        await bench.produce(1, b"common")
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        for value in (b"a1", b"a2"):
            await bench.produce(1, value, acks=1)
        await bench.elect(2, (2, 1), tell=(2,))
        for value in (b"b1", b"b2"):
            await bench.produce(2, value, acks=1)
        await bench.elect(1, (1, 2))
        await bench.produce(1, b"a3", acks=1)
        simulation.heal("broker-1", "broker-2")
        await bench.until_equal(within_s=60)
        a = [(0, b"common"), (0, b"a1"), (0, b"a2"), (2, b"a3")]
        assert bench[1].values() == a
        assert bench[2].values() == ([a[0], (1, b"b1"), (1, b"b2"), a[3]] if has_bug else a)

    run(main(), simulation := Simulation(2))


def test_divergence_over_several_epochs_is_unwound_one_by_one() -> None:
    async def main() -> None:
        bench = Bench(simulation, brokers=2, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2))
        await bench.produce(1, b"common")
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        for turn in range(4):
            await bench.elect(1, (1, 2), tell=(1,))
            await bench.produce(1, b"a%d" % turn, acks=1)
            await bench.elect(2, (1, 2), tell=(2,))
            await bench.produce(2, b"b%d" % turn, acks=1)
        await bench.elect(2, (2, 1))
        simulation.heal("broker-1", "broker-2")
        await bench.until_equal(within_s=60)
        assert bench[1].values() == bench[2].values()
        assert [value for _, value in bench[2].values()] == [b"common", b"b0", b"b1", b"b2", b"b3"]

    run(main(), simulation := Simulation(3))


def test_a_leader_epoch_without_a_record_leaves_no_trace_in_a_follower() -> None:
    """Its entry in the epoch cache starts at the log's end; it must not make the follower diverge for ever."""

    async def main() -> None:
        bench = Bench(simulation, brokers=2, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2))
        await bench.produce(1, b"a")
        await bench.until_equal()
        await bench.elect(2, (1, 2), tell=(2,))
        await bench.elect(1, (1, 2))
        assert (await bench.produce(1, b"b")).error is ErrorCode.none
        assert bench[1].values() == bench[2].values() == [(0, b"a"), (2, b"b")]

    run(main(), simulation := Simulation(4))


@pytest.mark.parametrize("has_bug", [False, True])
def test_acknowledged_means_replicated(has_bug: bool) -> None:
    async def main() -> None:
        bugs = frozenset({Bug.ACK_ON_APPEND}) if has_bug else NONE
        bench = Bench(simulation, bugs=bugs)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        result = await bench.produce(1, b"a", timeout_s=1)
        assert result.error is (ErrorCode.none if has_bug else ErrorCode.request_timed_out)

    run(main(), simulation := Simulation(5))


@pytest.mark.parametrize("has_bug", [False, True])
def test_consumers_do_not_see_what_may_still_vanish(has_bug: bool) -> None:
    async def main() -> None:
        bugs = frozenset({Bug.SERVE_BEYOND_HIGH_WATERMARK}) if has_bug else NONE
        bench = Bench(simulation, bugs=bugs, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        await bench.produce(1, b"a", acks=1)
        assert values((await bench.fetch(1, 0)).records) == ([b"a"] if has_bug else [])

    run(main(), simulation := Simulation(6))


def test_a_pending_larger_isr_holds_the_high_watermark_back() -> None:
    """isr-counted-too-late: ZooKeeper has {1, 2}, leader 1 does not know it yet and must not commit without 2."""

    async def main() -> None:
        bench = Bench(simulation, brokers=2)
        await bench.start()
        await bench.elect(1, (1,))
        await bench.produce(1, b"a")
        point = bench[1].failpoints.arm("isr.change.written", Action.HOLD)
        await bench.until_isr(1, 2)
        await until(lambda: bench[1].failpoints.armed()[0].hits > 0, 5, "the answer is held")
        assert bench[1].partition.leading().isr.isr == (1,)
        assert bench[1].partition.leading().isr.maximal == (1, 2)
        simulation.cut("broker-1", "broker-2")
        # Long after the lag time: whether broker 2 keeps up is no matter, it can be elected.
        result = await bench.produce(1, b"b", timeout_s=20)
        assert result.error is ErrorCode.request_timed_out
        assert bench[1].log.high_watermark == 1
        bench[1].failpoints.release(point)
        await bench.until_isr(1)

    run(main(), simulation := Simulation(7))


def test_an_isr_change_without_an_answer_is_settled_by_writing_again() -> None:
    async def main() -> None:
        bench = Bench(simulation, brokers=2)
        await bench.start()
        await bench.elect(1, (1, 2))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        point = bench[1].failpoints.arm("isr.change.sent", Action.HOLD)
        await until(lambda: bench[1].failpoints.armed()[0].hits > 0, 10, "the ISR is about to shrink")
        simulation.cut("broker-1", "zookeeper")
        bench[1].failpoints.release(point)
        await asyncio.sleep(2)
        isr = bench[1].partition.leading().isr
        assert (isr.isr, isr.proposed) == ((1, 2), (1,))
        simulation.heal("broker-1", "zookeeper")
        await bench.until_isr(1)
        await until(lambda: bench[1].partition.leading().isr.isr == (1,), 5, "the leader knows")
        assert bench[1].partition.leading().isr.version == bench.state()[1]

    run(main(), simulation := Simulation(8))


def test_a_zombie_cannot_change_the_isr_and_commits_nothing() -> None:
    """isr-change-without-version: another leader is elected, and the old one has not heard of it."""

    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        await bench.elect(2, (2, 3), tell=(2, 3))
        write = asyncio.ensure_future(bench.produce(1, b"zombie", timeout_s=30))
        assert (await bench.produce(2, b"real")).error is ErrorCode.none
        assert (await write).error is ErrorCode.request_timed_out
        assert bench.isr() == (2, 3)
        assert bench[1].log.high_watermark == 0
        simulation.heal("broker-1", "broker-2")
        simulation.heal("broker-1", "broker-3")
        assert await bench.tell(1) is ErrorCode.none
        await bench.until_isr(1, 2, 3, within_s=60)
        assert bench[1].values() == [(1, b"real")]

    run(main(), simulation := Simulation(9))


def test_a_followers_fetch_of_another_epoch_does_not_count() -> None:
    """fetch-without-epoch."""

    async def main() -> None:
        bench = Bench(simulation, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.elect(1, (1, 2, 3), tell=(1,))
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        await bench.produce(1, b"a", acks=1)
        old = await bench.fetch(1, 1, replica_id=2, current_leader_epoch=0)
        future = await bench.fetch(1, 1, replica_id=2, current_leader_epoch=2)
        without = await bench.fetch(1, 1, replica_id=2)
        stranger = await bench.fetch(1, 1, replica_id=9, current_leader_epoch=1)
        assert old.error is without.error is ErrorCode.fenced_leader_epoch
        assert future.error is stranger.error is ErrorCode.unknown_leader_epoch
        assert bench[1].partition.leading().remotes[2].log_end_offset == -1
        good = await bench.fetch(1, 1, replica_id=2, current_leader_epoch=1, last_fetched_epoch=1, broker_epoch=9)
        assert good.error is ErrorCode.none
        assert bench[1].partition.leading().remotes[2].log_end_offset == 1
        # An earlier incarnation of the same broker (KIP-903).
        earlier = await bench.fetch(1, 1, replica_id=2, current_leader_epoch=1, broker_epoch=8)
        assert earlier.error is ErrorCode.not_leader_or_follower

    run(main(), simulation := Simulation(10))


def test_a_follower_below_the_start_of_the_leaders_epoch_may_not_join() -> None:
    """rejoin-below-epoch-start: the new leader's high watermark lags behind what its predecessor committed."""

    async def main() -> None:
        bench = Bench(simulation, brokers=3, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2))
        simulation.cut("broker-1", "broker-3")
        for value in (b"a", b"b"):
            await bench.produce(1, value)
        bench.kill(1)
        bench[2].log.high_watermark = 0
        point = bench[3].failpoints.arm("follower.before_append", Action.DROP)
        await bench.elect(2, (1, 2))
        await until(lambda: bench[3].failpoints.armed()[0].hits > 0, 5, "broker 3 has fetched")
        leadership = bench[2].partition.leading()
        assert (bench[2].log.high_watermark, leadership.epoch_start_offset) == (0, 2)
        assert leadership.remotes[3].log_end_offset == 0
        assert leadership.isr.maximal == (1, 2)
        bench[3].failpoints.release(point)
        await bench.until_isr(1, 2, 3)

    run(main(), simulation := Simulation(11))


def test_a_replica_that_was_removed_and_added_again_starts_unknown() -> None:
    """stale-follower-state."""

    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        bench.replicas = (1, 2)
        await bench.elect(1, (1, 2), tell=(1, 2))
        assert 3 not in bench[1].partition.leading().remotes
        assert await bench.stop_replica(3, bench.epoch, delete=True) is ErrorCode.none
        assert bench[3].logs.get(bench[1].log.topic_partition) is None
        bench.replicas = (1, 2, 3)
        await bench.elect(1, (1, 2), tell=(1, 2))
        assert bench[1].partition.leading().remotes[3].log_end_offset == -1
        await bench.tell(3)
        await bench.until_isr(1, 2, 3)
        assert bench[3].values() == [(0, b"a")]

    run(main(), simulation := Simulation(12))


def test_an_empty_broker_does_not_join_on_its_predecessors_merits() -> None:
    """empty-broker-same-id: the predecessor has caught up, and its successor is registered when the ISR is written."""

    async def main() -> None:
        bench = Bench(simulation, brokers=2)
        await bench.start()
        await bench.elect(1, (1,))
        await bench.produce(1, b"a")
        point = bench[1].failpoints.arm("isr.change.sent", Action.HOLD)
        await until(lambda: bench[1].failpoints.armed()[0].hits > 0, 5, "broker 2 is about to join")
        bench.kill(2)
        await bench.start(2, empty=True)
        bench[1].failpoints.release(point)
        await until(lambda: not bench[1].partition.leading().isr.is_pending, 5, "the change is settled")
        assert bench.isr() == (1,)
        await bench.tell(2)
        await bench.until_isr(1, 2)
        assert bench[2].values() == [(0, b"a")]

    run(main(), simulation := Simulation(13))


def test_an_answer_of_an_earlier_epoch_is_not_appended() -> None:
    async def main() -> None:
        bench = Bench(simulation, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        point = bench[2].failpoints.arm("follower.before_append", Action.HOLD)
        await bench.produce(1, b"old", acks=1)
        await until(lambda: bench[2].failpoints.armed()[0].hits > 0, 5, "broker 2 has the record in hand")
        await bench.elect(3, (2, 3), tell=(2, 3))
        bench[2].failpoints.release(point)
        await asyncio.sleep(0.5)
        assert (1, b"old") not in bench[2].values()
        assert (await bench.produce(3, b"new")).error is ErrorCode.none
        assert bench[2].values() == bench[3].values()

    run(main(), simulation := Simulation(14))
