"""Who may not convict: what each check rests on, and what is left of it where that does not hold.

A check that rests on a broken assumption still shows what it found, but holds it against nobody. What rests on
nothing broken counts as ever.

======================================  ==============================================================================
assumption                              what rests on it
======================================  ==============================================================================
the tables tell the same story          every check: where they contradict each other no row is evidence
a value is sent once                    every case about that value; that a transaction is committed because the value
                                        was read, or torn because it is missing; that it is a version others skipped
one operation of a process in flight    the order between operations of that process (poll-skip, nonmonotonic-poll,
                                        nonmonotonic-send), and what one of its positions passed over (lost-write)
nothing ends before it begins           comparisons of times: realtime-order, early-read
======================================  ==============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from checkers.found import Found
from checkers.rows import Bools, Ints, Rows

BETWEEN_OPERATIONS = ("poll-skip", "nonmonotonic-poll", "nonmonotonic-send")
BY_TIME = ("realtime-order", "early-read")


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Doubts:
    everything: bool = False
    times: bool = False
    values: Ints = field(default_factory=_none)
    """Sent more than once; sorted."""
    processes: Ints = field(default_factory=_none)
    """That had two operations in flight; sorted."""

    def __bool__(self) -> bool:
        return self.everything or self.times or bool(len(self.values)) or bool(len(self.processes))

    def weighed(self, found: Found) -> Found:
        """The same cases; those that rest on what is in doubt break no promise."""
        if not self:
            return found
        doubtful = np.full(len(found.fatal), self.everything or (self.times and found.anomaly in BY_TIME))
        for name in ("value", "other_value"):
            if name in found.columns:
                doubtful |= among(self.values, found.columns[name])
        if found.anomaly in BETWEEN_OPERATIONS:
            doubtful |= among(self.processes, found.columns["process"])
        return replace(found, fatal=found.fatal & ~doubtful)

    def parts(self, columns: dict[str, Ints]) -> dict[str, Ints]:
        """The parts of transactions that may say that one is torn."""
        sure = ~among(self.values, columns["value"])
        kept = {name: column[sure] for name, column in columns.items()}
        if self.everything:
            kept["fatal"] = np.zeros_like(kept["fatal"])
        return kept

    def readers(self, rows: Rows) -> Rows:
        """The rows of processes whose positions are certain."""
        return rows.where(~among(self.processes, rows.process))


def among(some: Ints, column: Ints) -> Bools:
    """Which entries are in ``some``, which is sorted."""
    if not len(some):
        return np.zeros(len(column), dtype=bool)
    at = np.minimum(np.searchsorted(some, column), len(some) - 1)
    return np.asarray(some[at] == column)
