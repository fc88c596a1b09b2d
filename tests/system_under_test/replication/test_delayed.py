"""Purgatories: completed once, by an event or by time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from system_under_test.replication.delayed import DelayedOperation, Purgatory
from system_under_test.simulation.world import Simulation
from system_under_test.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Counting(DelayedOperation):
    """Needs an event at each of its partitions."""

    __slots__ = ("asked", "ended", "missing")

    def __init__(self, *keys: TopicPartition) -> None:
        self.missing = set(keys)
        self.asked = 0
        self.ended: list[str] = []

    def try_complete(self, key: TopicPartition) -> bool:
        self.asked += 1
        self.missing.discard(key)
        return not self.missing

    def on_complete(self) -> None:
        self.ended.append("completed")

    def on_expire(self) -> None:
        self.ended.append("expired")


def run(work: Coroutine[Any, Any, None]) -> None:
    with Simulation(1) as simulation:
        simulation.run(work)


def test_events_elsewhere_ask_nobody_and_completion_ends_the_wait_everywhere() -> None:
    async def main() -> None:
        purgatory = Purgatory("test")
        both, other = Counting(A, B), Counting(B)
        purgatory.watch(both, (A, B), 5)
        purgatory.watch(other, (B,), 5)
        purgatory.check(A)
        assert (both.asked, other.asked, len(purgatory)) == (1, 0, 2)
        purgatory.check(B)
        assert both.ended == other.ended == ["completed"]
        assert len(purgatory) == 0
        purgatory.check(A)
        await asyncio.sleep(10)
        assert both.ended == other.ended == ["completed"]
        assert both.asked == 2

    run(main())


def test_time_runs_out_once() -> None:
    async def main() -> None:
        purgatory = Purgatory("test")
        operation = Counting(A, B)
        purgatory.watch(operation, (A, B), 5)
        await asyncio.sleep(4.9)
        assert operation.ended == []
        await asyncio.sleep(0.2)
        assert operation.ended == ["expired"]
        purgatory.check(A)
        purgatory.check(B)
        assert (operation.ended, operation.asked) == (["expired"], 0)

    run(main())


def test_a_shutdown_ends_all() -> None:
    async def main() -> None:
        purgatory = Purgatory("test")
        operations = [Counting(A), Counting(A, B), Counting(B)]
        for each in operations:
            purgatory.watch(each, tuple(sorted(each.missing)), 5)
        purgatory.cancel_all()
        assert [each.ended for each in operations] == [["expired"]] * 3
        assert len(purgatory) == 0

    run(main())
