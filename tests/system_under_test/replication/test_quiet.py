"""Fetches of one session, again and again: what an idle partition was answered is answered again, as long as it is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from system_under_test.protocol.batch import encode
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import PartitionData
from system_under_test.replication.fetching import NO_TOPIC_ID, FetchParams, FetchPartition
from system_under_test.replication.isr import RemoteReplica
from system_under_test.simulation.world import Simulation
from tests.system_under_test.replication.bench import KEY, Bench, values

FOLLOWER = FetchParams(2, 9, 0.0, 1, 1 << 20, False)
CONSUMER = FetchParams(-1, -1, 0.0, 1, 1 << 20, False)

Fetch = Callable[..., Awaitable[PartitionData]]


def alone(main: Callable[[Bench, Fetch], Coroutine[Any, Any, None]], seed: int) -> None:
    """Broker 1 leads three in-sync replicas that it cannot reach: who fetches is the test."""
    simulation = Simulation(seed)

    async def run() -> None:
        bench = Bench(simulation, settings={"replica.lag.time.max.ms": "60000"})
        await bench.start()
        simulation.cut("broker-1", "broker-2")
        simulation.cut("broker-1", "broker-3")
        await bench.elect(1, (1, 2, 3), tell=(1,))

        async def fetch(asked: FetchPartition, params: FetchParams = FOLLOWER) -> PartitionData:
            async def ask() -> PartitionData:
                answers = bench[1].replicas.fetch_messages(params, [asked])
                assert isinstance(answers, list)
                return answers[0]

            return await bench.on(1, ask())

        await main(bench, fetch)

    with simulation:
        simulation.run(run(), within_s=300)


def at(offset: int, current_leader_epoch: int = 0) -> FetchPartition:
    return FetchPartition(KEY, NO_TOPIC_ID, offset, 1 << 20, current_leader_epoch, -1, 0)


def remote(bench: Bench, broker_id: int = 2) -> RemoteReplica:
    return bench[1].partition.leading().remotes[broker_id]


def test_an_idle_fetch_gets_the_same_answer_and_still_counts() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        asked = at(0)
        first = await fetch(asked)
        before = remote(bench).last_fetch_time
        await asyncio.sleep(1)
        assert await fetch(asked) is first
        assert remote(bench).last_caught_up_time == remote(bench).last_fetch_time > before

    alone(main, 1)


def test_what_is_appended_is_read() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        asked = at(0)
        await fetch(asked)
        await fetch(asked)
        await bench.produce(1, b"a", acks=1)
        assert values((await fetch(asked)).records) == [b"a"]

    alone(main, 2)


def test_a_high_watermark_that_moved_is_told_to_followers_and_lets_consumers_read() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        waiting = at(0, -1)
        await bench.produce(1, b"a", acks=1)
        assert (await fetch(waiting, CONSUMER)).records == b""
        mine, other = at(1), at(1)
        assert (await fetch(mine)).high_watermark == 0
        assert (await fetch(mine)).high_watermark == 0
        await fetch(other, FOLLOWER._replace(replica_id=3))
        assert (await fetch(mine)).high_watermark == 1
        assert values((await fetch(waiting, CONSUMER)).records) == [b"a"]

    alone(main, 3)


def test_another_leader_epoch_fences_an_idle_fetch() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        asked = at(0)
        await fetch(asked)
        await bench.elect(1, (1, 2, 3), tell=(1,))
        assert (await fetch(asked)).error is ErrorCode.fenced_leader_epoch
        assert remote(bench).log_end_offset == -1

    alone(main, 4)


def test_who_asks_is_looked_at_each_time() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        asked = at(0)
        await fetch(asked)
        # An earlier incarnation of the same broker (KIP-903), then a broker that is no replica.
        earlier = await fetch(asked, FOLLOWER._replace(broker_epoch=8))
        assert earlier.error is ErrorCode.not_leader_or_follower
        stranger = await fetch(asked, FOLLOWER._replace(replica_id=9))
        assert stranger.error is ErrorCode.unknown_leader_epoch
        await fetch(asked, FOLLOWER._replace(replica_id=3))
        assert remote(bench, 3).log_end_offset == 0

    alone(main, 5)


def test_a_deleted_replica_is_gone() -> None:
    async def main(bench: Bench, fetch: Fetch) -> None:
        asked = at(0)
        await fetch(asked)
        assert await bench.stop_replica(1, -2, delete=True) is ErrorCode.none
        assert (await fetch(asked)).error is ErrorCode.not_leader_or_follower

    alone(main, 6)


def test_a_follower_outside_of_the_isr_that_only_fetches_again_may_still_join() -> None:
    """It became eligible after its last fetch."""

    async def main(bench: Bench, fetch: Fetch) -> None:
        await bench.elect(1, (1, 3), tell=(1,))
        bench.metadata.alive.remove(2)
        asked = at(0, 1)
        await fetch(asked)
        assert bench[1].partition.leading().isr.isr == (1, 3)
        bench.metadata.alive.add(2)
        await fetch(asked)
        assert bench[1].partition.leading().isr.proposed == (1, 3, 2)

    alone(main, 7)


def test_an_awaited_answer_is_made_in_the_step_that_completes_it_and_not_for_who_has_gone() -> None:
    async def main(bench: Bench, _: Fetch) -> None:
        made: list[str] = []

        def then(name: str) -> Callable[[Any], str]:
            def make(_: Any) -> str:
                made.append(name)
                return name

            return make

        async def steps() -> None:
            replicas = bench[1].replicas
            batch = encode([(None, b"a")], timestamp_ms=1)
            write = replicas.append_records([(KEY, batch)], -1, 60, then("write"))
            waiting = FOLLOWER._replace(max_wait_s=60)
            gone, stays = (replicas.fetch_messages(waiting, [at(1)], then(each)) for each in ("gone", "stays"))
            assert isinstance(write, asyncio.Future)
            assert isinstance(gone, asyncio.Future)
            assert isinstance(stays, asyncio.Future)
            gone.cancel()
            replicas.append_records([(KEY, batch)], 1, 60)
            assert made == ["stays"]
            replicas.fetch_messages(FOLLOWER._replace(replica_id=3), [at(1)])
            assert made == ["stays", "write"]
            assert (stays.result(), write.result()) == ("stays", "write")

        await bench.on(1, steps())

    alone(main, 8)
