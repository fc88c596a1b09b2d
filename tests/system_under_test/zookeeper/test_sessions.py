"""Sessions that renew themselves, and how a broker registers, on the simulated ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from system_under_test.simulation.world import SimulatedWorld, Simulation, until
from system_under_test.world import Coordination, NoNode, SessionExpired, SessionState
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import BrokerRegistration, Listener
from system_under_test.zookeeper.registration import (
    BrokerIdTaken,
    cluster_id,
    generate_broker_id,
    make_persistent_paths,
    register,
)
from system_under_test.zookeeper.session import Retrying, Sessions

TIMEOUT_MS = 6000


def play(scenario: Callable[[Simulation], Coroutine[Any, Any, None]]) -> None:
    with Simulation(3) as simulation:
        simulation.run(scenario(simulation), 300)
        assert not simulation.loop.failures, simulation.loop.failures


async def _client(world: SimulatedWorld) -> Retrying:
    client = Retrying(await world.coordination(TIMEOUT_MS))
    await make_persistent_paths(client)
    return client


def _registration(port: int = 9092) -> BrokerRegistration:
    return BrokerRegistration(4, (Listener("PLAINTEXT", "host", port),), 0)


def test_an_operation_waits_for_zookeeper() -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _client(simulation.host("a").boot())
        simulation.zookeeper.stop()
        reading = asyncio.ensure_future(client.children(nodes.BROKER_IDS))
        await asyncio.sleep(2)
        assert not reading.done()
        simulation.zookeeper.start()
        assert await reading == []

    play(scenario)


def test_an_operation_of_an_expired_session_ends() -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _client(simulation.host("a").boot())
        simulation.zookeeper.stop()
        reading = asyncio.ensure_future(client.children(nodes.BROKER_IDS))
        await asyncio.sleep(0.5)
        simulation.zookeeper.expire(client.session_id)
        simulation.zookeeper.start()
        with pytest.raises(SessionExpired):
            await reading

    play(scenario)


def test_a_new_session_follows_an_expired_one() -> None:
    async def scenario(simulation: Simulation) -> None:
        sessions = Sessions(simulation.host("a").boot(), TIMEOUT_MS)
        told: list[str] = []
        sessions.on_expired(lambda: told.append("expired"))

        async def first(_: Coordination) -> None:
            told.append("first")

        async def second(zookeeper: Coordination) -> None:
            assert zookeeper is sessions.current
            told.append("second")

        sessions.on_established(first)
        sessions.on_established(second)
        await make_persistent_paths(await sessions.start())
        for _ in range(3):
            told.clear()
            old = sessions.current.session_id
            simulation.zookeeper.expire(old)
            await until(lambda: told == ["expired", "first", "second"], 20, "the new session is told of")
            assert sessions.current.session_id != old
            assert await sessions.current.children(nodes.BROKER_IDS) == []
        await sessions.close()
        assert sessions.current.state is SessionState.CLOSED

    play(scenario)


def test_a_session_that_expires_while_it_is_told_of_is_followed_by_another() -> None:
    async def scenario(simulation: Simulation) -> None:
        sessions = Sessions(simulation.host("a").boot(), TIMEOUT_MS)
        rounds: list[int] = []

        async def established(zookeeper: Coordination) -> None:
            rounds.append(zookeeper.session_id)
            if len(rounds) < 3:
                simulation.zookeeper.expire(zookeeper.session_id)
            await zookeeper.exists("/")

        sessions.on_established(established)
        await sessions.start()
        simulation.zookeeper.expire(sessions.current.session_id)
        await until(lambda: len(rounds) == 3, 30, "three rounds")
        await asyncio.sleep(5)
        assert sessions.current.session_id == rounds[-1]
        assert await sessions.current.exists("/") is not None

    play(scenario)


def test_a_restarted_broker_waits_for_its_dead_self() -> None:
    async def scenario(simulation: Simulation) -> None:
        host = simulation.host("a")
        first = await register(await _client(host.boot()), _registration(), TIMEOUT_MS)
        host.kill()
        second = await register(await _client(host.boot()), _registration(), TIMEOUT_MS)
        assert second > first
        assert simulation.loop.time() < 10

    play(scenario)


def test_a_living_broker_with_the_same_id_is_not_pushed_aside() -> None:
    async def scenario(simulation: Simulation) -> None:
        living = await _client(simulation.host("a").boot())
        epoch = await register(living, _registration(9092), TIMEOUT_MS)
        other = await _client(simulation.host("b").boot())
        with pytest.raises(BrokerIdTaken, match=r"broker\.id=4 .* PLAINTEXT://host:9092 .* another broker\.id"):
            await register(other, _registration(9093), TIMEOUT_MS)
        data, stat = await other.get(nodes.broker_path(4))
        assert stat.czxid == epoch
        assert BrokerRegistration.decode(4, data) == _registration(9092)

    play(scenario)


def test_a_registration_whose_answer_was_lost_counts() -> None:
    async def scenario(simulation: Simulation) -> None:
        client = await _client(simulation.host("a").boot())
        epoch = await register(client, _registration(), TIMEOUT_MS)
        assert await register(client, _registration(9093), TIMEOUT_MS) == epoch
        data, _ = await client.get(nodes.broker_path(4))
        assert BrokerRegistration.decode(4, data) == _registration(9093)

    play(scenario)


def test_ids() -> None:
    async def scenario(simulation: Simulation) -> None:
        clients = [await _client(simulation.host(name).boot()) for name in "abc"]
        made = await asyncio.gather(*(cluster_id(each, simulation.fork(str(each))) for each in clients))
        assert len(set(made)) == 1
        assert len(made[0]) == 22
        assert await cluster_id(clients[0], simulation.fork("again")) == made[0]
        numbers = await asyncio.gather(*(generate_broker_id(each, 1000) for each in clients))
        assert sorted(numbers) == [1001, 1002, 1003]
        await clients[0].create("/x")
        with pytest.raises(NoNode):
            await clients[0].get("/y")

    play(scenario)
