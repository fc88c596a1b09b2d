"""From what was found in a history of transactions to a judgement, with evidence and sentences.

What is expected is strict serializability, as Elle expects it by default: it forbids all that is looked for here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.cycles.edges import Edge, ItemCase
from checkers.cycles.models import ruled_out
from checkers.cycles.pipeline import Found, checked
from checkers.cycles.search import Cycle, Step
from checkers.names import ANOMALIES
from checkers.result import Example, Finding, Judgement, Verdict
from checkers.scan import chunks, numbers
from histories.meta import Meta
from histories.schema import Workload

if TYPE_CHECKING:
    from pyspark import SparkContext

_MOST_SHOWN = 12
"""Elements of a list that was read; the last ones are those that matter."""
_MOST_TRANSACTIONS = 12
"""Evidence rows of one example."""

Transactions = dict[int, dict[str, Any]]


def judge_transactions(
    spark: SparkContext, folder: Path, meta: Meta, only: frozenset[str] | None, most: int
) -> Judgement:
    found = checked(spark, folder, meta, most)
    lists = meta.workload == Workload.APPEND
    cases = [each for each in found.items.cases if only is None or each.anomaly in only]
    cases = [each for name in {case.anomaly for case in cases} for each in _worst(cases, name, most)]
    cycles = [each for each in found.cycles.cycles if only is None or each.kind in only]
    cycles = [each for name in {cycle.kind for cycle in cycles} for each in _shortest(cycles, name, most)]
    ops = {op for case in cases for op in (case.op, case.other_op) if op is not None}
    ops |= {step.src for cycle in cycles for step in cycle.steps[:_MOST_TRANSACTIONS]}
    txns = _transactions(folder, sorted(ops), lists)
    examples: dict[str, list[Example]] = {}
    for case in sorted(cases, key=lambda each: (each.op, each.key)):
        examples.setdefault(case.anomaly, []).append(_item_example(case, txns))
    for cycle in cycles:
        examples.setdefault(cycle.kind, []).append(_cycle_example(cycle, txns, lists))
    counts = {**found.items.counts, **found.cycles.counts}
    names = sorted(examples, key=ANOMALIES.index)
    findings = tuple(Finding(name, counts[name], counts[name], tuple(examples[name])) for name in names)
    reasons = _reasons(found)
    violated = bool(findings) or bool(found.cycles.unnamed)
    verdict = Verdict.INVALID if violated else Verdict.UNKNOWN if reasons else Verdict.VALID
    metrics = {"operations": sum(found.outcomes.values()), **{f"{k}-operations": n for k, n in found.outcomes.items()}}
    return Judgement(
        "", verdict, findings, tuple(reasons), metrics, models=ruled_out(each.anomaly for each in findings)
    )


def _worst(cases: list[ItemCase], name: str, most: int) -> list[ItemCase]:
    return sorted((each for each in cases if each.anomaly == name), key=lambda each: (each.op, each.key))[:most]


def _shortest(cycles: list[Cycle], name: str, most: int) -> list[Cycle]:
    mine = (each for each in cycles if each.kind == name)
    return sorted(mine, key=lambda each: (len(each.steps), min(step.src for step in each.steps)))[:most]


def _reasons(found: Found) -> list[str]:
    reasons = []
    if not sum(found.outcomes.values()):
        reasons.append("there is no transaction in it")
    elif not found.outcomes["ok"]:
        reasons.append("no transaction succeeded")
    if found.rewritten:
        reasons.append(
            f"{found.rewritten} values were written twice to one key, and each must be unique there; such keys are not judged"
        )
    for op, size in found.cycles.unnamed:
        reasons.append(
            f"a cycle exists among {size} transactions, T{op} one of them, and the search for it ran out of time"
        )
    named = len(found.cycles.timed_out) - len(found.cycles.unnamed)
    if named:
        reasons.append(f"in {named} groups of transactions with cycles the search for further kinds ran out of time")
    return reasons


def _transactions(folder: Path, ops: list[int], lists: bool) -> Transactions:
    """The transactions themselves, as a person would write them."""
    txns: Transactions = {}
    for row in _rows(folder, "txns", ops):
        keep = ("op", "process", "type", "invoke_ns", "complete_ns", "error")
        txns[row["op"]] = {**{name: row[name] for name in keep if row[name] is not None}, "did": []}
    steps: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in _rows(folder, "elements", ops):
        steps.setdefault((row["op"], row["mop"]), []).append(row)
    for (op, _), rows in sorted(steps.items()):
        txns[op]["did"].append(_step_text(rows, lists))
    for txn in txns.values():
        txn["did"] = " ".join(txn["did"])
    return txns


def _step_text(rows: list[dict[str, Any]], lists: bool) -> str:
    first = rows[0]
    if first["kind"] == "write":
        return f"[:{'append' if lists else 'w'} {first['key']} {first['value']}]"
    values = [str(row["value"]) for row in rows if row["value"] is not None]
    if not values:
        return f"[:r {first['key']} nil]"
    if not lists:
        return f"[:r {first['key']} {values[0]}]"
    before = "… " if len(values) > _MOST_SHOWN else ""
    return f"[:r {first['key']} [{before}{' '.join(values[-_MOST_SHOWN:])}]]"


def _rows(folder: Path, table: str, ops: list[int]) -> Iterable[dict[str, Any]]:
    if not ops:
        return
    wanted = np.array(ops, np.int64)
    for chunk in chunks(folder, table, lambda group: _may_be_in(group, wanted)):
        for path, group in chunk.groups:
            with pq.ParquetFile(path) as file:
                mine = np.isin(numbers(file.read_row_group(group, columns=["op"]), "op"), wanted)
                if mine.any():
                    yield from file.read_row_group(group).filter(pa.array(mine)).to_pylist()


def _may_be_in(group: pq.RowGroupMetaData, ops: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    known = group.column(0).statistics
    assert group.column(0).path_in_schema == "op"
    return known is None or not known.has_min_max or bool(((ops >= known.min) & (ops <= known.max)).any())


SENTENCES: dict[str, str] = {
    "internal": "T{op} contradicts itself: its read of key {key} is not what it read or wrote there before.",
    "future-read": "T{op} read {value} of key {key} before it wrote it itself.",
    "G1a": "T{op} read {value} of key {key}, which T{other} wrote, and T{other} failed.",
    "G1b": "T{op} read key {key} as T{other} had it in between: after {value}, T{other} wrote the key again.",
    "dirty-update": "T{op} wrote {value} to key {key} on top of what T{other} wrote, and T{other} failed.",
    "lost-update": "T{op} and T{other} read the same version of key {key}, and both wrote the key: one update is lost.",
    "incompatible-order": "T{op} and T{other} read key {key} in orders that no one list can have.",
    "duplicate-elements": "T{op} read {value} more than once in key {key}.",
    "cyclic-versions": "The versions of key {key} follow each other in a circle, {value} among them.",
    "phantom": "T{op} read {value} of key {key}, and nobody wrote that.",
}


def _item_example(case: ItemCase, txns: Transactions) -> Example:
    sentence = SENTENCES[case.anomaly].format(
        op=case.op, other=case.other_op, key=case.key, value="nothing" if case.value is None else case.value
    )
    evidence = tuple(txns[op] for op in (case.op, case.other_op) if op in txns)
    return Example(True, sentence, evidence, case.key, case.value)


def reason(step: Step, lists: bool) -> str:
    """Why the edge is there, for a person."""
    a, b = f"T{step.src}", f"T{step.dst}"
    if step.kind is Edge.PROCESS:
        return f"the process of {a} did {b} after it"
    if step.kind is Edge.REALTIME:
        return f"{a} completed before {b} was invoked"
    if step.kind is Edge.WW:
        did, to = ("appended", "to") if lists else ("wrote", "to")
        return f"{b} {did} {step.other} {to} key {step.key} after {a} {did} {step.value}"
    if step.kind is Edge.WR:
        return f"{b} read {step.value} of key {step.key}, which {a} wrote"
    if step.value is None:
        return f"{a} read key {step.key} before anything was in it, and {b} wrote {step.other}"
    return f"{a} read key {step.key} up to {step.value}, without the {step.other} that {b} wrote"


def _cycle_example(cycle: Cycle, txns: Transactions, lists: bool) -> Example:
    shown = cycle.steps[:_MOST_TRANSACTIONS]
    more = len(cycle.steps) - len(shown)
    path = " < ".join(f"T{step.src}" for step in cycle.steps[:6])
    path += " < …" if len(cycle.steps) > 6 else ""
    because = "; ".join(reason(step, lists) for step in shown) + (f"; and {more} steps more" if more else "")
    sentence = f"{path} < T{cycle.steps[0].src}, a contradiction: {because}."
    arrows = tuple(
        {"from": step.src, "to": step.dst, "kind": step.kind.name.lower(), "reason": reason(step, lists)}
        for step in shown
    )
    evidence = tuple(txns[step.src] for step in shown)
    return Example(True, sentence, evidence, cycle.steps[0].key, cycle.steps[0].value, cycle=arrows)
