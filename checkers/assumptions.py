"""What every check takes for granted, verified: where it does not hold, the verdict is UNKNOWN.

Values are unique (per key from the checks' own tallies, across keys here), operations are numbered
densely in the order of invocation, times do not run backwards, and a process has one operation in flight.
The same pass over the operations counts them by outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from checkers.load import NONE, History
from checkers.rows import Ints

if TYPE_CHECKING:
    from pyspark.sql import Row

_SCHEMA = pa.schema([pa.field("name", pa.string()), pa.field("n", pa.int64())])


def operations(history: History) -> dict[str, int]:
    """Counts by ``f:type``, and of what is wrong with the operations: ``backwards``, ``overlapping``; their
    number (``ops``), and the lowest, highest and sum of their numbers."""
    spark = history.ops.sparkSession
    parts = max(spark.sparkContext.defaultParallelism, history.meta.counts.get("ops", 0) // 1_000_000)
    narrow = history.ops.selectExpr(
        "process", "op", "invoke_ns", f"COALESCE(complete_ns, {NONE}L) AS complete_ns", "f", "type"
    ).repartition(parts, "process")
    counted: dict[str, int] = {}
    for row in narrow.mapInArrow(_count_operations, "name string, n long").collect():
        if row.name == "lowest":
            counted["lowest"] = min(counted.get("lowest", row.n), row.n)
        elif row.name in ("highest", "last_ns"):
            counted[row.name] = max(counted.get(row.name, row.n), row.n)
        else:
            counted[row.name] = counted.get(row.name, 0) + row.n
    return counted


def _count_operations(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    received = [batch for batch in batches if batch.num_rows]
    if not received:
        return
    table = pa.Table.from_batches(received)
    counts: dict[str, int] = {}
    for row in table.group_by(["f", "type"]).aggregate([([], "count_all")]).to_pylist():
        counts[f"{row['f']}:{row['type']}"] = row["count_all"]
    process, op, invoke_ns, complete_ns = (
        table.column(name).to_numpy() for name in ("process", "op", "invoke_ns", "complete_ns")
    )
    counts |= _numbers(op, process, invoke_ns, complete_ns)
    yield pa.RecordBatch.from_pylist([{"name": name, "n": int(n)} for name, n in counts.items()], _SCHEMA)


def _numbers(op: Ints, process: Ints, invoke_ns: Ints, complete_ns: Ints) -> dict[str, Any]:
    order = np.lexsort((op, process))
    same = process[order][1:] == process[order][:-1]
    ended = complete_ns[order][:-1]
    overlapping = same & ((ended == NONE) | (ended > invoke_ns[order][1:]))
    return {
        "ops": len(op),
        "lowest": op.min(),
        "highest": op.max(),
        "numbers": len(np.unique(op)),
        "last_ns": max(int(complete_ns.max()), int(invoke_ns.max())),
        "backwards": ((complete_ns != NONE) & (complete_ns < invoke_ns)).sum(),
        "overlapping": overlapping.sum(),
    }


def broken_assumptions(history: History, counted: dict[str, int], tallies: dict[str, int]) -> list[str]:
    reasons = []
    twice = tallies.get("#value-sent-twice", 0)
    if twice:
        reasons.append(f"{twice} values were sent more than once to one key: values must be unique")
    else:
        again = _sent_to_two_keys(history)
        if again is not None:
            reasons.append(f"value {again.value} was sent {again.n} times: values must be unique within a run")
    total = counted.get("ops", 0)
    if total and (counted["lowest"] != 0 or counted["highest"] != total - 1 or counted["numbers"] != total):
        reasons.append(
            f"operations are not numbered densely from 0: {total} rows, {counted['lowest']} to {counted['highest']}"
        )
    if counted.get("backwards"):
        reasons.append(f"{counted['backwards']} operations complete before they were invoked")
    if counted.get("overlapping"):
        reasons.append(f"{counted['overlapping']} operations began while another of the same process was open")
    return reasons


def _sent_to_two_keys(history: History) -> Row | None:
    from pyspark.sql import functions as fn

    sends = history.mops.where("kind = 'send' AND value IS NOT NULL").select("value")
    return sends.groupBy("value").agg(fn.count("*").alias("n")).where("n > 1").first()
