"""What only the real client has: threads that must end, a chroot, many watches at once."""

from __future__ import annotations

import asyncio
import threading

import pytest
from kazoo.client import KazooClient

from system_under_test.realworld import RealWorld
from system_under_test.realworld.session import SetWatches, Watch, set_watches
from system_under_test.world import Create, Disconnected, SessionState, WatchEvent
from tests.system_under_test.worlds.arena import eventually


def test_a_chroot_is_invisible(zookeeper: str) -> None:
    async def main() -> None:
        plain = await RealWorld(zookeeper, 1).coordination(10_000)
        await plain.ensure_path("/a/chroot")
        inside = await RealWorld(f"{zookeeper}/a/chroot", 1).coordination(10_000)
        seen: list[tuple[str, WatchEvent]] = []
        await inside.children("/", lambda path, event: seen.append((path, event)))
        assert (await inside.create("/x", b"1"))[0] == "/x"
        assert (await inside.create("/n", sequential=True))[0] == "/n0000000001"
        await inside.multi([Create("/y", b"2")])
        assert await inside.children("/") == ["n0000000001", "x", "y"]
        assert (await plain.get("/a/chroot/y"))[0] == b"2"
        assert seen == [("/", WatchEvent.CHILDREN)]
        await inside.close()
        await plain.close()

    asyncio.run(main())


def test_no_thread_is_left(zookeeper: str) -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        closed = await RealWorld(zookeeper, 1).coordination(10_000)
        expired = await RealWorld(zookeeper, 1).coordination(10_000)
        session = expired._session
        await closed.close()
        thief = KazooClient(zookeeper, client_id=(session._session_id, session._session_passwd))
        await asyncio.to_thread(thief.start, 10)
        await asyncio.to_thread(thief.stop)
        thief.close()
        await eventually(lambda: expired.state is SessionState.EXPIRED, "the client learns that it expired")
        first_id = expired.session_id
        await expired.close()
        assert expired.session_id == first_id, "no new session was opened behind our back"

    asyncio.run(main())
    assert set(threading.enumerate()) <= before


def test_nobody_answers_and_nothing_is_left() -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        with pytest.raises(Disconnected):
            await RealWorld("127.0.0.1:1", 1).coordination(300)

    asyncio.run(main())
    assert set(threading.enumerate()) <= before


def test_many_watches_are_told_again_in_parts_below_the_limit_of_a_request() -> None:
    def watch(missing: bool) -> Watch:
        made = Watch(lambda _: None)
        made.missing = missing
        return made

    data = {f"/d{number}": {watch(False)} for number in range(900)}
    data |= {f"/e{number}": {watch(True), watch(False)} for number in range(100)}
    requests = list(set_watches(7, data, {"/c": {watch(False)}, "/fired": set()}))
    assert [type(each) for each in requests] == [SetWatches] * 2
    assert all(each.relative_zxid == 7 for each in requests)
    assert sorted(path for each in requests for path in each.data) == sorted(data)
    assert sum(len(each.exists) for each in requests) == 100
    assert [path for each in requests for path in each.children] == ["/c"]
