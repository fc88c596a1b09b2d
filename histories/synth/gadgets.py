"""The smallest groups of transactions that have an anomaly, on keys of their own: what ``synth append`` and ``synth register`` plant.

Keys are letters; a read is a letter and the whole list that it returns (of registers the last of it counts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from histories.schema import Workload

Step = tuple[str, str, "int | tuple[int, ...]"]


@dataclass(frozen=True)
class Planted:
    steps: tuple[Step, ...]
    process: int
    failed: bool = False


@dataclass(frozen=True)
class Gadget:
    txns: tuple[Planted, ...]
    order: tuple[int, ...] = ()
    """Of invocations and completions: a transaction's number comes twice. Empty: all invoked, then all completed."""
    only: Workload | None = None
    entails: frozenset[str] = frozenset()

    @property
    def events(self) -> tuple[int, ...]:
        return self.order or tuple(range(len(self.txns))) * 2


def _w(key: str, value: int) -> Step:
    return ("w", key, value)


def _r(key: str, *values: int) -> Step:
    return ("r", key, values)


def _of(
    *txns: tuple[Step, ...],
    order: tuple[int, ...] = (),
    only: Workload | None = None,
    entails: tuple[str, ...] = (),
    same: tuple[int, int] | None = None,
    failed: int | None = None,
) -> Gadget:
    """``same``: two transactions of one process; ``failed``: one that failed."""
    processes = [same[0] if same and number == same[1] else number for number in range(len(txns))]
    planted = tuple(Planted(steps, processes[n], n == failed) for n, steps in enumerate(txns))
    return Gadget(planted, order, only, frozenset(entails))


_LISTS, _REGISTERS = Workload.APPEND, Workload.REGISTER


def _ordered() -> dict[str, Gadget]:
    """Cycles that need an order: of a process, when two transactions have the same; else of real time."""
    made: dict[str, Gadget] = {}
    for suffix, same in (("-process", True), ("-realtime", False)):
        first, last = ((0, 1), (1, 2)) if same else (None, None)
        made["G0" + suffix] = _of(
            (_w("x", 2),), (_w("x", 1),), (_r("x", 1, 2),), order=(2, 0, 0, 1, 1, 2), same=first, only=_LISTS
        )
        made["G1c" + suffix] = _of((_r("x", 1),), (_w("x", 1),), order=(0, 0, 1, 1), same=first)
        made["G-single-item" + suffix] = _of((_w("x", 1),), (_r("x"),), order=(0, 0, 1, 1), same=first)
        made["G-nonadjacent-item" + suffix] = _of(
            (_r("a"), _r("d", 1)), (_w("a", 1),), (_r("c"),), (_w("c", 1), _w("d", 1)),
            order=(0, 3, 1, 1, 2, 2, 3, 0), same=last,
        )  # fmt: skip
        made["G2-item" + suffix] = _of(
            (_w("y", 1),), (_r("x"),), (_w("x", 1), _r("y")), order=(2, 0, 0, 1, 1, 2), same=first
        )
    return made


GADGETS: Final[Mapping[str, Gadget]] = {
    "internal": _of((_w("x", 1), _r("x"))),
    "future-read": _of((_r("x", 1), _w("x", 1))),
    "G1a": _of((_w("x", 1),), (_r("x", 1),), failed=0),
    "G1b": _of((_w("x", 1), _w("x", 2)), (_r("x", 1),), entails=("G-single-item",)),
    "dirty-update": _of((_w("x", 1),), (_w("x", 2),), (_r("x", 1, 2),), failed=0, only=_LISTS, entails=("G1a",)),
    "incompatible-order": _of((_w("x", 1),), (_w("x", 2),), (_r("x", 1, 2),), (_r("x", 2),), only=_LISTS),
    "duplicate-elements": _of((_w("x", 1),), (_r("x", 1, 1),), only=_LISTS),
    "cyclic-versions": _of(
        (_r("x", 1), _w("x", 2)), (_r("x", 2), _w("x", 1)), only=_REGISTERS, entails=("G1c",)
    ),
    "lost-update": _of((_r("x"), _w("x", 1)), (_r("x"), _w("x", 2)), entails=("G2-item",)),
    "phantom": _of((_r("x", 7),)),
    "G0": _of((_w("x", 1), _w("y", 2)), (_w("x", 2), _w("y", 1)), (_r("x", 1, 2), _r("y", 1, 2)), only=_LISTS),
    "G1c": _of((_w("x", 1), _r("y", 1)), (_w("y", 1), _r("x", 1))),
    "G-single-item": _of((_r("x"), _r("y", 1)), (_w("x", 1), _w("y", 1))),
    "G-nonadjacent-item": _of(
        (_r("a"), _r("d", 1)), (_w("a", 1), _w("b", 1)), (_r("b", 1), _r("c")), (_w("c", 1), _w("d", 1))
    ),
    "G2-item": _of((_r("x"), _w("y", 1)), (_r("y"), _w("x", 1))),
    **_ordered(),
}  # fmt: skip
