"""The Spark jobs of a history of transactions.

1. *Keys.* A task reads a row group of ``elements`` and cuts it by key; each partition finds the order of versions, the data
   edges by joins on (key, value), and what is wrong without any cycle. The edges stay with Spark, in memory or on disk.
2. *Positions.* The driver holds five numbers for each transaction, places them, and hands them to all.
3. *Windows.* Each partition merges the intervals of its own backward edges; the driver merges what is left of all.
4. *Search.* The edges inside windows are exchanged by window, and each partition searches its windows.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.cycles.edges import EDGE, ROW, Counted, Ints, KeysReport
from checkers.cycles.inside import NODE, CyclesReport, search_windows
from checkers.cycles.lists import check_lists
from checkers.cycles.registers import check_registers
from checkers.cycles.windows import Placed, Windows, merged, windows_of
from checkers.exchange import Piece, gathered, scattered
from checkers.scan import Chunk, chunks, codes, numbers, read
from histories.meta import Meta
from histories.schema import Access, Outcome, Workload

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext

ROWS_PER_PARTITION = 2_500_000
MOST_PARTITIONS = 2000
_TEXTS: dict[str, tuple[str, ...]] = {"kind": tuple(Access), "type": tuple(Outcome)}
_TXN = ("process", "type", "invoke_at", "complete_at")


@dataclass
class Found:
    """Everything that the checks find."""

    items: Counted
    cycles: CyclesReport
    rewritten: int
    outcomes: dict[str, int]


def columns_of(table: Any, names: Iterable[str]) -> dict[str, Ints]:
    return {
        name: codes(table, name, _TEXTS[name]).astype(np.int64) if name in _TEXTS else numbers(table, name)
        for name in names
    }


def checked(spark: SparkContext, folder: Path, meta: Meta, most: int | None) -> Found:
    from pyspark import StorageLevel

    rows = meta.counts.get("elements", 0)
    parts = max(spark.defaultParallelism, min(MOST_PARTITIONS, rows // ROWS_PER_PARTITION))
    work = chunks(folder, "elements")
    pieces = spark.parallelize(work, max(1, len(work))).flatMap(Reader(parts))
    check = Keys(Workload(meta.workload), most)
    keyed: RDD[Any] = pieces.partitionBy(parts, operator.index).mapPartitions(check)
    keyed = keyed.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        reports = keyed.map(_without_edges).collect()
        items, rewritten = Counted(most), 0
        for each in reports:
            rewritten += each.rewritten
            items.cases += each.found.cases
            for name, count in each.found.counts.items():
                items.counts[name] = items.counts.get(name, 0) + count
        seen_op = np.concatenate([each.seen_op for each in reports] or [np.empty(0, np.int64)])
        seen_at = np.concatenate([each.seen_at for each in reports] or [np.empty(0, np.int64)])
        placed = _placed(folder, seen_op, seen_at)
        outcomes = {each.value: int((placed.type == n).sum()) for n, each in enumerate(Outcome)}
        return Found(items, _cycles(spark, keyed, placed, parts, most), rewritten, outcomes)
    finally:
        keyed.unpersist()


def _placed(folder: Path, seen_op: Ints, seen_at: Ints) -> Placed:
    found: list[dict[str, Ints]] = []
    for chunk in chunks(folder, "txns"):
        found += [
            columns_of(table, _TXN) for _, table in read(chunk, ("process", "invoke_at", "complete_at"), ("type",))
        ]
    whole = {name: np.concatenate([each[name] for each in found] or [np.empty(0, np.int64)]) for name in _TXN}
    return Placed.of(whole["process"], whole["type"], whole["invoke_at"], whole["complete_at"], seen_op, seen_at)


def _cycles(spark: SparkContext, keyed: RDD[Any], placed: Placed, parts: int, most: int | None) -> CyclesReport:
    report = CyclesReport()
    everywhere = spark.broadcast(placed)
    found = keyed.map(Backward(everywhere)).collect()
    windows = merged(np.concatenate([each.low for each in found]), np.concatenate([each.high for each in found]))
    if not windows.low.size:
        return report
    shared = spark.broadcast(windows)
    inside = keyed.flatMap(Inside(everywhere, shared, parts)).partitionBy(parts, operator.index)
    for each in inside.mapPartitionsWithIndex(Search(everywhere, shared, parts, most)).collect():
        report.add(each)
    return report


@dataclass(frozen=True)
class Reader:
    parts: int

    def __call__(self, chunk: Chunk) -> Iterator[tuple[int, Piece]]:
        for sequence, table in read(chunk, [each for each in ROW if each not in _TEXTS], list(_TEXTS)):
            rows = columns_of(table, ROW)
            yield from scattered("elements", sequence, rows, rows["key"] % self.parts, self.parts)


@dataclass(frozen=True)
class Keyed:
    """What a partition of keys keeps: its report with the edges packed."""

    report: KeysReport
    edges: tuple[Piece, ...]


@dataclass(frozen=True)
class Keys:
    workload: Workload
    most: int | None

    def __call__(self, items: Iterable[tuple[int, Piece]]) -> Iterator[Keyed]:
        rows = gathered((piece for _, piece in items), ROW)
        if not rows["op"].size:
            return
        check = check_lists if self.workload == Workload.APPEND else check_registers
        report = check(rows, self.most)
        none = np.zeros(report.edges["src"].size, np.int64)
        packed = tuple(piece for _, piece in scattered("edges", 0, report.edges, none, 1))
        yield Keyed(replace(report, edges={}), packed)


def _without_edges(keyed: Keyed) -> KeysReport:
    return keyed.report


def _ranks(keyed: Keyed, placed: Placed) -> tuple[dict[str, Ints], Ints, Ints]:
    edges = gathered(keyed.edges, EDGE)
    return edges, placed.rank[edges["src"]], placed.rank[edges["dst"]]


@dataclass(frozen=True)
class Backward:
    placed: Broadcast[Placed]

    def __call__(self, keyed: Keyed) -> Windows:
        _, src, dst = _ranks(keyed, self.placed.value)
        return windows_of(src, dst)


@dataclass(frozen=True)
class Inside:
    """Edges with both ends in one window, to where it is searched."""

    placed: Broadcast[Placed]
    windows: Broadcast[Windows]
    parts: int

    def __call__(self, keyed: Keyed) -> Iterator[tuple[int, Piece]]:
        edges, src, dst = _ranks(keyed, self.placed.value)
        window = self.windows.value.of(src)
        mine = (window >= 0) & (window == self.windows.value.of(dst))
        kept = {name: column[mine] for name, column in edges.items()}
        yield from scattered("edges", 0, kept, window[mine] % self.parts, self.parts)


@dataclass(frozen=True)
class Search:
    placed: Broadcast[Placed]
    windows: Broadcast[Windows]
    parts: int
    most: int | None

    def __call__(self, number: int, items: Iterable[tuple[int, Piece]]) -> Iterator[CyclesReport]:
        edges = gathered((piece for _, piece in items), EDGE)
        placed = self.placed.value
        window = self.windows.value.of(placed.rank)
        op = np.flatnonzero((window >= 0) & (window % self.parts == number))
        nodes = {"op": op, "window": window[op], **{name: getattr(placed, name)[op] for name in NODE[2:]}}
        if op.size:
            yield search_windows(nodes, edges, self.most)
