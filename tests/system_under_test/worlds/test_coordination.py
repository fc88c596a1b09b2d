"""What a broker may rely on of ZooKeeper, asked of a real server and of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from system_under_test.world import (
    BadVersion,
    Check,
    Coordination,
    Create,
    Delete,
    Disconnected,
    NodeExists,
    NodeStat,
    NoNode,
    NotEmpty,
    SessionExpired,
    SessionState,
    SetData,
    WatchEvent,
)
from tests.system_under_test.worlds.arena import SESSION_TIMEOUT_MS, Arena, eventually

Seen = list[tuple[str, WatchEvent]]


async def _open(arena: Arena, name: str, root: str = "/", timeout_ms: int = 10_000) -> Coordination:
    coordination = await (await arena.world(name)).coordination(timeout_ms)
    if root != "/":
        await coordination.ensure_path(root)
    return coordination


def _watcher(seen: Seen) -> Callable[[str, WatchEvent], None]:
    return lambda path, event: seen.append((path, event))


def test_nodes_have_versions_and_transaction_ids(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        zk = await _open(arena, "a", root)
        assert zk.state is SessionState.CONNECTED
        path, made = await zk.create(f"{root}/x", b"one")
        assert path == f"{root}/x"
        assert (made.version, made.ephemeral_owner) == (0, 0)
        assert made.czxid == made.mzxid > 0
        changed = await zk.set(path, b"two", version=0)
        assert changed.version == 1
        assert made.czxid == changed.czxid < changed.mzxid
        assert await zk.get(path) == (b"two", changed)
        assert await zk.exists(path) == changed
        assert await zk.exists(f"{root}/y") is None
        _, later = await zk.create(f"{root}/y")
        assert later.czxid > changed.mzxid
        assert await zk.children(root) == ["x", "y"]
        await zk.delete(f"{root}/y", version=0)
        assert await zk.children(root) == ["x"]

    arena.run(scenario)


def test_refusals(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        zk = await _open(arena, "a", f"{root}/x/child")
        refused: list[tuple[Coroutine[Any, Any, Any], type[Exception]]] = [
            (zk.create(f"{root}/x"), NodeExists),
            (zk.create(f"{root}/no/child"), NoNode),
            (zk.get(f"{root}/no"), NoNode),
            (zk.children(f"{root}/no"), NoNode),
            (zk.set(f"{root}/no", b""), NoNode),
            (zk.delete(f"{root}/no"), NoNode),
            (zk.set(f"{root}/x", b"", version=3), BadVersion),
            (zk.delete(f"{root}/x/child", version=3), BadVersion),
            (zk.delete(f"{root}/x"), NotEmpty),
        ]
        for operation, error in refused:
            with pytest.raises(error):
                await operation
        await zk.ensure_path(f"{root}/x/child")

    arena.run(scenario)


def test_sequential_names_count_up(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        zk = await _open(arena, "a", root)
        first, _ = await zk.create(f"{root}/n_", b"1", sequential=True)
        await zk.delete(first)
        second, stat = await zk.create(f"{root}/n_", b"2", sequential=True, ephemeral=True)
        assert (first, second) == (f"{root}/n_0000000000", f"{root}/n_0000000001")
        assert stat.ephemeral_owner == zk.session_id

    arena.run(scenario)


def test_a_transaction_is_all_or_nothing(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        zk = await _open(arena, "a", root)
        await zk.create(f"{root}/x", b"one")
        seen: Seen = []
        await zk.get(f"{root}/x", _watcher(seen))
        await zk.children(root, _watcher(seen))
        with pytest.raises(BadVersion):
            await zk.multi(
                [Create(f"{root}/y", b""), SetData(f"{root}/x", b"two"), Delete(f"{root}/x"), Check(root, 5)]
            )
        with pytest.raises(NodeExists):
            await zk.multi([SetData(f"{root}/x", b"two"), Create(f"{root}/x", b""), Check(f"{root}/no", 5)])
        assert (await zk.get(f"{root}/x"))[0] == b"one"
        assert await zk.children(root) == ["x"]
        assert seen == []
        results = await zk.multi(
            [
                Check(f"{root}/x", 0),
                SetData(f"{root}/x", b"two", 0),
                Create(f"{root}/y", b"new", ephemeral=True),
                Delete(f"{root}/x", 1),
            ]
        )
        checked, changed, made, deleted = results
        assert (checked, deleted) == (None, None)
        assert isinstance(changed, NodeStat)
        assert isinstance(made, NodeStat)
        assert changed.version == 1
        assert changed.mzxid == made.czxid
        assert made.ephemeral_owner == zk.session_id
        assert await zk.children(root) == ["y"]
        assert seen == [(f"{root}/x", WatchEvent.CHANGED), (root, WatchEvent.CHILDREN)]
        assert await zk.multi([]) == []

    arena.run(scenario)


def test_a_watch_fires_once_and_before_the_change_can_be_read(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        watching, writing = await _open(arena, "a", root), await _open(arena, "b")
        seen: Seen = []
        assert await watching.exists(f"{root}/x", _watcher(seen)) is None
        with pytest.raises(NoNode):
            await watching.get(f"{root}/x", _watcher(seen))
        await watching.children(root, _watcher(seen))
        await writing.create(f"{root}/x", b"0")
        while await watching.exists(f"{root}/x") is None:
            assert seen == []
        assert seen == [(f"{root}/x", WatchEvent.CREATED), (root, WatchEvent.CHILDREN)]
        for round_ in range(1, 30):
            seen.clear()
            await watching.get(f"{root}/x", _watcher(seen))
            write = asyncio.create_task(writing.set(f"{root}/x", str(round_).encode()))
            while (await watching.get(f"{root}/x"))[0] != str(round_).encode():
                pass
            assert seen == [(f"{root}/x", WatchEvent.CHANGED)]
            await write
        seen.clear()
        await watching.get(f"{root}/x", _watcher(seen))
        await watching.children(f"{root}/x", _watcher(seen))
        await watching.children(root, _watcher(seen))
        await writing.delete(f"{root}/x")
        while await watching.exists(f"{root}/x") is not None:
            pass
        deleted = (f"{root}/x", WatchEvent.DELETED)
        assert seen == [deleted, deleted, (root, WatchEvent.CHILDREN)]
        await writing.create(f"{root}/x")
        await watching.exists(f"{root}/x")
        assert len(seen) == 3

    arena.run(scenario)


def test_closing_ends_the_session_at_once(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        ending, staying = await _open(arena, "a", root), await _open(arena, "b")
        states: list[SessionState] = []
        ending.on_state(states.append)
        _, stat = await ending.create(f"{root}/e", ephemeral=True)
        assert stat.ephemeral_owner == ending.session_id != staying.session_id
        seen: Seen = []
        own: Seen = []
        await staying.exists(f"{root}/e", _watcher(seen))
        await ending.exists(f"{root}/e", _watcher(own))
        await ending.close()
        await ending.close()
        assert (ending.state, states) == (SessionState.CLOSED, [SessionState.CLOSED])
        assert await staying.exists(f"{root}/e") is None
        assert seen == [(f"{root}/e", WatchEvent.DELETED)]
        assert own == []
        with pytest.raises(Disconnected):
            await ending.get(root)

    arena.run(scenario)


def test_a_broken_connection_keeps_session_and_watches(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        broken, other = await _open(arena, "a", root), await _open(arena, "b")
        states: list[SessionState] = []
        broken.on_state(states.append)
        await broken.create(f"{root}/e", ephemeral=True)
        for name in ("kept", "changed", "deleted"):
            await broken.create(f"{root}/{name}")
        seen: Seen = []
        for name in ("kept", "changed", "deleted"):
            await broken.get(f"{root}/{name}", _watcher(seen))
            await broken.children(f"{root}/{name}", _watcher(seen))
        await broken.exists(f"{root}/appears", _watcher(seen))
        await broken.exists(f"{root}/never", _watcher(seen))
        await arena.cut("a")
        await eventually(lambda: broken.state is SessionState.DISCONNECTED, "the client is disconnected")
        with pytest.raises(Disconnected):
            await broken.get(root)
        assert seen == []
        await other.set(f"{root}/changed", b"new")
        await other.create(f"{root}/changed/child")
        await other.delete(f"{root}/deleted")
        await other.create(f"{root}/appears")
        assert await other.exists(f"{root}/e") is not None
        await arena.heal("a")
        await eventually(lambda: broken.state is SessionState.CONNECTED, "the client is connected again")
        await broken.get(root)
        deleted = (f"{root}/deleted", WatchEvent.DELETED)
        assert sorted(seen, key=str) == sorted(
            [
                (f"{root}/appears", WatchEvent.CREATED),
                (f"{root}/changed", WatchEvent.CHANGED),
                (f"{root}/changed", WatchEvent.CHILDREN),
                deleted,
                deleted,
            ],
            key=str,
        )
        seen.clear()
        await other.set(f"{root}/kept", b"new")
        await other.create(f"{root}/never")
        await eventually(lambda: len(seen) == 2, "watches that had nothing to tell still work")
        assert seen == [(f"{root}/kept", WatchEvent.CHANGED), (f"{root}/never", WatchEvent.CREATED)]
        assert states == [SessionState.DISCONNECTED, SessionState.CONNECTED]
        assert await broken.exists(f"{root}/e") is not None

    arena.run(scenario)


def test_a_request_under_way_when_the_connection_breaks_is_disconnected(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        zk = await _open(arena, "a", root)
        states_at_failure: list[SessionState] = []

        async def write(number: int) -> None:
            try:
                await zk.create(f"{root}/{number}")
            except Disconnected:
                states_at_failure.append(zk.state)

        writes = [asyncio.create_task(write(number)) for number in range(20)]
        await asyncio.sleep(0)
        await arena.cut("a")
        await asyncio.wait(writes)
        assert set(states_at_failure) <= {SessionState.DISCONNECTED}
        await arena.heal("a")
        await eventually(lambda: zk.state is SessionState.CONNECTED, "the client is connected again")
        # Nobody knows which took effect; those that were acknowledged did.
        assert len(await zk.children(root)) >= 20 - len(states_at_failure)

    arena.run(scenario)


def test_expiry(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        expiring, other = await _open(arena, "a", root), await _open(arena, "b")
        told: list[SessionState | WatchEvent] = []
        expiring.on_state(told.append)
        await expiring.create(f"{root}/e", ephemeral=True)
        await expiring.exists(f"{root}/never", lambda _, event: told.append(event))
        await arena.expire(expiring)
        await eventually(lambda: expiring.state is SessionState.EXPIRED, "the client learns that it expired")
        await eventually(lambda: WatchEvent.LOST in told, "its watches are lost")
        assert told == [SessionState.DISCONNECTED, SessionState.EXPIRED, WatchEvent.LOST]
        assert await other.exists(f"{root}/e") is None
        with pytest.raises(SessionExpired):
            await expiring.get(root)
        await expiring.close()
        assert expiring.state is SessionState.EXPIRED

    arena.run(scenario)


def test_a_client_without_a_server_expires_and_learns_it_only_when_it_is_back(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        lost, other = await _open(arena, "a", root, SESSION_TIMEOUT_MS), await _open(arena, "b")
        states: list[SessionState] = []
        lost.on_state(states.append)
        await lost.create(f"{root}/e", ephemeral=True)
        seen: Seen = []
        await other.exists(f"{root}/e", _watcher(seen))
        await arena.cut("a")
        await eventually(lambda: seen == [(f"{root}/e", WatchEvent.DELETED)], "the server expires the session")
        assert states == [SessionState.DISCONNECTED]
        await arena.heal("a")
        await eventually(lambda: lost.state is SessionState.EXPIRED, "the client learns that it expired")
        assert states == [SessionState.DISCONNECTED, SessionState.EXPIRED]

    arena.run(scenario)


def test_a_quiet_session_lives(arena: Arena, root: str) -> None:
    async def scenario(arena: Arena) -> None:
        quiet, other = await _open(arena, "a", root, SESSION_TIMEOUT_MS), await _open(arena, "b")
        await quiet.create(f"{root}/e", ephemeral=True)
        await asyncio.sleep(2.5 * SESSION_TIMEOUT_MS / 1000)
        assert await other.exists(f"{root}/e") is not None
        assert quiet.state is SessionState.CONNECTED

    arena.run(scenario)


def test_no_server_no_session(arena: Arena) -> None:
    async def scenario(arena: Arena) -> None:
        world = await arena.world("a")
        await arena.cut("a")
        with pytest.raises(Disconnected):
            await world.coordination(SESSION_TIMEOUT_MS)

    arena.run(scenario)
