"""Which anomalies can be injected, and what each brings with it.

Every case is placed at a random place of its own, apart from all others, so that the named anomaly holds
exactly as often as asked for. Some anomalies cannot be had alone: an acknowledged record that is gone
makes every reader of its partition skip a place. ``ENTAILS`` says which others *may* show besides.
``int-send-skip`` is normal in every history, so it holds at least as often as asked for.

One case is: for anomalies of delivery one value (phantom: one offset of one key; torn-transaction: one
transaction; inconsistent-offset: one offset); for those of order one pair of neighbours.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

_SKIPS: Final = frozenset({"int-poll-skip", "poll-skip"})
_POLLS: Final = _SKIPS | {"int-nonmonotonic-poll", "nonmonotonic-poll"}
_NOTHING: Final[frozenset[str]] = frozenset()

ENTAILS: Final[dict[str, frozenset[str]]] = {
    "lost-write": _SKIPS,
    "vanished-read": _SKIPS | {"lost-write"},
    "duplicate": _POLLS,
    "misplaced-ack": _SKIPS,
    "inconsistent-offset": _POLLS | {"misplaced-ack", "duplicate"},
    "phantom": _NOTHING,
    "aborted-read": _NOTHING,
    "early-read": _NOTHING,
    "torn-transaction": _SKIPS | {"lost-write"},
    "unseen": _NOTHING,
    "int-poll-skip": _NOTHING,
    "int-nonmonotonic-poll": _NOTHING,
    "poll-skip": _NOTHING,
    "nonmonotonic-poll": _NOTHING,
    "int-nonmonotonic-send": _NOTHING,
    "nonmonotonic-send": frozenset({"realtime-order"}),
    "realtime-order": _NOTHING,
    "int-send-skip": _NOTHING,
}
"""For each anomaly that can be injected: which others its cases may show."""

NORMAL: Final = frozenset({"int-send-skip"})
"""Shows in healthy histories too."""

OPS_PER_CASE: Final = 80


def checked(inject: Mapping[str, int] | None, ops: int) -> dict[str, int]:
    """What is to be injected, or a ValueError that says what is wrong with it."""
    wanted = dict(inject or {})
    for name, count in wanted.items():
        if name not in ENTAILS:
            near = difflib.get_close_matches(name, ENTAILS, n=3, cutoff=0.4)
            hint = f"did you mean {', '.join(near)}?" if near else f"what can: {', '.join(sorted(ENTAILS))}"
            raise ValueError(f"{name} cannot be injected into a history of a log; {hint}")
        if count < 0:
            raise ValueError(f"{name}: cannot be injected {count} times")
    total, fit = sum(wanted.values()), ops // OPS_PER_CASE
    if total > fit:
        raise too_many(total, ops, fit)
    return {name: count for name, count in wanted.items() if count}


def too_many(total: int, ops: int, fit: int) -> ValueError:
    return ValueError(f"{total} cases are too many for {ops} operations: {fit} fit")
