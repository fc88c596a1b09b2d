"""Places for injected cases in one stretch: random, and apart from each other."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

import numpy as np

from histories.synth.stretch import Stretch
from histories.synth.timeline import OK, PRODUCERS, Ints

_APART_RECORDS = 6


class Sites:
    """Keeps account of which operations are taken, and which times of which slots."""

    def __init__(self, stretch: Stretch, rng: np.random.Generator, slots: int) -> None:
        self.stretch = stretch
        self.rng = rng
        self.slots = slots
        producing = stretch.producing
        self.start, self.end = int(producing.invoke.min()), producing.end
        self.apart = _APART_RECORDS * (self.end - self.start) * slots // max(1, producing.sends.slot.size)
        self.used = np.zeros(producing.count.size, np.bool_)
        self._taken: list[list[tuple[int, int]]] = [[] for _ in range(slots + 1)]
        for slot, turns in enumerate(stretch.turns):
            for turn in turns.tolist():
                insort(self._taken[slot], (turn - self.apart, turn + self.apart))
        ok = producing.type == OK
        self.singles = self._shuffled(ok & (producing.count == 1))
        sends = producing.sends
        second = np.minimum(producing.first + 1, sends.slot.size - 1)
        same = sends.slot[np.minimum(producing.first, sends.slot.size - 1)] == sends.slot[second]
        self.bursts = self._shuffled(ok & (producing.count >= 2) & same)
        self.by_invoke = np.argsort(producing.invoke, kind="stable")
        self.sorted_invoke = producing.invoke[self.by_invoke]
        self.rounds = producing.count.size // PRODUCERS
        self.touched: list[int] = []

    def _shuffled(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> deque[int]:
        return deque(self.rng.permutation(np.flatnonzero(mask)).tolist())

    def usable(self, op: int) -> bool:
        """An ok operation with a single send that nothing has been done to."""
        producing = self.stretch.producing
        return bool(producing.type[op] == OK and producing.count[op] == 1 and not self.used[op])

    def claim(self, slot: int, low: int, high: int) -> bool:
        """Takes a slot's time from ``low`` to ``high`` and some around it, if all of it is free."""
        low, high = low - self.apart, high + self.apart
        if low < self.start or high > self.end:
            return False
        taken = self._taken[slot]
        after = bisect_left(taken, (low, low))
        if after < len(taken) and taken[after][0] <= high:
            return False
        if after > 0 and taken[after - 1][1] >= low:
            return False
        taken.insert(after, (low, high))
        return True

    def plant(self, pool: deque[int], gadget: Callable[[int], bool]) -> bool:
        """Tries operations of the pool until the gadget takes one."""
        for _ in range(len(pool)):
            op = pool.popleft()
            if self.used[op]:
                continue
            if gadget(op):
                self.used[op] = True
                return True
            pool.append(op)
        return False


def neighbourhood(marked: Ints, size: int, around: int = 4) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """True at the marked places and near them."""
    near = np.zeros(size, np.bool_)
    for shift in range(-around, around + 1):
        places = marked + shift
        near[places[(places >= 0) & (places < size)]] = True
    return near
