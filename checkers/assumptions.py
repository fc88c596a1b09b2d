"""What every check takes for granted, verified: where it does not hold, the verdict is UNKNOWN.

Values are unique (per key from the checks' own tallies, across keys here), operations are numbered
densely in the order of invocation, times do not run backwards, and a process has one operation in flight.
The same pass over the operations counts them by outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers.exchange import Columns
from checkers.found import Result
from checkers.load import NONE
from checkers.rows import Ints
from checkers.scan import codes, numbers
from histories.schema import F, Outcome

TEXT = ("f", "type")
NUMBERS = ("op", "process", "invoke_ns", "complete_ns")


@dataclass
class Operations:
    """What the pieces of ``ops`` say, and what they say together."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """By f and type."""
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each piece: lowest and highest number of an operation, and how many different ones it has."""
    last_ns: int = 0
    backwards: int = 0

    @staticmethod
    def of(table: pa.Table) -> tuple[Operations, dict[str, Ints]]:
        """The summary of a piece, and the columns that :func:`overlapping` wants by process."""
        columns = {name: numbers(table, name) for name in NUMBERS}
        if not table.num_rows:
            return Operations(), columns
        op, began, ended = (columns[name] for name in ("op", "invoke_ns", "complete_ns"))
        code = len(Outcome) * codes(table, "f", tuple(F)).astype(np.int64) + codes(table, "type", tuple(Outcome))
        names = [(f.value, outcome.value) for f in F for outcome in Outcome]
        counts = {names[each]: n for each, n in enumerate(np.bincount(code).tolist()) if n}
        sorted_op = op if (op[1:] >= op[:-1]).all() else np.sort(op)
        different = 1 + int((sorted_op[1:] != sorted_op[:-1]).sum())
        return Operations(
            counts,
            [(int(sorted_op[0]), int(sorted_op[-1]), different)],
            max(int(ended.max()), int(began.max())),
            int(((ended != NONE) & (ended < began)).sum()),
        ), columns

    def add(self, other: Operations) -> None:
        for name, n in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + n
        self.ranges += other.ranges
        self.last_ns = max(self.last_ns, other.last_ns)
        self.backwards += other.backwards

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def outcomes(self) -> dict[str, dict[str, int]]:
        """By f, then by type, in the order of their names."""
        found: dict[str, dict[str, int]] = {}
        for (f, outcome), n in sorted(self.counts.items()):
            found.setdefault(f, {})[outcome] = n
        return found

    @property
    def dense(self) -> bool:
        """Numbered from 0 without a gap or a repetition: the pieces' ranges are full and lie end to end."""
        following = 0
        for lowest, highest, different in sorted(self.ranges):
            if lowest != following or highest - lowest + 1 != different:
                return False
            following = highest + 1
        return following == self.total


def overlapping(columns: Columns) -> int:
    """Operations, all of some processes, that began while another of their process was open."""
    order = np.lexsort((columns["op"], columns["process"]))
    process, began, ended = (columns[name][order] for name in ("process", "invoke_ns", "complete_ns"))
    same = process[1:] == process[:-1]
    return int((same & ((ended[:-1] == NONE) | (ended[:-1] > began[1:]))).sum())


def resent(value: Ints) -> tuple[int, int] | None:
    """The lowest value that is there more than once, and how often."""
    ordered = np.sort(value)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(again):
        return None
    first = int(ordered[again[0]])
    return first, int((ordered == first).sum())


def broken_assumptions(operations: Operations, result: Result) -> list[str]:
    reasons = []
    twice = result.tallies.get("#value-sent-twice", 0)
    if twice:
        reasons.append(f"{twice} values were sent more than once to one key: values must be unique")
    elif result.resent is not None:
        value, n = result.resent
        reasons.append(f"value {value} was sent {n} times: values must be unique within a run")
    if not operations.dense:
        lowest = min(each[0] for each in operations.ranges)
        highest = max(each[1] for each in operations.ranges)
        reasons.append(f"operations are not numbered densely from 0: {operations.total} rows, {lowest} to {highest}")
    if operations.backwards:
        reasons.append(f"{operations.backwards} operations complete before they were invoked")
    overlaps = result.tallies.get("#overlapping", 0)
    if overlaps:
        reasons.append(f"{overlaps} operations began while another of the same process was open")
    return reasons
