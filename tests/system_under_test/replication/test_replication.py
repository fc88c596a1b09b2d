"""Leaders and followers on a simulated network: copying, committing, joining and leaving the ISR."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from system_under_test.failpoints import Action
from system_under_test.protocol.errors import ErrorCode
from system_under_test.simulation.world import Simulation, until
from system_under_test.storage.log import Log
from tests.system_under_test.replication.bench import KEY, Bench, values


def run(work: Coroutine[Any, Any, None], simulation: Simulation) -> None:
    with simulation:
        simulation.run(work, within_s=300)


def test_what_a_leader_takes_is_copied_committed_and_only_then_acknowledged() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        result = await bench.produce(1, b"a", b"b")
        assert (result.error, result.base_offset) == (ErrorCode.none, 0)
        for broker_id in (1, 2, 3):
            assert bench[broker_id].values() == [(0, b"a"), (0, b"b")]
        assert bench[1].log.high_watermark == 2
        await bench.until_equal()
        assert bench[2].log.high_watermark == 2

    run(main(), simulation := Simulation(1))


def test_acks_1_does_not_wait_and_its_record_is_invisible_until_committed() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        result = await bench.produce(1, b"a", acks=1)
        assert result.error is ErrorCode.none
        empty = await bench.fetch(1, 0)
        assert (empty.error, empty.records, empty.high_watermark) == (ErrorCode.none, b"", 0)
        # Between high watermark and end is empty, beyond the end is out of range.
        assert (await bench.fetch(1, 1)).error is ErrorCode.none
        assert (await bench.fetch(1, 2)).error is ErrorCode.offset_out_of_range
        waiting = asyncio.ensure_future(bench.fetch(1, 0, max_wait_s=60))
        await bench.until_isr(1, 3)
        answer = await waiting
        assert values(answer.records) == [b"a"]
        assert answer.high_watermark == 1

    run(main(), simulation := Simulation(2))


def test_an_isr_below_the_minimum_refuses_writes_and_commits_nothing() -> None:
    async def main() -> None:
        bench = Bench(simulation, topic_config={"min.insync.replicas": "2"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        open_write = asyncio.ensure_future(bench.produce(1, b"a", timeout_s=60))
        await until(lambda: bench[1].partition.leading().isr.isr == (1,), 10, "the leader knows that it is alone")
        refused = await bench.produce(1, b"b")
        assert refused.error is ErrorCode.not_enough_replicas
        # As in Kafka 3.9, nothing is committed below the minimum: the first write waits until it can be decided.
        assert bench[1].log.high_watermark == 0
        assert not open_write.done()
        simulation.heal("broker-1", "broker-2")
        assert (await open_write).error is ErrorCode.none
        assert bench[2].values() == [(0, b"a")]

    run(main(), simulation := Simulation(3))


def test_min_insync_replicas_is_never_larger_than_the_number_of_replicas() -> None:
    async def main() -> None:
        bench = Bench(simulation, brokers=1, topic_config={"min.insync.replicas": "3"})
        await bench.start()
        await bench.elect(1, (1,))
        assert (await bench.produce(1, b"a")).error is ErrorCode.none

    run(main(), simulation := Simulation(4))


def test_a_produce_that_cannot_be_replicated_times_out() -> None:
    async def main() -> None:
        bench = Bench(simulation, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        simulation.cut("broker-1", "broker-2")
        before = simulation.loop.time()
        result = await bench.produce(1, b"a", timeout_s=2)
        assert result.error is ErrorCode.request_timed_out
        assert simulation.loop.time() - before == pytest.approx(2)
        assert len(bench[1].replicas.produces) == 0

    run(main(), simulation := Simulation(5))


def test_a_follower_that_falls_behind_leaves_the_isr_and_joins_when_it_has_caught_up() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        simulation.cut("broker-1", "broker-3")
        write = asyncio.ensure_future(bench.produce(1, b"b", timeout_s=60))
        await bench.until_isr(1, 2)
        assert (await write).error is ErrorCode.none
        assert bench[3].values() == [(0, b"a")]
        simulation.heal("broker-1", "broker-3")
        await bench.until_isr(1, 2, 3, within_s=40)
        assert bench[3].values() == [(0, b"a"), (0, b"b")]
        tree = simulation.zookeeper.tree
        await until(
            lambda: any("isr_change_" in path for path in tree.nodes), 5, "the controller is told of changed ISRs"
        )

    run(main(), simulation := Simulation(6))


def test_a_follower_that_fetches_but_never_reaches_the_end_leaves_the_isr() -> None:
    """Lag is counted since a follower was caught up, not since it fetched."""

    async def main() -> None:
        bench = Bench(simulation, brokers=2)
        await bench.start()
        await bench.elect(1, (1, 2))
        await bench.until_equal()
        point = bench[2].failpoints.arm("follower.before_append", Action.DROP)
        write = asyncio.ensure_future(bench.produce(1, b"a", timeout_s=60))
        await bench.until_isr(1)
        assert (await write).error is ErrorCode.none
        assert bench[2].failpoints.armed()[0].hits > 5
        bench[2].failpoints.release(point)
        await bench.until_isr(1, 2)

    run(main(), simulation := Simulation(7))


def test_consumers_wait_for_min_bytes_or_for_their_time() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        many = asyncio.ensure_future(bench.fetch(1, 0, max_wait_s=60, min_bytes=300))
        few = asyncio.ensure_future(bench.fetch(1, 0, max_wait_s=60))
        idle = asyncio.ensure_future(bench.fetch(1, 0, max_wait_s=0.2))
        assert (await idle).records == b""
        await bench.produce(1, b"a" * 100)
        assert values((await few).records) == [b"a" * 100]
        assert not many.done()
        await bench.produce(1, b"b" * 100)
        assert values((await many).records) == [b"a" * 100, b"b" * 100]

    run(main(), simulation := Simulation(8))


def test_a_waiting_fetch_and_a_waiting_produce_learn_that_the_leader_has_gone() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.until_equal()
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        fetch = asyncio.ensure_future(bench.fetch(1, 0, max_wait_s=60))
        produce = asyncio.ensure_future(bench.produce(1, b"lost", timeout_s=60))
        await asyncio.sleep(0.1)
        await bench.elect(2, (2, 3))
        assert (await fetch).error is ErrorCode.not_leader_or_follower
        assert (await produce).error is ErrorCode.not_leader_or_follower
        simulation.heal("broker-1", "broker-2")
        assert (await bench.produce(2, b"kept")).error is ErrorCode.none
        await bench.until_isr(1, 2, 3, within_s=40)
        for each in (1, 2, 3):
            assert bench[each].values() == [(1, b"kept")]

    run(main(), simulation := Simulation(9))


def test_a_restarted_broker_takes_its_high_watermark_from_the_checkpoint() -> None:
    async def main() -> None:
        bench = Bench(simulation, settings={"replica.high.watermark.checkpoint.interval.ms": "100"})
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        await bench.until_equal()
        await asyncio.sleep(1)
        bench.kill(3)
        await bench.elect(1, (1, 2))
        await bench.produce(1, b"b")
        await bench.start(3)
        simulation.cut("broker-1", "broker-3")
        assert await bench.tell(3) is ErrorCode.none
        assert (bench[3].log.high_watermark, bench[3].log.end_offset) == (1, 1)
        simulation.heal("broker-1", "broker-3")
        await bench.until_isr(1, 2, 3, within_s=40)

    run(main(), simulation := Simulation(10))


def test_records_deleted_on_the_leader_go_from_all_replicas_before_the_answer() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        for value in (b"a", b"b", b"c"):
            await bench.produce(1, value)

        async def delete(offset: int) -> tuple[int, ErrorCode]:
            results = bench[1].replicas.delete_records([(KEY, offset)], 5.0)
            found = (results if isinstance(results, list) else await results)[0]
            return found.low_watermark, found.error

        assert await bench.on(1, delete(4)) == (-1, ErrorCode.offset_out_of_range)
        assert await bench.on(1, delete(2)) == (2, ErrorCode.none)
        assert [bench[each].log.start_offset for each in (1, 2, 3)] == [2, 2, 2]
        assert (await bench.fetch(1, 1)).error is ErrorCode.offset_out_of_range
        assert await bench.on(1, delete(-1)) == (3, ErrorCode.none)

    run(main(), simulation := Simulation(11))


def test_a_follower_behind_its_leaders_start_begins_anew_there() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        bench.kill(3)
        await bench.elect(1, (1, 2))
        for value in (b"b", b"c"):
            await bench.produce(1, value)
        bench.metadata.alive.discard(3)

        async def delete() -> None:
            results = bench[1].replicas.delete_records([(KEY, 2)], 5.0)
            found = (results if isinstance(results, list) else await results)[0]
            assert found.low_watermark == 2

        await bench.on(1, delete())
        bench.metadata.alive.add(3)
        await bench.start(3)
        await bench.tell(3)
        await bench.until_isr(1, 2, 3, within_s=40)
        assert (bench[3].log.start_offset, bench[3].values()) == (2, [(1, b"c")])

    run(main(), simulation := Simulation(12))


def test_a_duplicate_is_acknowledged_when_its_original_is_committed() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        assert (await bench.produce(1, b"a", producer_id=9, sequence=0)).base_offset == 0
        simulation.cut("broker-1", "broker-2")
        first = await bench.produce(1, b"b", producer_id=9, sequence=1, timeout_s=0.3)
        again = await bench.produce(1, b"b", producer_id=9, sequence=1, timeout_s=0.3)
        assert (first.error, again.error) == (ErrorCode.request_timed_out,) * 2
        assert bench[1].log.end_offset == 2
        waiting = asyncio.ensure_future(bench.produce(1, b"b", producer_id=9, sequence=1))
        gap = await bench.produce(1, b"d", producer_id=9, sequence=3)
        assert gap.error is ErrorCode.out_of_order_sequence_number
        await asyncio.sleep(0.2)
        assert not waiting.done()
        simulation.heal("broker-1", "broker-2")
        result = await waiting
        assert (result.error, result.base_offset, bench[1].log.end_offset) == (ErrorCode.none, 1, 2)

    run(main(), simulation := Simulation(1))


def test_a_new_leader_knows_what_producers_sent_to_the_old_one() -> None:
    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        for sequence in range(3):
            await bench.produce(1, b"%d" % sequence, producer_id=9, sequence=sequence)
        await bench.elect(2, (1, 2, 3))
        again = [await bench.produce(2, b"%d" % each, producer_id=9, sequence=each) for each in range(3)]
        assert [(each.error, each.base_offset) for each in again] == [(ErrorCode.none, each) for each in range(3)]
        gap = await bench.produce(2, b"4", producer_id=9, sequence=4)
        assert gap.error is ErrorCode.out_of_order_sequence_number
        assert (await bench.produce(2, b"3", producer_id=9, sequence=3)).base_offset == 3

    run(main(), simulation := Simulation(2))


@pytest.mark.parametrize("failing", ["truncate_to", "truncate_fully_and_start_at", "increment_start_offset"])
def test_a_disk_that_fails_once_does_not_end_replication(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncating, starting anew and moving the log's start write, too: the fetcher must outlive an error there."""

    async def main() -> None:
        bench = Bench(simulation)
        await bench.start()
        await bench.elect(1, (1, 2, 3))
        await bench.produce(1, b"a")
        simulation.cut("broker-1", "broker-3")
        await bench.elect(3, (3,), tell=(3,))
        await bench.produce(3, b"lost", acks=1)
        await bench.elect(1, (1, 2), tell=(1, 2))
        for value in (b"b", b"c"):
            await bench.produce(1, value)
        failures = fail_once(monkeypatch, bench[3].log, failing)

        async def delete() -> None:
            bench.metadata.alive.discard(3)
            bench[1].replicas.delete_records([(KEY, 1 if failing == "increment_start_offset" else 3)], 5.0)
            bench.metadata.alive.add(3)

        if failing != "truncate_to":
            await bench.on(1, delete())
        simulation.heal("broker-1", "broker-3")
        await bench.tell(3)
        await bench.until_isr(1, 2, 3, within_s=40)
        assert failures == [failing]
        await bench.produce(1, b"d")
        await bench.until_equal()

    def fail_once(monkeypatch: pytest.MonkeyPatch, log: Log, name: str) -> list[str]:
        failures: list[str] = []
        real = getattr(Log, name)

        def once(self: Log, *arguments: int) -> None:
            if self is log and not failures:
                failures.append(name)
                raise OSError(5, "input/output error")
            real(self, *arguments)

        monkeypatch.setattr(Log, name, once)
        return failures

    run(main(), simulation := Simulation(21))
