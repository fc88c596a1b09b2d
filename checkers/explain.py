"""The sentence and the evidence of each example, from the rows around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from checkers.load import History
from checkers.replica_logs import batches_around
from checkers.result import Example
from checkers.rows import Ints
from checkers.scan import Chunk, chunks, numbers

_EVIDENCE_ROWS = 12
_MOST_ROWS = 20_000
"""Taken from one row group; a poll of an example may have returned very many records."""
_EVIDENCE = (
    "op", "mop", "pos", "process", "kind", "f", "type", "status", "key", "offset", "value", "phase", "isolation",
    "invoke_ns", "complete_ns", "commit_ns", "defect",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The worst case of one bucket of one anomaly, and how many share the bucket."""

    anomaly: str
    count: int
    fatal_count: int
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
    broker: int | None = None
    other_broker: int | None = None


def explain(history: History, cases: Sequence[Case]) -> dict[Case, Example]:
    rows = _rows_around(history, cases)
    return {case: _example(history, case, rows) for case in cases}


def _rows_around(history: History, cases: Sequence[Case]) -> list[dict[str, Any]]:
    if not cases:
        return []
    values = sorted({v for c in cases for v in (c.value, c.other_value) if v is not None})
    ops = sorted(
        {op for c in cases if c.value is None or c.anomaly.endswith("poll") for op in (c.op,) if op is not None}
    )
    wanted = Wanted(np.array(values, dtype=np.int64), np.array(ops, dtype=np.int64))
    work = chunks(history.folder, "mops", wanted.may_be_in)
    return history.spark.parallelize(work, len(work)).flatMap(wanted).collect() if work else []


@dataclass(frozen=True)
class Wanted:
    """Steps with one of these values, or of one of these operations."""

    values: Ints
    ops: Ints

    def may_be_in(self, group: pq.RowGroupMetaData) -> bool:
        """By the least and greatest value and operation in a row group."""
        columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
        for wanted, column in ((self.values, columns["value"]), (self.ops, columns["op"])):
            known = column.statistics
            if known is None or not known.has_min_max:
                # nothing but nulls has no least value, and is none of these
                if known is None or known.null_count != group.num_rows:
                    return True
            elif ((wanted >= known.min) & (wanted <= known.max)).any():
                return True
        return False

    def __call__(self, chunk: Chunk) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path, group in chunk.groups:
            with pq.ParquetFile(path) as file:
                table = file.read_row_group(group, columns=["value", "op"], use_threads=False)
                mine = np.isin(numbers(table, "value"), self.values) | np.isin(numbers(table, "op"), self.ops)
                if mine.any():
                    whole = file.read_row_group(group, columns=list(_EVIDENCE), use_threads=False)
                    found += whole.take(np.flatnonzero(mine)[:_MOST_ROWS]).to_pylist()
        return found


def _example(history: History, case: Case, rows: list[dict[str, Any]]) -> Example:
    mine = [
        row
        for row in rows
        if row["key"] == case.key
        and (
            (row["value"] is not None and row["value"] in (case.value, case.other_value))
            or (
                row["op"] == case.op and row["offset"] is not None and row["offset"] in (case.offset, case.other_offset)
            )
        )
    ]
    mine.sort(key=lambda row: (row["invoke_ns"], row["op"], row["mop"], row["pos"]))
    sends = [row for row in mine if row["kind"] == "send"]
    reads = [row for row in mine if row["kind"] != "send"]
    evidence = (sends + reads)[:_EVIDENCE_ROWS]
    if case.broker is not None and case.other_broker is not None:
        assert case.key is not None
        assert case.offset is not None, "two replicas differ somewhere"
        brokers = (case.broker, case.other_broker)
        evidence = batches_around(history.folder, case.key, brokers, case.offset)[:_EVIDENCE_ROWS]
    sentence = SENTENCES[case.anomaly].format_map(_Facts(history, case, mine))
    return Example(
        case.fatal, sentence, tuple({k: v for k, v in row.items() if v is not None} for row in evidence),
        case.key, case.value, case.offset,
    )  # fmt: skip


