"""The faults of the simulated world: that they strike where meant, and that a seed repeats them."""

from __future__ import annotations

import asyncio

import pytest

from system_under_test.simulation.loop import Killed
from system_under_test.simulation.world import Simulation, until
from system_under_test.world import Connection, ConnectionLost, Disconnected, SessionState, WatchEvent


async def _echo(connection: Connection) -> None:
    while True:
        connection.write(await connection.read_exactly(1))


async def _connected(simulation: Simulation) -> Connection:
    server = simulation.host("server").boot()
    await server.network.listen("server", 9092, _echo)
    connection = await simulation.host("client").boot().network.connect("server", 9092)
    connection.write(b"a")
    assert await connection.read_exactly(1) == b"a"
    return connection


def test_a_cut_holds_bytes_back_until_it_heals() -> None:
    async def main() -> None:
        for source, target, both in (
            ("client", "server", True),
            ("client", "server", False),
            ("server", "client", False),
        ):
            simulation.cut(source, target, both=both)
            connection.write(b"b")
            answer = asyncio.ensure_future(connection.read_exactly(1))
            await asyncio.sleep(3)
            assert not answer.done()
            simulation.heal(source, target, both=both)
            assert await answer == b"b"

    with Simulation(1) as simulation:
        connection = simulation.run(_connected(simulation))
        simulation.run(main())


def test_a_sender_loses_patience_and_a_late_answer_finds_nobody() -> None:
    async def main() -> None:
        simulation.cut("client", "server", both=False)
        connection.write(b"b")
        with pytest.raises(ConnectionLost, match="does not answer"):
            async with asyncio.timeout(31):
                await connection.read_exactly(1)
        with pytest.raises(ConnectionLost):
            connection.write(b"c")
        simulation.heal("client", "server", both=False)
        again = await simulation.hosts["client"].boot_again().network.connect("server", 9092)
        again.write(b"d")
        assert await again.read_exactly(1) == b"d"

    with Simulation(1) as simulation:
        connection = simulation.run(_connected(simulation))
        simulation.run(main())


def test_a_killed_server_resets_and_refuses_a_powerless_one_is_silent() -> None:
    async def main(power: bool) -> float:
        host = simulation.host("server")
        started = simulation.loop.time()
        if power:
            host.lose_power()
        else:
            host.kill()
        connection.write(b"b")
        with pytest.raises(ConnectionLost):
            await connection.read_exactly(1)
        world = simulation.hosts["client"].boot_again()
        with pytest.raises(ConnectionLost, match="does not answer" if power else "refuses"):
            await world.network.connect("server", 9092)
        return simulation.loop.time() - started

    for power in (False, True):
        with Simulation(1) as simulation:
            connection = simulation.run(_connected(simulation))
            took_s = simulation.run(main(power))
            assert (took_s > 5) is power


def test_a_machine_that_is_back_resets_connections_of_its_former_life() -> None:
    async def main() -> None:
        simulation.host("server").lose_power()
        connection.write(b"b")
        await asyncio.sleep(1)
        simulation.host("server").boot()
        async with asyncio.timeout(2):
            with pytest.raises(ConnectionLost, match="reset"):
                await connection.read_exactly(1)

    with Simulation(1) as simulation:
        connection = simulation.run(_connected(simulation))
        simulation.run(main())


def test_a_paused_server_accepts_and_answers_later() -> None:
    async def main() -> None:
        simulation.host("server").pause()
        again = await simulation.hosts["client"].boot_again().network.connect("server", 9092)
        again.write(b"b")
        answer = asyncio.ensure_future(again.read_exactly(1))
        await asyncio.sleep(20)
        assert not answer.done()
        simulation.host("server").resume()
        assert await answer == b"b"

    with Simulation(1) as simulation:
        simulation.run(_connected(simulation))
        simulation.run(main())


def test_slow_links_and_dropped_connections() -> None:
    async def main() -> None:
        simulation.links.slow("client", "server", 5.0)
        started = simulation.loop.time()
        connection.write(b"b")
        assert await connection.read_exactly(1) == b"b"
        assert simulation.loop.time() - started > 0.1
        simulation.links.slow("client", "server", 0.0)
        assert simulation.board.drop_connections("client", "server") == 1
        with pytest.raises(ConnectionLost, match="reset"):
            await connection.read_exactly(1)

    with Simulation(1) as simulation:
        connection = simulation.run(_connected(simulation))
        simulation.run(main())


def test_power_loss_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    survived: set[bytes] = set()
    names: set[tuple[str, ...]] = set()
    for seed in range(300):
        with Simulation(seed) as simulation:
            host = simulation.host("h")
            files = host.boot().files
            files.make_folder("/d")
            files.sync_folder("/")
            file = files.open("/d/log", create=True)
            files.sync_folder("/d")
            file.append(b"safe")
            file.sync()
            file.append(b"12", b"3")
            files.open("/d/new", create=True)
            files.replace("/d/new", "/d/newer")
            host.kill()
            assert host.boot().files.read("/d/log") == b"safe123"
            host.lose_power()
            after = host.boot().files
            survived.add(after.read("/d/log"))
            names.add(tuple(after.list("/d")))
    plain = {b"safe", b"safe1", b"safe12", b"safe123"}
    assert plain < survived
    assert all(each.rstrip(b"\0") in plain for each in survived)
    assert names == {("log",), ("log", "new"), ("log", "newer")}


