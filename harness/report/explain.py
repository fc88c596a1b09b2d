"""One value's life, from a sealed history, without Spark: Parquet filters find its few rows.

Sent by whom, when, with which outcome; read by whom, where, when; whether the final scans found it, and
whether they were complete; which faults were in force at each of these moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from checkers.exercise import faults_of
from checkers.result import Fault
from harness.report import figures
from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import Kind, Phase

MAX_READS = 40
"""Of a value that hundreds have read, the first reads tell the story."""


@dataclass(frozen=True)
class Moment:
    """One thing that happened to the value."""

    time_ns: int
    what: str
    faults: tuple[str, ...] = ()
    """In force at that time."""


@dataclass(frozen=True)
class Told:
    value: int
    run_id: str
    moments: tuple[Moment, ...]
    conclusions: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "value": self.value,
            "moments": [{"time_ns": m.time_ns, "what": m.what, "faults": list(m.faults)} for m in self.moments],
            "conclusions": list(self.conclusions),
        }


def explain(history: Path, value: int) -> Told:
    """Everything that the history knows about a value; a HistoryError if it knows nothing."""
    meta = Meta.read(history / "meta.json")
    mops = ds.dataset(history / "mops", format="parquet")
    rows = mops.to_table(filter=pc.field("value") == value).to_pylist()
    if not rows:
        raise HistoryError(f"value {value} does not occur in {history}: nobody sent it and nobody read it")
    rows.sort(key=lambda row: (row["invoke_ns"], row["op"], row["mop"], row["pos"]))
    faults = faults_of(history)
    ops = _ops(history, rows)
    sends = [row for row in rows if row["kind"] == Kind.SEND]
    polls = [row for row in rows if row["kind"] == Kind.POLL]
    moments = [moment for row in sends for moment in _sent(row, ops[row["op"]], meta, faults)]
    shown = [row for row in polls if row["phase"] != Phase.FINAL][:MAX_READS]
    scans = [row for row in polls if row["phase"] == Phase.FINAL]
    moments += [_read(row, meta, faults) for row in (*shown, *scans)]
    moments.sort(key=lambda each: each.time_ns)
    hidden = len(polls) - len(scans) - len(shown)
    return Told(value, meta.run_id, tuple(moments), tuple(_conclusions(history, meta, sends, polls, hidden)))


def _ops(history: Path, rows: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    wanted = sorted({row["op"] for row in rows if row["kind"] == Kind.SEND})
    table = ds.dataset(history / "ops", format="parquet").to_table(filter=pc.field("op").isin(wanted))
    return {row["op"]: row for row in table.to_pylist()}


def place(meta: Meta, key: int) -> str:
    """``topic/partition`` of a key, with its incarnation if the topic was made more than once."""
    if not 0 <= key < len(meta.keys):
        return "an unknown partition"
    info = meta.keys[key]
    again = f" (incarnation {info.incarnation})" if info.incarnation else ""
    return f"{info.topic}/{info.partition}{again}"


def _in_force(faults: Sequence[Fault], time_ns: int) -> tuple[str, ...]:
    return tuple(
        " ".join(filter(None, (each.fault, each.node)))
        for each in faults
        if each.landed and each.start_ns <= time_ns and (each.end_ns is None or time_ns <= each.end_ns)
    )


_ENDS = {
    "ok": "acknowledged",
    "fail": "refused: it certainly had no effect",
    "info": "ended without an answer: nobody knows whether it took effect",
}


def _sent(row: dict[str, Any], op: dict[str, Any], meta: Meta, faults: Sequence[Fault]) -> list[Moment]:
    acks = {None: "", -1: ", acks=all"}.get(op["acks"], f", acks={op['acks']}")
    who = f"process {row['process']} (worker {row['worker']}, operation {row['op']}"
    inside = f", transaction {op['txn_id']}" if op["txn_id"] else ""
    began = f"sent to {place(meta, row['key'])} by {who}{acks}{inside})"
    moments = [Moment(row["invoke_ns"], began, _in_force(faults, row["invoke_ns"]))]
    outcome = row["status"] or row["type"]
    at = "" if row["offset"] is None else f" at offset {row['offset']}"
    error = f", {op['error']}" if op["error"] and outcome != "ok" else ""
    end_ns = row["complete_ns"] if row["complete_ns"] is not None else op["complete_ns"]
    if end_ns is None:
        moments.append(Moment(row["invoke_ns"], f"the send never came back{error}"))
    else:
        moments.append(Moment(end_ns, f"{_ENDS[outcome]}{at}{error}", _in_force(faults, end_ns)))
    return moments


def _read(row: dict[str, Any], meta: Meta, faults: Sequence[Fault]) -> Moment:
    time_ns = row["complete_ns"] if row["complete_ns"] is not None else row["invoke_ns"]
    isolation = f", {row['isolation']}" if row["isolation"] else ""
    verb = "found by the final scan" if row["phase"] == Phase.FINAL else "read"
    defect = f"; the record is bad: {row['defect']}" if row["defect"] else ""
    what = (
        f"{verb} at offset {row['offset']} of {place(meta, row['key'])} "
        f"by process {row['process']} (operation {row['op']}{isolation}){defect}"
    )
    return Moment(time_ns, what, _in_force(faults, time_ns))


def _conclusions(
    history: Path, meta: Meta, sends: Sequence[dict[str, Any]], polls: Sequence[dict[str, Any]], hidden: int
) -> list[str]:
    told = []
    if not sends:
        told.append("Nobody sent it.")
    readers = {row["process"] for row in polls if row["phase"] != Phase.FINAL}
    total = sum(row["phase"] != Phase.FINAL for row in polls)
    told.append(
        f"Read {figures.plural(total, 'time')} by {figures.plural(len(readers), 'process', 'processes')}."
        if readers
        else "No consumer read it while the load ran."
    )
    if hidden:
        told.append(f"{figures.plural(hidden, 'further read')} not listed.")
    places = sorted({(row["key"], row["offset"]) for row in polls})
    if len(places) > 1:
        told.append("It lies at several places: " + ", ".join(f"{place(meta, k)} {o}" for k, o in places[:10]) + ".")
    keys = sorted({row["key"] for row in (*sends, *polls) if row["key"] >= 0})
    return told + _scans(history, meta, keys, polls)


def _scans(history: Path, meta: Meta, keys: Sequence[int], polls: Sequence[dict[str, Any]]) -> list[str]:
    table = ds.dataset(history / "coverage", format="parquet").to_table(filter=pc.field("key").isin(list(keys)))
    rows = sorted(table.to_pylist(), key=lambda row: (row["key"], row["isolation"]))
    found = {(row["key"], row["isolation"]) for row in polls if row["phase"] == Phase.FINAL}
    told = []
    for row in rows:
        scan = f"final scan of {place(meta, row['key'])}, {row['isolation']}"
        span = f"{row['log_start']} to {row['position']}"
        if (row["key"], row["isolation"]) in found:
            told.append(f"Found in the {scan}.")
        elif row["complete"]:
            told.append(f"Not in the {scan}, which is complete ({span}).")
        else:
            told.append(f"Not in the {scan}, but that scan is incomplete (reached {row['position']}).")
    if not rows:
        told.append("There is no final scan of its partition.")
    return told


def rendered(told: Told) -> str:
    """A timeline for a person."""
    lines = [f"value {told.value} in {told.run_id}", ""]
    for each in told.moments:
        lines.append(f"{figures.seconds(each.time_ns):>14}  {each.what}")
        if each.faults:
            lines.append(f"{'':14}    faults in force: {', '.join(each.faults)}")
    return "\n".join([*lines, "", *told.conclusions]) + "\n"
