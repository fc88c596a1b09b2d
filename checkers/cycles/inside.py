"""All windows of one partition at once: components first, then the search in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checkers.cycles.components import strong_components, with_real_time
from checkers.cycles.edges import OK, Columns, Edge, Ints
from checkers.cycles.search import KINDS, Cycle, Searched, Step, Txn, implying, search, time_limit
from checkers.load import NONE

LIMIT_S = 20.0
"""For the search in one component. Elle gives a component one second; ours are few."""

MOST_EDGES = 300_000
"""A component with more data edges is not searched: of it are named only the cycles of :func:`short_cycles`."""

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
        mine = edge_order[edge_start:edge_end]
        short = short_cycles(nodes, done, edges, src, dst, mine)
        if mine.size > MOST_EDGES:
            found = Searched(len(txns), timed_out=True)
        else:
            found = search(txns, _steps(edges, mine), (limit or _limit)())
        _add(report, found, short, min(txn.op for txn in txns), most)
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


def short_cycles(nodes: Columns, done: Ints, edges: Columns, src: Ints, dst: Ints, rows: Ints) -> list[Cycle]:
    """Of each kind the first cycle of one data edge and one order, read off without a search. A stale read long after
    the write that it missed makes one component of all that lies between, and is such a cycle."""
    back = rows[(done[dst[rows]] != NONE) & (done[dst[rows]] < nodes["invoke_at"][src[rows]])]
    same = nodes["process"][src[back]] == nodes["process"][dst[back]]
    found = []
    for edge, base in ((Edge.WW, "G0"), (Edge.WR, "G1c"), (Edge.RW, "G-single-item")):
        for order, suffix, mine in ((Edge.PROCESS, "-process", same), (Edge.REALTIME, "-realtime", ~same)):
            those = back[mine & (edges["kind"][back] == edge)]
            if those.size:
                step = _steps(edges, those[:1])[0]
                found.append(Cycle(base + suffix, (step, Step(step.dst, step.src, order))))
                break
    return found


def _add(report: CyclesReport, found: Searched, short: list[Cycle], least: int, most: int | None) -> None:
    assert found.cycles or found.timed_out, "a component has a cycle, and every cycle is of one of the kinds"
    assert all(cycle.kind in KINDS for cycle in found.cycles)
    # The search knows real-time order in its reduced form, in which a long time is many steps.
    by_kind = {cycle.kind: cycle for cycle in short}
    cycles = [min(each, by_kind.get(each.kind, each), key=lambda cycle: len(cycle.steps)) for each in found.cycles]
    if found.timed_out:
        named = {cycle.kind for cycle in cycles}
        cycles += [each for each in short if not named & set(implying(each.kind))]
        report.timed_out.append(found.size)
        if not cycles:
            report.unnamed.append((least, found.size))
    for cycle in cycles:
        report.counts[cycle.kind] = report.counts.get(cycle.kind, 0) + 1
        if most is None or report.counts[cycle.kind] <= most:
            report.cycles.append(cycle)
