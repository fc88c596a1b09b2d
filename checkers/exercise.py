"""Whether a run did enough for its silence to mean something.

A run counts when its plan's faults landed, each landed fault met at least 100 operations while it was in
force and an acknowledged send in the second before it, and enough sends were acknowledged in all.
Per promise: without a leader change no acknowledged write was at risk; without a retry no duplicate could arise.
Only recordings of runs are held to this; an imported or synthetic history carries no exercise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from checkers.metrics import Measured
from checkers.result import Fault, Finding
from histories.meta import Meta

MIN_OPERATIONS = 100


def faults_of(folder: Path) -> tuple[Fault, ...]:
    """The injected faults, from the events."""
    rows = pq.read_table(folder / "events").to_pylist()
    by_id: dict[int, dict[str, dict[str, object]]] = {}
    for row in rows:
        if row["fault_id"] is not None:
            by_id.setdefault(row["fault_id"], {}).setdefault(row["kind"], row)
    faults = []
    for fault_id, kinds in sorted(by_id.items()):
        injected = kinds.get("fault-injected")
        if injected is None:
            continue
        evidence = kinds.get("fault-evidence")
        healed = kinds.get("fault-healed")
        detail = (evidence or kinds.get("fault-not-landed") or injected)["detail"]
        faults.append(
            Fault(
                fault_id,
                str(injected["fault"] or "fault"),
                None if injected["node"] is None else str(injected["node"]),
                int(str(injected["time_ns"])),
                None if healed is None else int(str(healed["time_ns"])),
                evidence is not None,
                str(detail or ""),
            )
        )
    return tuple(faults)


def leader_changes(folder: Path) -> int | None:
    """How often a key's leader became another, by the events; None where nobody watched the leaders."""
    rows = pq.read_table(folder / "events", columns=["time_ns", "kind", "key", "leader"]).to_pylist()
    seen = [row for row in rows if row["kind"] == "leader" and row["key"] is not None]
    leaders: dict[int, int] = {}
    changes = 0
    for row in sorted(seen, key=lambda each: int(each["time_ns"])):
        if row["leader"] is not None and row["leader"] >= 0:
            changes += leaders.get(row["key"], row["leader"]) != row["leader"]
            leaders[row["key"]] = row["leader"]
    return changes if seen else None


def judge_exercise(
    meta: Meta, faults: Sequence[Fault], leaders: int | None, measured: Measured, findings: Sequence[Finding]
) -> tuple[list[str], list[str]]:
    """Why the run as a whole does not count, and which promises nothing put to the test."""
    if meta.origin != "run":
        return [], []
    lacking: list[str] = []
    quiet: list[str] = []
    acknowledged = measured.total("ok")
    if acknowledged < meta.exercise.min_acknowledged:
        lacking.append(f"{acknowledged} sends were acknowledged, and the plan wants {meta.exercise.min_acknowledged}")
    landed = [fault for fault in faults if fault.landed]
    if meta.exercise.faults and not landed:
        lacking.append("no fault landed")
    lacking += [problem for fault in landed if (problem := _idle(fault, measured))]
    if not landed:
        quiet.append("lost-write: no fault landed, so no acknowledged write was at risk")
    elif leaders == 0:
        quiet.append("lost-write: no partition changed its leader, so no acknowledged write was at risk")
    if meta.retries == 0:
        quiet.append("duplicate: no producer retried a request")
    elif meta.retries is None:
        quiet.append("duplicate: retries are not observable with these clients")
    shown = {each.anomaly for each in findings}
    named = {sentence.split(":")[0] for sentence in quiet} - shown
    lacking += [
        f"{name} is this plan's subject and was not exercised" for name in meta.exercise.subject if name in named
    ]
    return lacking, quiet


def _idle(fault: Fault, measured: Measured) -> str | None:
    start = fault.start_ns // 10**9
    end = (fault.end_ns if fault.end_ns is not None else measured.last_ns) // 10**9
    steps = sum(each.n for each in measured.steps if start <= each.second <= end)
    acknowledged = measured.by_second("ok")
    name = f"fault {fault.fault_id} ({fault.fault} {fault.node})"
    if steps < MIN_OPERATIONS:
        return f"{name} met {steps} operations while in force; {MIN_OPERATIONS} are needed"
    if not any(acknowledged.get(second) for second in (start - 1, start)):
        return f"no send was acknowledged in the second before {name}"
    return None