def test_power_loss_after_overwriting_gives_old_or_new() -> None:
    outcomes: set[tuple[bytes, bytes]] = set()
    for seed in range(100):
        with Simulation(seed) as simulation:
            host = simulation.host("h")
            files = host.boot().files
            for name in ("/a", "/b"):
                file = files.open(name, create=True)
                file.append(b"old")
                file.sync()
            files.sync_folder("/")
            files.open("/a").write_at(0, b"new")
            truncated = files.open("/b")
            truncated.truncate(1)
            truncated.append(b"!")
            host.lose_power()
            after = host.boot().files
            outcomes.add((after.read("/a"), after.read("/b")))
    assert {each for each, _ in outcomes} == {b"old", b"new"}
    assert {b"old", b"o!"} <= {each for _, each in outcomes} <= {b"old", b"o!", b"ol"}


def test_writing_atomically_is_atomic_wherever_power_is_lost() -> None:
    contents: set[bytes] = set()
    for strike in range(8):
        for seed in range(20):
            with Simulation(seed) as simulation:
                host = simulation.host("h")
                files = host.boot().files
                files.write_atomically("/c", b"old content")
                host.disk.strike_after_operations(strike, host.lose_power)
                try:
                    files.write_atomically("/c", b"new")
                    host.lose_power()
                except Killed:
                    with pytest.raises(Killed):
                        files.remove("/c")
                contents.add(host.boot().files.read("/c"))
    assert contents == {b"old content", b"new"}


def test_a_full_disk() -> None:
    with Simulation(1) as simulation:
        host = simulation.host("h")
        file = host.boot().files.open("/a", create=True)
        file.append(b"fits")
        host.disk.full = True
        with pytest.raises(OSError, match="full"):
            file.append(b"does not fit")
        assert b"fitsdoes not fit".startswith(file.read_at(0, 100))
        assert 4 <= file.size() < 16


def test_sessions_of_dead_paused_and_cut_nodes_expire() -> None:
    async def main() -> None:
        observer = await simulation.host("observer").boot().coordination(6000)
        for fault in ("kill", "lose_power", "pause", "cut"):
            host = simulation.host(fault)
            victim = await host.boot().coordination(2000)
            await victim.create(f"/{fault}", ephemeral=True)
            seen: list[WatchEvent] = []
            await observer.exists(f"/{fault}", lambda _, event, seen=seen: seen.append(event))  # type: ignore[misc]
            if fault == "cut":
                simulation.cut(fault, "zookeeper", both=False)
            else:
                getattr(host, fault)()
            await asyncio.sleep(1.0)
            assert seen == []
            await until(lambda seen=seen: seen == [WatchEvent.DELETED], 2.0, f"expiry after {fault}")  # type: ignore[misc]
            if fault == "pause":
                assert victim.state is SessionState.CONNECTED, "a paused client knows nothing"
                host.resume()
            if fault == "cut":
                assert victim.state is SessionState.DISCONNECTED
                simulation.heal(fault, "zookeeper", both=False)
            if fault in ("pause", "cut"):
                await until(lambda victim=victim: victim.state is SessionState.EXPIRED, 3.0, fault)  # type: ignore[misc]
                assert (await (host_world(fault)).coordination(2000)).state is SessionState.CONNECTED

    def host_world(name: str):  # type: ignore[no-untyped-def]
        return simulation.host(name).boot_again()

    with Simulation(3) as simulation:
        simulation.run(main())


def test_sessions_outlive_a_stop_of_zookeeper() -> None:
    async def main() -> None:
        world = simulation.host("a").boot()
        session = await world.coordination(2000)
        await session.create("/e", ephemeral=True)
        simulation.zookeeper.stop()
        await asyncio.sleep(10)
        assert session.state is SessionState.DISCONNECTED
        with pytest.raises(Disconnected):
            await world.coordination(2000)
        simulation.zookeeper.start()
        await until(lambda: session.state is SessionState.CONNECTED, 2.0, "the session is back")
        assert await session.exists("/e") is not None

    with Simulation(3) as simulation:
        simulation.run(main())


def _history(seed: int) -> str:
    async def main() -> None:
        connection = await _connected(simulation)
        session = await simulation.host("other").boot().coordination(2000)
        for number in range(50):
            await session.create(f"/{number}", ephemeral=number % 2 == 0)
            connection.write(b"x")
            await connection.read_exactly(1)
        simulation.host("other").lose_power()
        await asyncio.sleep(5)

    with Simulation(seed) as simulation:
        simulation.run(main())
        return simulation.trace.digest()


def test_equal_seeds_give_equal_traces() -> None:
    assert _history(1) == _history(1) != _history(2)
