"""Pairs invocations with completions, chunk by chunk, and keeps account of who was assigned what.

A completion nearly always comes in the chunk of its invocation or the next; the few that come later wait
in a dictionary. Numbers of lines here are counted over the operations of clients in the whole file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from histories.errors import HistoryError
from histories.jepsen.parse import FS, INVOKE, OTHER_F, Bools, Ints, Parsed

NONE: Final = -1
_F_NAMES: Final = (*FS, "another :f")


@dataclass
class Matched:
    """What pairing adds to a chunk."""

    start: int
    """Number of its first line."""
    completion: Ints
    """Of each line that is an invocation: the number of its completion's line, or NONE."""
    time: Ints
    seeks: list[tuple[int, int]]
    """New positions: place of the completion in the chunk, key."""


@dataclass
class Pairing:
    path: Path
    count: int = 0
    """Lines so far."""
    known: int = 0
    """Operations with an ``f`` that this knows, so far."""
    late: dict[int, int] = field(default_factory=dict)
    """Completions that came more than a chunk after their invocation."""
    _open: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By process: number, line of the file and f of its open invocation."""
    _held: dict[int, set[int]] = field(default_factory=dict)
    _subscribed: set[int] = field(default_factory=set)
    """Processes that may poll keys that they did not name."""
    _now: int = 0

    def add(self, parsed: Parsed) -> Matched:
        """Pairs what is in this chunk, with what is still open from before."""
        start, size = self.count, parsed.process.size
        self.count += size
        self.known += int((parsed.f != OTHER_F).sum())
        opened = list(self._open.items())
        process = np.concatenate([np.array([each for each, _ in opened], np.int64), parsed.process])
        number = np.concatenate([np.array([each[0] for _, each in opened], np.int64), start + np.arange(size)])
        line = np.concatenate([np.array([each[1] for _, each in opened], np.int64), parsed.line])
        f = np.concatenate([np.array([each[2] for _, each in opened], np.int64), parsed.f])
        invoke = np.concatenate([np.ones(len(opened), np.bool_), parsed.type == INVOKE])
        order = np.argsort(process, kind="stable")
        follows = np.zeros(order.size, np.bool_)
        follows[1:] = process[order][1:] == process[order][:-1]
        open_before = np.zeros(order.size, np.bool_)
        open_before[1:] = invoke[order][:-1]
        open_before &= follows
        self._check(order, open_before, process, line, f, invoke)
        completes = np.flatnonzero(~invoke[order])
        completion = np.full(size, NONE, np.int64)
        invoked, completed = number[order[completes - 1]], number[order[completes]]
        here = invoked >= start
        completion[invoked[here] - start] = completed[here]
        self.late.update(zip(invoked[~here].tolist(), completed[~here].tolist(), strict=True))
        last = order[np.append(~follows[1:], True)] if order.size else order
        still = last[invoke[last]]
        self._open = {int(process[each]): (int(number[each]), int(line[each]), int(f[each])) for each in still.tolist()}
        time = np.maximum.accumulate(np.maximum(parsed.time, self._now)) if size else parsed.time
        self._now = int(time[-1]) if size else self._now
        return Matched(start, completion, time, self._seeks(parsed))

    def _check(self, order: Ints, open_before: Bools, process: Ints, line: Ints, f: Ints, invoke: Bools) -> None:
        twice = invoke[order] & open_before
        alone = ~invoke[order] & ~open_before
        other: Bools = np.append(False, np.diff(f[order]) != 0)[: order.size]
        other &= ~invoke[order] & open_before
        wrong = np.flatnonzero(twice | alone | other)
        if not wrong.size:
            return
        place = int(wrong[np.argmin(line[order[wrong]])])
        entry = int(order[place])
        where, who = f"{self.path}:{line[entry]}", f"process {process[entry]}"
        if alone[place]:
            raise HistoryError(f"{where}: {who} completes, but has no open operation; expected an invoke before")
        before = int(order[place - 1])
        if twice[place]:
            raise HistoryError(
                f"{where}: {who} invokes, but its operation of line {line[before]} is open; expected its completion"
            )
        raise HistoryError(
            f"{where}: {who} completes {_F_NAMES[f[entry]]}, but it invoked {_F_NAMES[f[before]]} "
            f"in line {line[before]}; expected the same :f"
        )

    def _seeks(self, parsed: Parsed) -> list[tuple[int, int]]:
        seeks: list[tuple[int, int]] = []
        done = parsed.type != INVOKE
        crashes = np.flatnonzero((parsed.f == FS["crash"]) & done).tolist()
        subscribes = np.flatnonzero((parsed.f == FS["subscribe"]) & done)
        self._subscribed.update(parsed.process[subscribes].tolist())
        polled = self._polled(parsed)
        for place in sorted({*parsed.named, *crashes, *polled}):
            if not done[place]:
                continue
            process, f = int(parsed.process[place]), int(parsed.f[place])
            if f == FS["crash"]:
                self._held.pop(process, None)
                continue
            keys, moved, beginning = parsed.named.get(place, ([], [], False))
            held = self._held.get(process, set())
            fresh = set(moved)
            if f == FS["assign"] and parsed.type[place] == 0:
                fresh |= set(keys) if beginning else set(keys) - held
                held = set(keys)
            elif f == FS["subscribe"]:
                fresh |= held | set(keys)
                held = fresh
            self._held[process] = held | fresh | set(polled.get(place, ()))
            seeks += [(place, key) for key in sorted(fresh)]
        return seeks

    def _polled(self, parsed: Parsed) -> dict[int, list[int]]:
        """By place, the keys that subscribed processes polled."""
        polled: dict[int, list[int]] = {}
        if self._subscribed:
            subscribed = np.isin(parsed.process[parsed.polled_place], np.array(sorted(self._subscribed)))
            for each in np.flatnonzero(subscribed).tolist():
                polled.setdefault(int(parsed.polled_place[each]), []).append(int(parsed.polled_key[each]))
        return polled