class _Facts(dict[str, str]):
    """What a sentence may mention; computed when it does."""

    def __init__(self, history: History, case: Case, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self._case = case
        self._rows = rows
        keys = history.meta.keys
        place = keys[case.key] if case.key is not None and 0 <= case.key < len(keys) else None
        self["where"] = "an unknown partition" if place is None else f"{place.topic}-{place.partition}"
        for name in (
            "value",
            "offset",
            "process",
            "op",
            "other_op",
            "other_offset",
            "other_value",
            "broker",
            "other_broker",
        ):
            found = getattr(case, name)
            self[name] = "an unknown place" if found is None and "offset" in name else str(found)
        self["sent"] = self._sent()
        self["readers"] = self._readers()

    def _sent(self) -> str:
        for row in self._rows:
            if row["kind"] == "send" and row["value"] == self._case.value:
                outcome = {"ok": "acknowledged", "fail": "refused", "info": "left without a known outcome"}
                how = outcome.get(row["status"] or row["type"], "sent")
                at = "" if row["offset"] is None else f" at offset {row['offset']}"
                when = "" if row["complete_ns"] is None else f" at {row['complete_ns'] / 1e9:.3f} s of the run"
                return f"process {row['process']} sent it and it was {how}{at}{when}"
        return "nobody is known to have sent it"

    def _readers(self) -> str:
        reads = [row for row in self._rows if row["kind"] == "poll" and row["value"] == self._case.value]
        if not reads:
            return "nobody ever read it"
        first = min(reads, key=lambda row: row["complete_ns"] or row["invoke_ns"])
        when = (first["complete_ns"] or first["invoke_ns"]) / 1e9
        places = sorted({row["offset"] for row in reads if row["offset"] is not None})
        return f"process {first['process']} read it first, at {when:.3f} s; it was read at {', '.join(map(str, places[:5]))}"


SENTENCES: dict[str, str] = {
    "lost-write": "Value {value} of {where} was committed and is gone: {sent}; {readers}; the end of the log was read and it is not there.",
    "vanished-read": "Value {value} of {where} was read at offset {other_offset}, and the final scan no longer has it: it was shown before it was safe; {sent}.",
    "duplicate": "Value {value} of {where} is in the log more than once: read at offset {other_offset} and before it; {sent}; {readers}.",
    "misplaced-ack": "Value {value} of {where} was acknowledged at offset {offset}, and readers found it only at {other_offset}; {sent}.",
    "inconsistent-offset": "Offset {offset} of {where} is known to hold value {value} as well as value {other_value}; {sent}.",
    "phantom": "A record with value {value} was read from {where} at offset {offset}, and nobody sent it there intact.",
    "aborted-read": "Value {value} of {where} was read although its send certainly failed or its transaction aborted: {sent}; {readers}.",
    "early-read": "Value {value} of {where} was read under read_committed before the commit of its transaction was requested; {readers}.",
    "torn-transaction": "Transaction {op} is committed, and value {value} of {where} is missing while others of it are there.",
    "unseen": "Value {value} of {where} was committed and never read, and no final scan of its partition is complete: nobody knows whether it is lost; {sent}.",
    "int-poll-skip": "Inside one poll, process {process} went from offset {other_offset} to {offset} of {where} past records that are known to lie between.",
    "poll-skip": "Between two polls, process {process} went from offset {other_offset} to {offset} of {where} past records that are known to lie between.",
    "int-nonmonotonic-poll": "Inside one poll, process {process} got value {value} of {where}, at offset {offset}, after it already had what lies at {other_offset}; the value's first place in the log is not behind that.",
    "nonmonotonic-poll": "Process {process} got value {value} of {where}, at offset {offset}, in a later poll than what lies at {other_offset}; the value's first place in the log is not behind that.",
    "int-nonmonotonic-send": "Inside one operation, process {process} sent value {value} to {where} after another, and it got the lower offset {offset} (the other: {other_offset}).",
    "nonmonotonic-send": "Process {process} sent value {value} to {where} after another was acknowledged at {other_offset}, and it got the lower offset {offset}.",
    "realtime-order": "Value {value} was sent to {where} after offset {other_offset} had been acknowledged, and it got the lower offset {offset}.",
    "int-send-skip": "Between two sends of operation {op} to {where}, at offsets {other_offset} and {offset}, lie other records. This is normal.",
    "replica-divergence": "The logs of {where} on broker {broker} and on broker {other_broker} differ from offset {offset} on, below the high watermark of both.",
    "unavailable-after-heal": "{where} was still not served at the recovery deadline, although the cluster called itself healthy; the scan stopped at offset {offset}.",
}  # fmt: skip
