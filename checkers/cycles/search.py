"""Kinds of cycles in one component, and the shortest cycle of each.

A kind is defined by the classes of edges on a closed path. D is ww and wr; the variant -process adds process order to it,
-realtime both orders.

===================  =====================================================================
G0                   ww only
G1c                  D, with a wr
G-single-item        D, and exactly one rw
G-nonadjacent-item   D, and two or more rw of which no two follow each other
G2-item              D, and two or more rw
===================  =====================================================================

They are looked for in this order, first without, then with process order, then with real-time order. What a kind already found
in the component implies (a G0 is a G0-process, a G-single-item is a G2-item) is not reported beside it.

Whether a kind is there is told by components and reachability; the shortest cycle, by a breadth-first search from each edge
that the kind needs. For G-nonadjacent-item the search runs on pairs of a node and whether the last edge was an rw.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import networkx as nx

from checkers.cycles.edges import Edge

BASES = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
VARIANTS = ("", "-process", "-realtime")
KINDS = tuple(base + variant for variant in VARIANTS for base in BASES)
_STRONGER = {
    "G0": (),
    "G1c": ("G0",),
    "G-single-item": (),
    "G-nonadjacent-item": ("G-single-item",),
    "G2-item": ("G-single-item", "G-nonadjacent-item"),
}
"""By which other kinds a kind is implied, beside its own of the variants before."""


def implying(kind: str) -> list[str]:
    """The kind itself, and those beside which it is not reported."""
    base = next(each for each in BASES if kind.removesuffix("-process").removesuffix("-realtime") == each)
    wider = VARIANTS[: VARIANTS.index(kind.removeprefix(base)) + 1]
    return [each + variant for each in (base, *_STRONGER[base]) for variant in wider]


@dataclass(frozen=True)
class Txn:
    """One transaction of a component."""

    op: int
    process: int
    invoke_at: int
    complete_at: int | None
    """None: nothing follows it in process or real-time order."""


@dataclass(frozen=True)
class Step:
    """One edge; ``key``, ``value`` and ``other`` are of data edges."""

    src: int
    dst: int
    kind: Edge
    key: int | None = None
    value: int | None = None
    other: int | None = None


@dataclass(frozen=True)
class Cycle:
    kind: str
    steps: tuple[Step, ...]


@dataclass
class Searched:
    size: int
    cycles: list[Cycle] = field(default_factory=list)
    timed_out: bool = False


Adjacency = dict[int, dict[int, Step]]


class _TimeIsUp(Exception):
    pass


def search(txns: Sequence[Txn], data: Iterable[Step], deadline: Callable[[], bool] = lambda: False) -> Searched:
    """All kinds in one component. When ``deadline`` says so the search ends, with what was found so far."""
    result = Searched(len(txns))
    by_kind: dict[Edge, Adjacency] = {kind: {} for kind in Edge}
    for step in data:
        by_kind[step.kind].setdefault(step.src, {}).setdefault(step.dst, step)
    try:
        for variant in VARIANTS:
            orders: tuple[Edge, ...] = ()
            if variant == "-process":
                orders = (Edge.PROCESS,)
                _add_process_order(txns, by_kind[Edge.PROCESS])
            elif variant == "-realtime":
                orders = (Edge.PROCESS, Edge.REALTIME)
                _add_real_time(txns, by_kind[Edge.REALTIME], deadline)
            _variant(variant, by_kind, orders, result, deadline)
    except _TimeIsUp:
        result.timed_out = True
    return result


def _variant(
    variant: str,
    by_kind: dict[Edge, Adjacency],
    orders: tuple[Edge, ...],
    result: Searched,
    deadline: Callable[[], bool],
) -> None:
    found = {each.kind for each in result.cycles}
    for base in BASES:
        if found & set(implying(base + variant)):
            continue
        find = _Finder(by_kind, deadline)
        if base == "G0":
            steps = find.through(Edge.WW, (Edge.WW, *orders))
        elif base == "G1c":
            steps = find.through(Edge.WR, (Edge.WW, Edge.WR, *orders))
        elif base == "G-single-item":
            steps = find.one_rw((Edge.WW, Edge.WR, *orders))
        elif base == "G-nonadjacent-item":
            steps = find.nonadjacent((Edge.WW, Edge.WR, *orders))
        else:
            steps = find.through(Edge.RW, (Edge.WW, Edge.WR, Edge.RW, *orders))
        if steps is not None:
            found.add(base + variant)
            result.cycles.append(Cycle(base + variant, straightened(steps)))


def straightened(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Orders are transitive: steps of them in a row are one."""
    straight: list[Step] = []
    for step in steps:
        if straight and min(straight[-1].kind, step.kind) >= Edge.PROCESS:
            before = straight.pop()
            step = Step(before.src, step.dst, max(before.kind, step.kind))
        straight.append(step)
    return tuple(straight)


