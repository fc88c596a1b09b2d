"""What every check takes for granted, verified: where it does not hold, the verdict is UNKNOWN.

Values are unique (per key from the checks' own tallies, across keys here), operations are numbered
densely, times do not run backwards, a process has one operation in flight, and ``mops`` says what ``ops`` says
(:mod:`checkers.agreement`). Which checks rest on which of these is in :mod:`checkers.doubts`.
The same pass over the operations counts them by outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers.agreement import BACKWARDS, SENTENCES, unordered
from checkers.doubts import Doubts
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


def overlapping(columns: Columns) -> Result:
    """Operations, all of some processes, that began while another of their process was open."""
    order = np.lexsort((columns["op"], columns["process"]))
    process, began, ended = (columns[name][order] for name in ("process", "invoke_ns", "complete_ns"))
    same = process[1:] == process[:-1]
    overlaps = same & ((ended[:-1] == NONE) | (ended[:-1] > began[1:]))
    who = np.unique(process[1:][overlaps])
    return Result(tallies={"#overlapping": int(overlaps.sum())}, overlapping=[who] if len(who) else [])


def resent(value: Ints) -> Result:
    """The values that are there more than once."""
    ordered = np.sort(value)
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(again):
        return Result()
    return Result(resent=(int(again[0]), int((ordered == again[0]).sum())), resent_values=[again])


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
    backwards = result.tallies.get(BACKWARDS, 0)
    if operations.backwards:
        reasons.append(f"{operations.backwards} operations complete before they were invoked")
    elif backwards:
        reasons.append(f"{backwards} steps complete before they were invoked")
    overlaps = result.tallies.get("#overlapping", 0)
    if overlaps:
        reasons.append(f"{overlaps} operations began while another of the same process was open")
    return reasons + _contradictions(result)


def _contradictions(result: Result) -> list[str]:
    found = {**result.tallies, "#twice": result.tallies.get("#twice", 0) + unordered(result.edges)}
    return [
        f"ops and mops contradict each other: {said.format(n=found[name])}"
        for name, said in SENTENCES.items()
        if found.get(name)
    ]


def doubts_of(operations: Operations, result: Result) -> Doubts:
    """What does not hold, for the checks that rest on it."""
    return Doubts(
        everything=not operations.dense or bool(_contradictions(result)),
        times=bool(operations.backwards or result.tallies.get(BACKWARDS)),
        values=_all(result.resent_values),
        processes=_all(result.overlapping),
    )


def _all(pieces: list[Ints]) -> Ints:
    return np.unique(np.concatenate(pieces)) if pieces else np.zeros(0, dtype=np.int64)
