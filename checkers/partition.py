"""Every per-key check on the rows of one partition: what Spark calls once for all keys that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from checkers import order, values
from checkers.found import PLACE, SCHEMA
from checkers.load import History, stray_values
from checkers.promises import Promises
from checkers.rows import Ints, KeyTable, Rows
from checkers.steps import step_counts


def checker(
    history: History, *, most: int | None, transactions: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``. ``most``: examples of each anomaly; None: every case."""
    promises = Promises.of(history.meta, history.override)
    key_table = history.keys
    errors = history.meta.clock_error_ns
    highest = max((int(worker) for worker in errors), default=-1)
    clock_error_ns = np.array([errors.get(str(n), 0) for n in range(highest + 1)], dtype=np.int64)

    strays = np.array(stray_values(history), dtype=np.int64)

    from_beginning = history.meta.origin == "jepsen"

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = [batch for batch in batches if batch.num_rows]
        if received:
            rows = Rows.of(pa.Table.from_batches(received), promises)
            received.clear()
            yield _batch(
                cases(
                    rows, promises, KeyTable.of(key_table), clock_error_ns, strays, most, transactions, from_beginning
                )
            )

    return check


def cases(
    rows: Rows,
    promises: Promises,
    keys: KeyTable,
    clock_error_ns: Ints,
    strays: Ints,
    most: int | None,
    transactions: bool,
    from_beginning: bool,
) -> list[dict[str, Any]]:
    known = values.Values.of(rows)
    if len(clock_error_ns) and len(rows):
        missing = int(rows.worker.max()) + 1 - len(clock_error_ns)
        clock_error_ns = np.pad(clock_error_ns, (0, max(0, missing)))
    found = values.delivery(rows, known, promises, keys, clock_error_ns, from_beginning)
    found.append(values.phantoms(rows, known, strays, promises.void))
    found += order.order(rows, known, promises, keys)
    found.append(order.realtime(rows, promises, keys, clock_error_ns))
    out = [row for each in found for row in each.rows(most)]
    out += values.tallies(rows, known, promises, keys)
    out += step_counts(rows)
    if transactions:
        out += values.transaction_parts(rows, known, promises, keys)
    return out


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    complete = [{**dict.fromkeys(PLACE), **row} for row in rows]
    return pa.RecordBatch.from_pylist(complete, SCHEMA)