class _Finder:
    def __init__(self, by_kind: dict[Edge, Adjacency], deadline: Callable[[], bool]) -> None:
        self._by_kind = by_kind
        self._deadline = deadline

    def _union(self, kinds: tuple[Edge, ...]) -> Adjacency:
        """Of edges between the same two, the first kind counts."""
        union: Adjacency = {}
        for kind in kinds:
            for src, targets in self._by_kind[kind].items():
                mine = union.setdefault(src, {})
                for dst, step in targets.items():
                    mine.setdefault(dst, step)
        return union

    def through(self, needed: Edge, kinds: tuple[Edge, ...]) -> tuple[Step, ...] | None:
        """The shortest cycle of these kinds with an edge of the needed one."""
        union = self._union(kinds)
        component = _components(union)
        inside = {
            src: {dst: step for dst, step in targets.items() if component.get(dst) == component.get(src)}
            for src, targets in union.items()
            if src in component
        }
        starts = [
            step
            for src, targets in self._by_kind[needed].items()
            for dst, step in targets.items()
            if src in component and component[src] == component.get(dst)
        ]
        return self._shortest(starts, inside)

    def one_rw(self, kinds: tuple[Edge, ...]) -> tuple[Step, ...] | None:
        starts = [step for targets in self._by_kind[Edge.RW].values() for step in targets.values()]
        return self._shortest(starts, self._union(kinds))

    def nonadjacent(self, kinds: tuple[Edge, ...]) -> tuple[Step, ...] | None:
        """On nodes 2n (the last edge was of these kinds) and 2n + 1 (it was an rw)."""
        doubled: Adjacency = {}
        for src, targets in self._union(kinds).items():
            for last in (0, 1):
                doubled[2 * src + last] = {2 * dst: step for dst, step in targets.items()}
        starts = []
        for src, targets in self._by_kind[Edge.RW].items():
            for dst, step in targets.items():
                doubled.setdefault(2 * src, {})[2 * dst + 1] = step
                starts.append(step)
        return self._shortest(starts, doubled, lambda step: (2 * step.dst + 1, 2 * step.src))

    def _shortest(
        self,
        starts: Iterable[Step],
        graph: Adjacency,
        ends: Callable[[Step], tuple[int, int]] = lambda step: (step.dst, step.src),
    ) -> tuple[Step, ...] | None:
        best: tuple[Step, ...] | None = None
        for step in starts:
            path = self._path(graph, *ends(step), len(best) - 2 if best else None)
            if path is not None:
                best = (step, *path)
                if len(best) == 2:
                    break
        return best

    def _path(self, graph: Adjacency, start: int, goal: int, most: int | None) -> list[Step] | None:
        """Of at most ``most`` edges, if that is given."""
        came: dict[int, tuple[int, Step]] = {}
        level, length = [start], 0
        while level and (most is None or length < most):
            if self._deadline():
                raise _TimeIsUp
            length += 1
            following = []
            for node in level:
                for target, step in graph.get(node, {}).items():
                    if target not in came and target != start:
                        came[target] = (node, step)
                        following.append(target)
            if goal in came:
                path = []
                while goal != start:
                    goal, step = came[goal]
                    path.append(step)
                return path[::-1]
            level = following
        return None


def _components(adjacency: Adjacency) -> dict[int, int]:
    """The component of each node that is on a cycle."""
    graph = nx.DiGraph()
    graph.add_edges_from((src, dst) for src, targets in adjacency.items() for dst in targets)
    found = (each for each in nx.strongly_connected_components(graph) if len(each) > 1)
    return {node: number for number, members in enumerate(found) for node in members}


def _add_process_order(txns: Sequence[Txn], adjacency: Adjacency) -> None:
    last: dict[int, Txn] = {}
    for txn in sorted(txns, key=lambda each: each.invoke_at):
        before = last.get(txn.process)
        if before is not None and before.complete_at is not None:
            adjacency.setdefault(before.op, {})[txn.op] = Step(before.op, txn.op, Edge.PROCESS)
        last[txn.process] = txn


def _add_real_time(txns: Sequence[Txn], adjacency: Adjacency, deadline: Callable[[], bool]) -> None:
    """Transitively reduced: a sweep keeps those completed ones that no other completed one follows."""
    events = [(txn.invoke_at, 0, txn) for txn in txns]
    events += [(txn.complete_at, 1, txn) for txn in txns if txn.complete_at is not None]
    events.sort(key=lambda each: each[:2])
    frontier: dict[int, Txn] = {}
    before: dict[int, list[int]] = {}
    for _, completes, txn in events:
        if deadline():
            raise _TimeIsUp
        if completes:
            for each in before.pop(txn.op):
                frontier.pop(each, None)
            frontier[txn.op] = txn
        else:
            before[txn.op] = list(frontier)
            for each in frontier:
                adjacency.setdefault(each, {})[txn.op] = Step(each, txn.op, Edge.REALTIME)


def time_limit(seconds: float, clock: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    end = clock() + seconds
    return lambda: clock() > end
