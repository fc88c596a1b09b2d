"""Cases: every anomaly of a history as rows of one shape, from one exchange by key.

``cases`` unites what the families find: ``checkers.values`` (what became of each value),
``checkers.order`` (what lies between two successive records) and ``checkers.realtime``.
A case names its place (key, value, offset), the step that shows it (process, op, mop, pos), a second
place where there is one (other_*), and whether it breaks a promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers import order, realtime, values
from checkers.load import History, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = (
    "anomaly string, fatal boolean, key int, value long, offset long, process int, op long, mop int, pos int, "
    "other_op long, other_offset long, other_value long"
)
NAMES = tuple(each.split()[0] for each in COLUMNS.split(", "))


def all_cases(history: History, *, transactions: bool) -> DataFrame:
    """Every case of every anomaly, and the tallies of the metrics (their names start with ``#``)."""
    shared = rows(history)
    settled = values.settle(shared) if transactions else shared
    log = values.log(settled)
    known = values.values(history, log)
    parts = [
        values.cases(history, known),
        values.phantoms(history),
        order.cases(history, settled, log, known),
        realtime.cases(history, settled),
        values.passed_over(history, settled, known),
    ]
    if transactions:
        parts.append(values.torn(history, known))
    united = parts[0].select(*NAMES)
    for each in parts[1:]:
        united = united.unionByName(each.select(*NAMES))
    return united
