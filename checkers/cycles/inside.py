"""All windows of one partition at once: components first, then the search in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checkers.cycles.components import strong_components, with_real_time
from checkers.cycles.edges import OK, Columns, Edge, Ints
from checkers.cycles.search import KINDS, Cycle, Step, Txn, search, time_limit
from checkers.load import NONE

LIMIT_S = 20.0
"""For the search in one component. Elle gives a component one second; ours are few."""

NODE = ("op", "window", "process", "type", "invoke_at", "complete_at")


@dataclass
class CyclesReport:
    counts: dict[str, int] = field(default_factory=dict)
    cycles: list[Cycle] = field(default_factory=list)
    timed_out: list[int] = field(default_factory=list)
    """Sizes of the components whose search hit its limit."""
    unnamed: list[tuple[int, int]] = field(default_factory=list)
    """Components in which a cycle exists and none could be named in time: least transaction, size."""

    def add(self, other: CyclesReport) -> None:
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.cycles += other.cycles
        self.timed_out += other.timed_out
        self.unnamed += other.unnamed


def search_windows(
    nodes: Columns, edges: Columns, most: int | None, limit: Callable[[], Callable[[], bool]] | None = None
) -> CyclesReport:
    """``nodes`` in windows, and the data edges between nodes of one window. Keeps ``most`` cycles of each kind."""
    report = CyclesReport()
    order = np.argsort(nodes["op"], kind="stable")
    nodes = {name: column[order] for name, column in nodes.items()}
    op = nodes["op"]
    src, dst = np.searchsorted(op, edges["src"]), np.searchsorted(op, edges["dst"])
    done = np.where(nodes["type"] == OK, nodes["complete_at"], NONE)
    component = strong_components(*with_real_time(nodes["window"], nodes["invoke_at"], done, src, dst))[: op.size]
    inside = np.flatnonzero((component[src] >= 0) & (component[src] == component[dst]))
    members = np.flatnonzero(component >= 0)
    by_component = members[np.argsort(component[members], kind="stable")]
    edge_order = inside[np.argsort(component[src[inside]], kind="stable")]
    numbers = np.unique(component[members])
    node_ends = np.searchsorted(component[by_component], numbers, side="right")
    edge_ends = np.searchsorted(component[src[edge_order]], numbers, side="right")
    node_start = edge_start = 0
    for node_end, edge_end in zip(node_ends.tolist(), edge_ends.tolist(), strict=True):
        txns = [
            Txn(
                int(op[n]),
                int(nodes["process"][n]),
                int(nodes["invoke_at"][n]),
                None if done[n] == NONE else int(done[n]),
            )
            for n in by_component[node_start:node_end].tolist()
        ]
        steps = _steps(edges, edge_order[edge_start:edge_end])
        _one(report, txns, steps, most, (limit or _limit)())
        node_start, edge_start = node_end, edge_end
    return report


def _limit() -> Callable[[], bool]:
    return time_limit(LIMIT_S)


def _steps(edges: Columns, rows: Ints) -> list[Step]:
    columns = [edges[name][rows].tolist() for name in ("src", "dst", "kind", "key", "value", "other")]
    return [
        Step(src, dst, Edge(kind), key, None if value == NONE else value, other)
        for src, dst, kind, key, value, other in zip(*columns, strict=True)
    ]


def _one(
    report: CyclesReport, txns: list[Txn], steps: list[Step], most: int | None, deadline: Callable[[], bool]
) -> None:
    found = search(txns, steps, deadline)
    for cycle in found.cycles:
        report.counts[cycle.kind] = report.counts.get(cycle.kind, 0) + 1
        if most is None or report.counts[cycle.kind] <= most:
            report.cycles.append(cycle)
    assert found.cycles or found.timed_out, "a component has a cycle, and every cycle is of one of the kinds"
    assert all(cycle.kind in KINDS for cycle in found.cycles)
    if found.timed_out:
        report.timed_out.append(len(txns))
        if not found.cycles:
            report.unnamed.append((min(txn.op for txn in txns), len(txns)))
