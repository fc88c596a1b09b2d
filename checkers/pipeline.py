"""The one Spark job of a judgement: scan, one exchange, check.

1. *Read.* A task reads a row group of ``mops`` or ``ops``, narrows it to columns of numbers and cuts them into one piece
   for each partition: steps by key, operations by process, values of sends by value.
2. *Exchange.* Spark moves the pieces to their partitions, spilling to disk. It sees pieces, never rows, so what its
   virtual machine does hardly grows with the history.
3. *Check.* A task puts the pieces of a partition together and checks them (:mod:`checkers.partition`).

Transactions need one exchange more at each end: who can be proved to be committed must be known before the checks
(:func:`proved_transactions`), and which are torn is told by parts from several partitions afterwards.

What reaches the driver does not grow with the history: every partition counts all cases and names a few.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers import assumptions, narrow, values
from checkers.agreement import Agreement, groups_of
from checkers.assumptions import Operations
from checkers.doubts import Doubts, among
from checkers.exchange import Columns, Piece, gathered, scattered
from checkers.found import Result
from checkers.load import NONE, History, has_strays
from checkers.partition import Checker
from checkers.rows import Ints, numbered, starts_of
from checkers.scan import Chunk, chunks, codes, numbers, read
from histories.schema import Defect, F, Isolation, Kind, Outcome

if TYPE_CHECKING:
    from pyspark import RDD

ROWS_PER_PARTITION = 700_000
MOST_PARTITIONS = 2000
_SENT = tuple(Kind).index(Kind.SEND)
_POLLED = tuple(Kind).index(Kind.POLL)
_PARTS = ("op", "process", "key", "value", "offset", "missing", "fatal")


def checked(
    history: History, *, transactions: bool, most: int | None, doubts: Doubts | None = None
) -> tuple[Result, Operations]:
    """Everything that the checks find in a history, and whether what they take for granted holds."""
    doubts = doubts or Doubts()
    parts = partitions(history)
    check = Checker.of(history, strays=stray_values(history), most=most, transactions=transactions, doubts=doubts)
    proved = proved_transactions(history, parts, doubts.values) if transactions else np.zeros(0, dtype=np.int64)
    work = chunks(history.folder, "mops") + chunks(history.folder, "ops")
    agreement = Agreement(groups_of(history.folder), history.meta.origin == "jepsen")
    pieces = _tasks(history, work).flatMap(Reader(parts, proved, agreement))
    reports: RDD[Any] = pieces.partitionBy(parts, operator.index).mapPartitions(Judge(parts, check))
    if transactions:
        reports = reports.partitionBy(parts, operator.index).mapPartitions(Torn(most))
    else:
        reports = reports.values()
    result, operations = Result(), Operations()
    for each in reports.collect():
        if isinstance(each, Operations):
            operations.add(each)
        else:
            result.add(each)
    return result, operations


def partitions(history: History) -> int:
    cores = history.spark.defaultParallelism
    return max(cores, min(MOST_PARTITIONS, history.meta.counts.get("mops", 0) // ROWS_PER_PARTITION))


def _tasks(history: History, work: Sequence[Chunk]) -> RDD[Chunk]:
    return history.spark.parallelize(work, max(1, len(work)))


@dataclass(frozen=True)
class Reader:
    """From row groups to pieces."""

    parts: int
    proved: Ints
    agreement: Agreement

    def __call__(self, chunk: Chunk) -> Iterator[tuple[int, Piece | Operations | Result]]:
        return self._steps(chunk) if chunk.table == "mops" else self._operations(chunk)

    def _steps(self, chunk: Chunk) -> Iterator[tuple[int, Piece | Result]]:
        for sequence, table in read(chunk, narrow.NUMBERS, narrow.TEXT):
            tallies, edges = self.agreement.of(sequence, table)
            yield sequence % self.parts, Result(tallies=tallies, edges=edges)
            rows = narrow.narrowed(table, self.proved)
            yield from scattered("steps", sequence, rows, rows["key"] % self.parts, self.parts)
            value = rows["value"][(narrow.sent(rows)) & (rows["value"] != NONE)]
            yield from scattered("values", sequence, {"value": value}, _spread(value) % self.parts, self.parts)

    def _operations(self, chunk: Chunk) -> Iterator[tuple[int, Piece | Operations]]:
        for sequence, table in read(chunk, assumptions.NUMBERS, assumptions.TEXT):
            summary, columns = Operations.of(table)
            yield sequence % self.parts, summary
            yield from scattered("operations", sequence, columns, columns["process"] % self.parts, self.parts)


def _spread(value: Ints) -> Ints:
    """A number that differs in its low bits wherever values differ somewhere; not negative."""
    return (value * np.int64(0x9E3779B97F4A7C15 - 2**64)) >> 33 & 0x7FFFFFFF


@dataclass(frozen=True)
class Judge:
    """From the pieces of one partition to what is found in them."""

    parts: int
    check: Checker

    def __call__(self, items: Iterable[tuple[int, Piece | Operations | Result]]) -> Iterator[tuple[int, Any]]:
        tables: dict[str, list[Piece]] = {"steps": [], "values": [], "operations": []}
        for _, item in items:
            if isinstance(item, (Operations, Result)):
                yield 0, item
            else:
                tables[item.table].append(item)
        result = Result()
        if tables["operations"]:
            result.add(assumptions.overlapping(gathered(tables.pop("operations"), assumptions.NUMBERS)))
        if tables["values"]:
            result.add(assumptions.resent(gathered(tables.pop("values"), ("value",))["value"]))
        if tables["steps"]:
            found, parts_of = self.check.check(gathered(tables.pop("steps"), narrow.ROW))
            result.add(found)
            if parts_of:
                yield from scattered("parts", 0, parts_of, parts_of["op"] % self.parts, self.parts)
        yield 0, result


@dataclass(frozen=True)
class Torn:
    """Torn transactions from the parts of all partitions; everything else goes through."""

    most: int | None

    def __call__(self, items: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        parts: list[Piece] = []
        for _, item in items:
            if isinstance(item, Piece):
                parts.append(item)
            else:
                yield item
        if parts:
            yield Result(values.torn(gathered(parts, _PARTS)).rows(self.most))


def stray_values(history: History) -> Ints:
    """Values of sends that were open when their topic was deleted, so that their key is unknown."""
    if not has_strays(history.folder):
        return np.zeros(0, dtype=np.int64)
    found = _tasks(history, chunks(history.folder, "mops")).flatMap(_strays).collect()
    return np.array(found, dtype=np.int64)


def _strays(chunk: Chunk) -> Iterator[int]:
    for _, table in read(chunk, ("key", "value"), ("kind",)):
        value = numbers(table, "value")
        stray = (codes(table, "kind", tuple(Kind)) == _SENT) & (numbers(table, "key") < 0) & (value != NONE)
        yield from value[stray].tolist()


def proved_transactions(history: History, parts: int, doubtful: Ints) -> Ints:
    """Transactions of unknown outcome that are committed: a read_committed reader returned a value of theirs, other
    than the ``doubtful`` ones."""
    work = _tasks(history, chunks(history.folder, "mops"))
    if not any(work.map(_has_unknown).collect()):
        return np.zeros(0, dtype=np.int64)
    found = work.flatMap(Unknown(parts, doubtful)).partitionBy(parts, operator.index).mapPartitions(_proved).collect()
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


_UNKNOWN_TEXT = ("kind", "f", "type", "isolation", "defect")


def _has_unknown(chunk: Chunk) -> bool:
    return any(_unknown_sends(table).any() for _, table in read(chunk, (), _UNKNOWN_TEXT))


def _unknown_sends(table: Any) -> Any:
    outcome = codes(table, "type", tuple(Outcome)) == tuple(Outcome).index(Outcome.INFO)
    sent = codes(table, "kind", tuple(Kind)) == _SENT
    return sent & outcome & (codes(table, "f", tuple(F)) == tuple(F).index(F.TXN))


@dataclass(frozen=True)
class Unknown:
    """Sends of unknown transactions, and what read_committed readers returned, by key."""

    parts: int
    doubtful: Ints

    def __call__(self, chunk: Chunk) -> Iterator[tuple[int, Piece]]:
        for sequence, table in read(chunk, ("key", "value", "op"), _UNKNOWN_TEXT):
            columns = {name: numbers(table, name) for name in ("key", "value", "op")}
            strict = codes(table, "isolation", tuple(Isolation)) == tuple(Isolation).index(Isolation.READ_COMMITTED)
            seen = strict & (codes(table, "kind", tuple(Kind)) == _POLLED) & (codes(table, "defect", tuple(Defect)) < 0)
            sure = (columns["value"] != NONE) & ~among(self.doubtful, columns["value"])
            for name, mask in (("unknown", _unknown_sends(table)), ("seen", seen)):
                mine = {each: column[mask & sure] for each, column in columns.items()}
                yield from scattered(name, sequence, mine, mine["key"] % self.parts, self.parts)


def _proved(items: Iterable[tuple[int, Piece]]) -> Iterator[Ints]:
    pieces = [piece for _, piece in items]
    unknown, seen = (
        gathered((piece for piece in pieces if piece.table == name), ("key", "value", "op"))
        for name in ("unknown", "seen")
    )
    yield unknown["op"][_pairs_in(unknown, seen)]


def _pairs_in(some: Columns, others: Columns) -> Any:
    """Whether key and value of each of ``some`` are those of one of ``others``."""
    key = np.concatenate([some["key"], others["key"]])
    value = np.concatenate([some["value"], others["value"]])
    order = np.lexsort((value, key))
    pair = np.empty(len(order), dtype=np.int64)
    pair[order] = numbered(starts_of(key[order], value[order]), len(order))
    among = np.zeros(len(order), dtype=bool)
    among[pair[len(some["key"]) :]] = True
    return among[pair[: len(some["key"])]]
