"""Every per-key check on the rows of one partition: what a worker does once for all keys that it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers import order, values
from checkers.doubts import Doubts
from checkers.exchange import Columns
from checkers.found import Result
from checkers.load import History
from checkers.promises import Promises
from checkers.rows import Ints, KeyTable, Rows
from checkers.steps import step_counts


@dataclass(frozen=True)
class Checker:
    """What the checks need to know besides the rows; Spark carries it to the workers."""

    promises: Promises
    keys: pa.Table
    clock_error_ns: dict[str, int]
    strays: Ints
    """Values whose key is unknown."""
    from_beginning: bool
    transactions: bool
    most: int | None
    """Examples of each anomaly; None: every case."""
    doubts: Doubts = field(default_factory=Doubts)

    @staticmethod
    def of(
        history: History, *, strays: Ints, most: int | None, transactions: bool, doubts: Doubts | None = None
    ) -> Checker:
        return Checker(
            Promises.of(history.meta, history.override),
            history.keys,
            history.meta.clock_error_ns,
            strays,
            history.meta.origin == "jepsen",
            transactions,
            most,
            doubts or Doubts(),
        )

    def check(self, columns: Columns) -> tuple[Result, Columns]:
        """What is found in these rows; and the parts of transactions, which more than one partition may hold."""
        rows = Rows.of(columns, self.promises)
        keys = KeyTable.of(self.keys)
        known = values.Values.of(rows)
        workers = range(int(rows.worker.max(initial=0)) + 1)
        clock_error_ns = np.array([self.clock_error_ns.get(str(each), 0) for each in workers], dtype=np.int64)
        readers = self.doubts.readers(rows)
        found = values.delivery(rows, known, self.promises, keys, clock_error_ns, self.from_beginning, readers)
        found.append(values.phantoms(rows, known, self.strays, self.promises.void))
        found += order.order(rows, known, self.promises, keys, self.doubts.values)
        found.append(order.realtime(rows, self.promises, keys, clock_error_ns))
        result = Result(
            [row for each in found for row in self.doubts.weighed(each).rows(self.most)],
            values.tallies(rows, known, self.promises, keys),
            step_counts(rows),
        )
        parts = values.transaction_parts(rows, known, self.promises, keys) if self.transactions else {}
        return result, self.doubts.parts(parts) if parts and self.doubts else parts
