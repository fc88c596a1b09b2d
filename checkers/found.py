"""Cases found in a partition: rows of one shape for every anomaly, and what else a partition reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from checkers.load import NONE
from checkers.rows import Bools, Ints


class Row(NamedTuple):
    """One case, or the first of ``n`` that are not named."""

    anomaly: str
    n: int
    fatal_n: int
    fatal: bool
    key: int | None = None
    value: int | None = None
    offset: int | None = None
    process: int | None = None
    op: int | None = None
    step: int | None = None
    """mop * 2^32 + pos."""
    other_op: int | None = None
    other_offset: int | None = None
    other_value: int | None = None


@dataclass
class Result:
    """What one partition reports, and what all of them do together."""

    cases: list[Row] = field(default_factory=list)
    tallies: dict[str, int] = field(default_factory=dict)
    """Numbers that are not anomalies, by a name with ``#`` in front; those of the partitions are added up."""
    steps: dict[int, int] = field(default_factory=dict)
    """See :mod:`checkers.steps`."""
    resent: tuple[int, int] | None = None
    """A value that was sent more than once, and how often; the lowest one."""
    resent_values: list[Ints] = field(default_factory=list)
    """All such values."""
    overlapping: list[Ints] = field(default_factory=list)
    """Processes that had two operations in flight."""
    edges: list[tuple[int, tuple[int, int, int], tuple[int, int, int]]] = field(default_factory=list)
    """Of row groups of ``mops``; see :mod:`checkers.agreement`."""

    def add(self, other: Result) -> None:
        self.cases += other.cases
        for name, n in other.tallies.items():
            self.tallies[name] = self.tallies.get(name, 0) + n
        for code, n in other.steps.items():
            self.steps[code] = self.steps.get(code, 0) + n
        self.resent_values += other.resent_values
        self.overlapping += other.overlapping
        self.edges += other.edges
        self.resent = min((each for each in (self.resent, other.resent) if each is not None), default=None)


@dataclass(frozen=True)
class Found:
    """All cases of one anomaly in one partition. Columns that a case does not have are absent."""

    anomaly: str
    fatal: Bools
    columns: dict[str, Ints]

    def rows(self, most: int | None) -> list[Row]:
        """One row per case, worst and earliest first; or at most ``most`` of them, the first of which stands for the
        others too."""
        count = len(self.fatal)
        if not count:
            return []
        chosen = np.lexsort((self.columns["op"], ~self.fatal))[:most]
        rows = [self._row(index) for index in chosen.tolist()]
        others = sum(row.fatal_n for row in rows[1:])
        rows[0] = rows[0]._replace(n=count - len(rows) + 1, fatal_n=int(self.fatal.sum()) - others)
        return rows

    def _row(self, index: int) -> Row:
        fatal = bool(self.fatal[index])
        place: dict[str, Any] = {
            name: None if column[index] == NONE else int(column[index]) for name, column in self.columns.items()
        }
        return Row(self.anomaly, 1, int(fatal), fatal, **place)
