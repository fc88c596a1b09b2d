"""Wires between hosts: each direction keeps its order, delays what it carries, and can be cut.

A cut is lost packets, not an error: what was sent stays undelivered. After the heal it is sent again, as TCP does, or
the sender has lost patience before and its side of the connection is gone. A host without power is cut from everybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from system_under_test.simulation.loop import SimulatedLoop

_FASTEST_S = 0.0002
_USUAL_SPREAD_S = 0.002
_LATE_SHARE = 0.02
_LATE_SPREAD_S = 0.05
_PATIENCE_S = (4.0, 30.0)
"""How long a sender goes on sending again before it gives the connection up."""
_LONGEST_RETRANSMISSION_S = 1.0


class Links:
    """Who reaches whom, and how fast."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self._cut: dict[tuple[str, str], int] = {}
        self._down: set[str] = set()
        self._extra_s: dict[tuple[str, str], float] = {}
        self._stuck: dict[tuple[str, str], list[Wire]] = {}
        self._troubled = False

    def cut(self, source: str, target: str) -> None:
        """One way. Cuts count: each needs a heal of its own."""
        self._cut[source, target] = self._cut.get((source, target), 0) + 1
        self._troubled = True

    def heal(self, source: str, target: str) -> None:
        left = self._cut[source, target] - 1
        if left:
            self._cut[source, target] = left
        else:
            del self._cut[source, target]
            self._freed()

    def slow(self, source: str, target: str, extra_s: float) -> None:
        """Up to so much longer for each message, one way; 0 ends it."""
        if extra_s:
            self._extra_s[source, target] = extra_s
        else:
            self._extra_s.pop((source, target), None)

    def power_off(self, host: str) -> None:
        self._down.add(host)
        self._troubled = True

    def power_on(self, host: str) -> None:
        self._down.discard(host)
        self._freed()

    def blocked(self, source: str, target: str) -> bool:
        return self._troubled and ((source, target) in self._cut or source in self._down or target in self._down)

    def delay_s(self, source: str, target: str) -> float:
        chance = self.random.random()
        delay = _FASTEST_S + chance * _USUAL_SPREAD_S
        if chance < _LATE_SHARE:
            delay += self.random.random() * _LATE_SPREAD_S
        if self._extra_s and (extra := self._extra_s.get((source, target))):
            delay += self.random.random() * extra
        return delay

    def stick(self, wire: Wire) -> None:
        self._stuck.setdefault((wire.source, wire.target), []).append(wire)

    def _freed(self) -> None:
        self._troubled = bool(self._cut or self._down)
        for link in [each for each in self._stuck if not self.blocked(*each)]:
            for wire in self._stuck.pop(link):
                wire.send_again()


class Wire:
    """One direction of one connection. Messages are anything; what is sent in one moment arrives in one moment."""

    __slots__ = (
        "_batch",
        "_deliver",
        "_impatience",
        "_last_arrival",
        "_links",
        "_lost",
        "_sent_at",
        "_silent",
        "_stuck",
        "_stuck_since",
        "source",
        "target",
    )

    def __init__(
        self, links: Links, source: str, target: str, deliver: Callable[[Any], None], lost: Callable[[], None]
    ) -> None:
        """``lost`` is called when the sender gives up."""
        self._links = links
        self.source = source
        self.target = target
        self._deliver = deliver
        self._lost = lost
        self._batch: list[Any] = []
        self._sent_at = -1.0
        self._last_arrival = 0.0
        self._stuck: deque[list[Any]] = deque()
        self._stuck_since = 0.0
        self._impatience: asyncio.TimerHandle | None = None
        self._silent = False

    def send(self, message: Any) -> None:
        if self._silent:
            return
        links = self._links
        now = links.loop.time()
        if self._sent_at == now:
            self._batch.append(message)
            return
        self._sent_at = now
        self._batch = [message]
        arrival = now + links.delay_s(self.source, self.target)
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        links.loop.world_at(arrival, self._arrive, self._batch)

    def silence(self) -> None:
        """The sender's machine is gone: nothing more arrives, not even an end."""
        self._silent = True
        self._forget()

    def _arrive(self, batch: list[Any]) -> None:
        if self._silent:
            return
        if self._stuck or self._links.blocked(self.source, self.target):
            if not self._stuck:
                self._stuck_since = self._links.loop.time()
                patience = self._links.random.uniform(*_PATIENCE_S)
                self._impatience = self._links.loop.world_at(self._stuck_since + patience, self._give_up)
                self._links.stick(self)
            self._stuck.append(batch)
            return
        deliver = self._deliver
        for message in batch:
            deliver(message)

    def send_again(self) -> None:
        """The way is free: TCP notices with its next retransmission, which it spaces ever wider."""
        waited = self._links.loop.time() - self._stuck_since
        spacing = min(waited, _LONGEST_RETRANSMISSION_S)
        at = self._links.loop.time() + _FASTEST_S + self._links.random.random() * spacing
        self._links.loop.world_at(at, self._release)

    def _release(self) -> None:
        if not self._stuck:
            return
        if self._links.blocked(self.source, self.target):
            self._links.stick(self)
            return
        stuck = list(self._stuck)
        self._forget()
        for batch in stuck:
            self._arrive(batch)

    def _give_up(self) -> None:
        if self._stuck:
            self._silent = True
            self._forget()
            self._lost()

    def _forget(self) -> None:
        self._stuck.clear()
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
