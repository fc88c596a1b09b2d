"""What the runner tells a worker: one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from harness.plan import ClientPlan, ExercisePlan, FaultPlan, FleetPlan, Plan, TargetPlan, TopicPlan
from harness.workloads.base import Key

LOAD: Final = "load"
FINAL: Final = "final"

_PARTS: Final[dict[str, type[Any]]] = {
    "target": TargetPlan,
    "fleet": FleetPlan,
    "topic": TopicPlan,
    "clients": ClientPlan,
    "faults": FaultPlan,
    "exercise": ExercisePlan,
}


@dataclass(frozen=True)
class WorkerSpec:
    run_id: str
    worker: int
    """Its number, unique in the run; the worker of the final scans has one of its own."""
    started_ns: int
    """``time.monotonic_ns`` at the start of the run: one clock for all processes of this machine."""
    bootstrap: str
    plan: Plan
    """With the seed that was drawn."""
    keys: tuple[Key, ...]
    """Grouped by topic, in the order in which topics are written."""
    journal: str
    """Path of a file that does not exist yet."""
    mode: str = LOAD
    """``load`` or ``final``."""
    grace_s: float = 3.0
    """How long a worker that is told to stop waits for the outcomes of open operations."""
    deadline_s: float = 60.0
    """How long the final scans may take."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> WorkerSpec:
        document = json.loads(path.read_text())
        document["plan"] = plan_from(document["plan"])
        document["keys"] = tuple(Key(**each) for each in document["keys"])
        return WorkerSpec(**document)


def plan_from(document: Mapping[str, Any]) -> Plan:
    """The plan that ``asdict`` and JSON made this document of."""
    values = dict(document)
    for name, part in _PARTS.items():
        names = {each.name for each in fields(part)}
        given = values[name]
        values[name] = part(
            **{each: tuple(given[each]) if isinstance(given[each], list) else given[each] for each in names}
        )
    return Plan(**values)
