"""Who leads a partition next: one pure function for each occasion.

Each gets the replicas in the order of preference, the ISR and who is alive, and answers with a leader and an ISR, or
None when nobody may lead. The first two rules behind all of them: a leader is alive, and it is in the ISR, for only
there is everything that was acknowledged. Only :func:`offline` may break the second, and only where the topic says so.

=================== ====================================== ===========================================
occasion            leader                                 ISR afterwards
=================== ====================================== ===========================================
offline             first live replica in the ISR          its live members
offline, unclean    else the first live replica            that replica alone
reassigned          first live target replica in the ISR   unchanged
preferred           the first replica, if live and in ISR  unchanged
controlled shutdown first in the ISR that stays            without those that shut down
none                the present leader                     unchanged
=================== ====================================== ===========================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elected:
    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def offline(replicas: Sequence[int], isr: Sequence[int], live: Collection[int], unclean: bool) -> Elected | None:
    """The leader died, or the partition never had one that lives."""
    clean = _first(replicas, lambda each: each in live and each in isr)
    if clean is not None:
        return Elected(clean, tuple(each for each in isr if each in live))
    survivor = _first(replicas, lambda each: each in live) if unclean else None
    return None if survivor is None else Elected(survivor, (survivor,), unclean=True)


def reassigned(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The leader is none of the replicas that a reassignment leaves."""
    leader = _first(target, lambda each: each in live and each in isr)
    return None if leader is None else Elected(leader, tuple(isr))


def preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Leadership goes back to where the assignment wants it."""
    leader = _first(replicas[:1], lambda each: each in live and each in isr)
    return None if leader is None else Elected(leader, tuple(isr))


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], shutting_down: Collection[int]
) -> Elected | None:
    """The leader asked to be relieved. ``live`` includes those that shut down: they still serve."""
    leader = _first(replicas, lambda each: each in live and each in isr and each not in shutting_down)
    if leader is None:
        return None
    return Elected(leader, tuple(each for each in isr if each not in shutting_down))


def none(leader: int, isr: Sequence[int]) -> Elected | None:
    """No change of leader: only a new leader epoch, by which brokers learn of changed replicas."""
    return Elected(leader, tuple(isr))


def _first(candidates: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    return next((each for each in candidates if fits(each)), None)
