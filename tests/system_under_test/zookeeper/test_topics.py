"""Where replicas go, what may be created, and what is written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.simulation.world import Simulation, until
from system_under_test.world import Coordination
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from system_under_test.zookeeper.configs import NOTIFICATION_LIFE_MS, Configs
from system_under_test.zookeeper.registration import make_persistent_paths
from system_under_test.zookeeper.session import Retrying
from system_under_test.zookeeper.topics import TopicStore, check_name, check_new


def test_the_table_of_the_design() -> None:
    assert assign_replicas([2, 0, 1], 5, 3) == {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1), 3: (0, 2, 1), 4: (1, 0, 2)}


@given(st.sets(st.integers(0, 99), min_size=1, max_size=8), st.integers(1, 60), st.data())
def test_replicas_are_spread(brokers: set[int], partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    assignment = assign_replicas(brokers, partitions, factor)
    assert sorted(assignment) == list(range(partitions))
    for replicas in assignment.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1
    # Growing is the same as having been larger from the start.
    half = partitions // 2
    grown = assign_replicas(brokers, half, factor) | assign_replicas(brokers, partitions - half, factor, half)
    assert grown == assignment


def test_a_dead_brokers_leaderships_fall_to_all_survivors() -> None:
    assignment = assign_replicas(range(4), 48, 3)
    heirs = Counter(replicas[1] for replicas in assignment.values() if replicas[0] == 0)
    assert sorted(heirs) == [1, 2, 3]
    assert max(heirs.values()) - min(heirs.values()) <= 1


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "__consumer_offsets"])
def test_good_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_name(name)
    assert refused.value.code is ErrorCode.invalid_topic_exception


def test_names_that_metrics_could_not_tell_apart() -> None:
    check_new("a.c", ["a_b"])
    for name, code in (("a.b", ErrorCode.invalid_topic_exception), ("a_b", ErrorCode.topic_already_exists)):
        with pytest.raises(ApiError) as refused:
            check_new(name, ["a_b"])
        assert refused.value.code is code


def play(scenario: Callable[[Simulation, Coordination], Coroutine[Any, Any, None]]) -> None:
    with Simulation(3) as simulation:

        async def run() -> None:
            client = Retrying(await simulation.host("a").boot().coordination(6000))
            await make_persistent_paths(client)
            await scenario(simulation, client)

        simulation.run(run(), 3000)
        assert not simulation.loop.failures, simulation.loop.failures


def _with(name: str, value: str, before: Mapping[str, str]) -> Mapping[str, str]:
    return {**before, name: value}


def test_of_two_that_create_the_same_topic_one_wins_with_all_it_wrote() -> None:
    async def scenario(simulation: Simulation, client: Coordination) -> None:
        other = Retrying(await simulation.host("b").boot().coordination(6000))
        stores = [
            TopicStore(lambda: client, simulation.fork("one's ids")),
            TopicStore(lambda: other, simulation.fork("the other's ids")),
        ]
        for turn in range(10):
            name = f"t{turn}"
            results = await asyncio.gather(
                *(store.create(name, {0: (i,)}, {"retention.ms": str(i)}) for i, store in enumerate(stores)),
                return_exceptions=True,
            )
            won = [i for i, each in enumerate(results) if not isinstance(each, BaseException)]
            assert len(won) == 1
            stored = await stores[0].assignment(name)
            assert stored is not None
            assert dict(stored.partitions) == {0: (won[0],)}
            config = nodes.decode_config((await client.get(nodes.topic_config_path(name)))[0])
            assert config == {"retention.ms": str(won[0])}

    play(scenario)


def test_overrides_that_a_failed_creation_left_are_replaced() -> None:
    async def scenario(simulation: Simulation, client: Coordination) -> None:
        store = TopicStore(lambda: client, simulation.fork("ids"))
        await client.create(nodes.topic_config_path("t"), nodes.encode_config({"flush.ms": "1"}))
        await store.create("t", {0: (1,)}, {"retention.ms": "5"})
        assert nodes.decode_config((await client.get(nodes.topic_config_path("t")))[0]) == {"retention.ms": "5"}
        with pytest.raises(ApiError) as refused:
            await store.create("t", {0: (1,)}, {})
        assert refused.value.code is ErrorCode.topic_already_exists
        assert nodes.decode_config((await client.get(nodes.topic_config_path("t")))[0]) == {"retention.ms": "5"}

    play(scenario)


def test_changes_of_configuration_reach_everybody_in_the_end() -> None:
    async def scenario(simulation: Simulation, client: Coordination) -> None:
        other = Retrying(await simulation.host("b").boot().coordination(6000))
        told: list[tuple[str, dict[str, str]]] = []
        here, there = Configs(lambda: client), Configs(lambda: other)
        await here.change("topics/old", lambda _: {"flush.ms": "9"})
        there.on_topic_config(lambda topic, overrides: told.append((topic, dict(overrides))))
        await there.start()
        assert told == [("old", {"flush.ms": "9"})]
        assert there.topics() == {"old": {"flush.ms": "9"}}
        await here.change("topics/t", lambda _: {"retention.ms": "1"})
        await until(lambda: told[-1] == ("t", {"retention.ms": "1"}), 5, "the change is told")
        simulation.cut("b", "zookeeper")
        for value in ("2", "3", "4"):
            await here.change("topics/t", partial(_with, "flush.ms", value))
        simulation.heal("b", "zookeeper")
        await until(lambda: told[-1] == ("t", {"retention.ms": "1", "flush.ms": "4"}), 30, "the last change is told")
        await here.change("topics/t", lambda _: {})
        await until(lambda: told[-1] == ("t", {}), 5, "the end is told")
        assert there.topic("t") == {}
        await here.stop()
        await there.stop()

    play(scenario)


def test_two_that_change_one_configuration_lose_nothing() -> None:
    async def scenario(simulation: Simulation, client: Coordination) -> None:
        other = Retrying(await simulation.host("b").boot().coordination(6000))
        stores = [Configs(lambda: client), Configs(lambda: other)]
        await asyncio.gather(*(stores[i % 2].change("topics/t", partial(_with, f"k{i}", "v")) for i in range(8)))
        found = nodes.decode_config((await client.get(nodes.topic_config_path("t")))[0])
        assert sorted(found) == [f"k{i}" for i in range(8)]

    play(scenario)


def test_old_notifications_go() -> None:
    async def scenario(_: Simulation, client: Coordination) -> None:
        configs = Configs(lambda: client)
        await configs.start()
        await configs.change("topics/t", lambda _: {"flush.ms": "1"})
        await asyncio.sleep(NOTIFICATION_LIFE_MS / 1000 + 1)
        await client.create(f"{nodes.CONFIG_CHANGES}/{nodes.CONFIG_CHANGE_PREFIX}", b"garbage", sequential=True)
        await configs.change("topics/t", lambda _: {"flush.ms": "2"})
        await until(lambda: configs.topic("t") == {"flush.ms": "2"}, 5, "the change is read")
        async with asyncio.timeout(5):
            while len(await client.children(nodes.CONFIG_CHANGES)) != 2:
                await asyncio.sleep(0.05)
        await configs.stop()

    play(scenario)


def test_a_reading_that_took_long_does_not_bring_back_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request reads two configurations, and the answer of one was lost and asked for again."""
    content = {"topics/a": {"retention.ms": "1"}, "topics/b": {}}

    async def main() -> None:
        configs, answered = Configs(lambda: None), asyncio.Event()  # type: ignore[arg-type,return-value]

        async def read(_: object, path: str) -> tuple[dict[str, str], int]:
            found = content[path]
            if path == "topics/b":
                await answered.wait()
            return found, 0

        monkeypatch.setattr("system_under_test.zookeeper.configs.read_config", read)
        slow = asyncio.ensure_future(configs.refresh(["a", "b"]))
        await asyncio.sleep(0.1)
        content["topics/a"] = {"retention.ms": "2"}
        told = asyncio.ensure_future(configs.refresh(["a"]))
        await asyncio.sleep(0.1)
        answered.set()
        await asyncio.gather(slow, told)
        assert configs.topic("a") == {"retention.ms": "2"}

    with Simulation(1) as simulation:
        simulation.run(main(), within_s=5)
