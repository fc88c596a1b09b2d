"""Virtual time, and nodes that pause and die on it."""

from __future__ import annotations

import asyncio
import time

import pytest

from system_under_test.simulation.loop import Node, current_node, make_loop


def test_time_passes_only_when_nothing_is_ready() -> None:
    loop = make_loop()

    async def main() -> list[str]:
        order: list[str] = []

        async def worker(name: str, delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            order.append(f"{name} {loop.time()}")

        async with asyncio.TaskGroup() as group:
            for name, delay_s in (("c", 3600.0), ("a", 5.0), ("b", 5.0), ("now", 0)):
                group.create_task(worker(name, delay_s))
        return order

    started = time.monotonic()
    assert loop.run(main()) == ["now 0.0", "a 5.0", "b 5.0", "c 3600.0"]
    assert time.monotonic() - started < 1.0
    loop.close()


def test_asyncio_works_on_it() -> None:
    loop = make_loop()

    async def main() -> str:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 2.0)
        assert loop.time() == 2.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.Event().wait()
        assert loop.time() == 3.0
        cancelled = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(1)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert cancelled.cancelled()
        return "done"

    assert loop.run(main()) == "done"
    loop.close()


def test_running_out_of_time_and_of_work() -> None:
    loop = make_loop()
    with pytest.raises(TimeoutError):
        loop.run(asyncio.sleep(100), within_s=5.0)
    assert loop.time() == 5.0
    with pytest.raises(TimeoutError):
        loop.run(asyncio.Event().wait())
    loop.close()


def test_a_spinning_node_is_noticed() -> None:
    loop = make_loop()

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="no time passes"):
        loop.run(spin())
    loop.close()


async def _tick(log: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        log.append(loop.time())
        await asyncio.sleep(1.0)


def test_a_paused_node_stands_still_with_its_timers() -> None:
    loop = make_loop()
    node, other = Node(loop, "a"), Node(loop, "b")
    log: list[float] = []
    others: list[float] = []

    async def main() -> None:
        node.start(_tick(log))
        other.start(_tick(others))
        await asyncio.sleep(2.5)
        node.pause()
        await asyncio.sleep(4.0)
        assert log == [0.0, 1.0, 2.0]
        node.resume()
        node.resume()
        await asyncio.sleep(2.0)

    loop.run(main())
    assert log == [0.0, 1.0, 2.0, 6.5, 7.5]
    assert others == [float(each) for each in range(9)]
    loop.close()


def test_a_killed_node_does_nothing_more_not_even_finally() -> None:
    loop = make_loop()
    node = Node(loop, "a")
    log: list[str] = []

    async def live() -> None:
        try:
            log.append("alive")
            assert current_node() is node
            await asyncio.gather(asyncio.sleep(100), asyncio.Event().wait())
        finally:
            log.append("finally")

    async def main() -> None:
        assert current_node() is None
        task = node.start(live())
        await asyncio.sleep(1)
        node.kill()
        node.kill()
        await asyncio.sleep(1000)
        assert not task.done()

    loop.run(main())
    assert log == ["alive"]
    assert loop.failures == []
    loop.close()


def test_a_node_is_struck_between_two_steps_of_one_moment() -> None:
    loop = make_loop()
    node = Node(loop, "a")
    log: list[int] = []

    async def count() -> None:
        for number in range(100):
            log.append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        node.strike_after_steps(7, node.kill)
        node.start(count())
        await asyncio.sleep(1)

    loop.run(main())
    assert log == list(range(7))
    loop.close()


def test_a_task_that_dies_unseen_is_a_failure() -> None:
    loop = make_loop()

    async def main() -> None:
        async def fail() -> None:
            raise ValueError("nobody looks")

        asyncio.create_task(fail())  # noqa: RUF006
        await asyncio.sleep(1)

    loop.run(main())
    assert [str(each["exception"]) for each in loop.failures] == ["nobody looks"]
    loop.close()
