"""Cases: every anomaly of a history as rows of one shape, from one exchange by key.

``cases`` unites what the families find: ``checkers.values`` (what became of each value),
``checkers.order`` (what lies between two successive records) and ``checkers.realtime``.
A case names its place (key, value, offset), the step that shows it (process, op, mop, pos), a second
place where there is one (other_*), and whether it breaks a promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from checkers import order, realtime, values
from checkers.load import History, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (
    "anomaly string, fatal boolean, key int, value long, offset long, process int, op long, mop int, pos int, "
    "other_op long, other_offset long, other_value long"
)
NAMES = tuple(each.split()[0] for each in COLUMNS.split(", "))


@dataclass(frozen=True)
class Cases:
    """The frames that the checks share; the kept ones are let go by ``close``."""

    history: History
    rows: DataFrame
    settled: DataFrame
    log: DataFrame
    known: DataFrame
    transactions: bool

    @staticmethod
    def of(history: History, *, transactions: bool) -> Cases:
        shared = rows(history)
        settled = values.settle(shared) if transactions else shared
        log = values.log(settled).persist(StorageLevel.MEMORY_AND_DISK)
        return Cases(history, shared, settled, log, values.values(history, log), transactions)

    def all(self) -> DataFrame:
        """Every case of every anomaly but ``passed_over``, and the tallies (their names start with ``#``)."""
        parts = [
            values.cases(self.history, self.known),
            values.phantoms(self.history),
            order.cases(self.history, self.settled, self.log, self.known),
            realtime.cases(self.history, self.settled),
        ]
        if self.transactions:
            parts.append(values.torn(self.history, self.known))
        united = parts[0].select(*NAMES)
        for each in parts[1:]:
            united = united.unionByName(each.select(*NAMES))
        return united

    def passed_over(self) -> DataFrame:
        """Worth a job of its own only where a tally says that something committed was never read."""
        return values.passed_over(self.history, self.settled, self.known).select(*NAMES)

    def close(self) -> None:
        for frame in (self.known, self.log, self.rows):
            frame.unpersist()
