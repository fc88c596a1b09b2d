"""Named places in a broker where a test can delay, drop, hold, fail or crash, switched at run time.

A point that is not armed costs one attribute look-up: callers ask ``if failpoints.on:`` first. An armed point has an
action, a match on what the place knows (topic, partition, peer, api) and a count; its hits are the evidence
that it did something. The control socket (:mod:`system_under_test.server.control`) arms and releases them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Action(Enum):
    DELAY = "delay"
    """Go on after ``delay_ms``."""
    DROP = "drop"
    """The place behaves as if the message had been lost: it raises :class:`Dropped`."""
    HOLD = "hold"
    """Wait until released."""
    CRASH = "crash"
    """End the broker as kill -9 would."""
    ERROR = "error"
    """The place raises :class:`FailpointError`."""


class Dropped(Exception):
    """An armed point dropped this message."""


class FailpointError(Exception):
    """An armed point made this step fail."""


POINTS: dict[str, str] = {
    "produce.before_append": "a Produce request has been read, nothing is appended yet",
    "produce.before_ack": "a Produce request is satisfied, its answer is not written yet (drop: the answer is lost)",
    "fetch.response": "the answer to a Fetch is ready (peer: the follower's id, or -1 for a consumer)",
    "follower.fetch": "a follower is about to send a Fetch to its leader (peer)",
    "follower.before_append": "a follower got records and has not appended them yet",
    "isr.change.sent": "a leader is about to write a changed ISR to ZooKeeper",
    "isr.change.written": "ZooKeeper has a changed ISR, and the leader that wrote it does not know that yet",
    "leader-and-isr.received": "a LeaderAndIsr request has arrived and is not applied yet (peer: the controller)",
    "controller.elected": "a broker has become controller and has not sent anything yet",
    "controller.before_state_write": "the controller is about to write a partition's state to ZooKeeper",
    "controller.request.sent": "the controller is about to send a request to a broker (peer, api)",
}
"""Every point with its place and meaning."""

MATCHABLE = ("topic", "partition", "peer", "api")


@dataclass(slots=True)
class Armed:
    id: int
    point: str
    action: Action
    match: dict[str, str | int]
    count: int | None
    """How often it still acts; None: until it is released."""
    delay_ms: int = 0
    hits: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, known: dict[str, str | int | None]) -> bool:
        return all(str(known.get(name)) == str(wanted) for name, wanted in self.match.items())


class Failpoints:
    def __init__(self, crash: Callable[[], None] | None = None) -> None:
        self.on = False
        """Whether any point is armed."""
        self._armed: dict[int, Armed] = {}
        self._next_id = 1
        self._crash = crash

    def arm(
        self,
        point: str,
        action: Action,
        match: dict[str, str | int] | None = None,
        count: int | None = None,
        delay_ms: int = 0,
    ) -> int:
        if point not in POINTS:
            raise ValueError(f"no failpoint {point!r}; there are {', '.join(sorted(POINTS))}")
        unknown = [name for name in match or {} if name not in MATCHABLE]
        if unknown:
            raise ValueError(f"a failpoint matches on {', '.join(MATCHABLE)}, not on {unknown[0]!r}")
        number, self._next_id = self._next_id, self._next_id + 1
        self._armed[number] = Armed(number, point, action, dict(match or {}), count, delay_ms)
        self.on = True
        return number

    def release(self, number: int | None = None) -> int:
        """Disarm one point or all, let go what they hold; how many there were."""
        numbers = [number] if number is not None else sorted(self._armed)
        gone = [self._armed.pop(each) for each in numbers if each in self._armed]
        for each in gone:
            each.released.set()
        self.on = bool(self._armed)
        return len(gone)

    def armed(self) -> list[Armed]:
        return [self._armed[number] for number in sorted(self._armed)]

    async def reach(self, point: str, **known: str | int | None) -> None:
        """Do what is armed here, if anything is. Raises Dropped or FailpointError where told to."""
        assert point in POINTS, point
        for each in self.armed():
            if each.point == point and each.matches(known) and (each.count is None or each.hits < each.count):
                each.hits += 1
                await self._act(each)

    async def _act(self, armed: Armed) -> None:
        if armed.action is Action.DELAY:
            await asyncio.sleep(armed.delay_ms / 1000)
        elif armed.action is Action.HOLD:
            await armed.released.wait()
        elif armed.action is Action.DROP:
            raise Dropped(armed.point)
        elif armed.action is Action.ERROR:
            raise FailpointError(armed.point)
        elif self._crash is not None:
            self._crash()
