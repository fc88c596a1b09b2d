"""``export_jepsen``: a sealed history as Jepsen's Kafka workload would have written it.

Invocations and completions are merged by time; of those at one time completions come first. A new
position that cannot be told from the list of assigned keys is named in a ``:rebalance-log``. What their
format has no place for is left out: group operations, coverage, events, times of single steps.
Which keys an assignment gave up is not recorded: they are written as kept.
"""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO, cast

import pyarrow.parquet as pq

from histories.errors import HistoryError
from histories.jepsen.values import original_key, original_value
from histories.meta import Meta
from histories.read import open_history
from histories.schema import F, Kind, Outcome, Workload

Row = dict[str, Any]

_EXPORTED = {F.SEND, F.POLL, F.TXN, F.ASSIGN, F.SUBSCRIBE, F.CRASH}
_BATCH = 16_384
_POSITIONS = (Kind.SEEK, Kind.RESET, Kind.RESUME)


class _Keyword(str):
    """A keyword in EDN, a string in JSON."""

    __slots__ = ()


def export_jepsen(history: Path, out: Path) -> None:
    """Writes EDN or JSON, one operation per line, by the extension of ``out``: .edn, .json, .jsonl, each
    also with .gz."""
    names = [suffix for suffix in out.suffixes if suffix != ".gz"]
    if not names or names[-1] not in (".edn", ".json", ".jsonl"):
        raise HistoryError(f"{out}: cannot tell the format; expected a name that ends in .edn, .json or .jsonl")
    write = _edn if names[-1] == ".edn" else _json
    meta, tables = open_history(history)
    if meta.workload != Workload.LOG:
        raise HistoryError(f"{history}: a history of transactions; only those of a log can be exported")
    with _opened(out) as file:
        for index, line in enumerate(_merged(_operations(meta, tables["ops"], tables["mops"]))):
            file.write(write({_Keyword("index"): index, **line}) + "\n")


def _opened(out: Path) -> TextIO:
    if out.suffix == ".gz":
        return cast(TextIO, gzip.open(out, "wt", encoding="utf-8"))
    return out.open("w", encoding="utf-8")


def _merged(operations: Iterator[tuple[Row, Row | None]]) -> Iterator[Row]:
    """Lines in the order of time."""
    waiting: list[tuple[int, int, Row]] = []
    for number, (invocation, completion) in enumerate(operations):
        while waiting and waiting[0][0] <= invocation[_TIME]:
            yield heapq.heappop(waiting)[2]
        yield invocation
        if completion is not None:
            heapq.heappush(waiting, (completion[_TIME], number, completion))
    while waiting:
        yield heapq.heappop(waiting)[2]


_TIME = _Keyword("time")


def _operations(meta: Meta, ops: Path, mops: Path) -> Iterator[tuple[Row, Row | None]]:
    """Invocation and completion of each operation; no completion where it never came back."""
    steps = _Steps(mops)
    assigned: dict[int, set[int]] = {}
    for op in _rows(ops):
        mine = steps.of(op["op"])
        if op["f"] not in _EXPORTED:
            continue
        invoked, completed, moved = _values(meta, op, mine, assigned)
        yield (
            _line(op["invoke_ns"], "invoke", op, invoked),
            None
            if op["complete_ns"] is None
            else _line(op["complete_ns"], op["type"], op, completed, moved, op["error"]),
        )


def _line(time: int, type_: str, op: Row, value: Any, moved: list[int] | None = None, error: str | None = None) -> Row:
    line: Row = {
        _TIME: time,
        _Keyword("type"): _Keyword(type_),
        _Keyword("process"): op["process"],
        _Keyword("f"): _Keyword(op["f"]),
        _Keyword("value"): value,
    }
    if moved:
        line[_Keyword("rebalance-log")] = [{_Keyword("keys"): moved}]
    if error is not None:
        line[_Keyword("error")] = error
    return line


def _values(meta: Meta, op: Row, mops: list[Row], assigned: dict[int, set[int]]) -> tuple[Any, Any, list[int]]:
    """The value at invocation and at completion, and the keys that start a new position."""
    fresh = {original_key(meta, row["key"]) for row in mops if row["kind"] in _POSITIONS}
    if op["f"] == F.CRASH:
        assigned.pop(op["process"], None)
        return None, None, []
    if op["f"] in (F.ASSIGN, F.SUBSCRIBE):
        held = assigned.setdefault(op["process"], set())
        moved = sorted(fresh & held) if op["f"] == F.ASSIGN else []
        held |= fresh
        keys = sorted(held if op["f"] == F.ASSIGN else fresh)
        return keys, keys, moved
    invoked: list[Any] = []
    completed: list[Any] = []
    for number, group in groupby((row for row in mops if row["kind"] in (Kind.SEND, Kind.POLL)), _mop):
        rows = list(group)
        while len(invoked) < number:
            _nothing(op, invoked, completed)
        if rows[0]["kind"] == Kind.SEND:
            _send(meta, op, rows[0], invoked, completed)
        else:
            invoked.append([_Keyword("poll")])
            completed.append([_Keyword("poll"), _polled(meta, rows)])
    if not invoked:
        _nothing(op, invoked, completed)
    return invoked, completed, sorted(fresh)


def _mop(row: Row) -> int:
    return int(row["mop"])


def _nothing(op: Row, invoked: list[Any], completed: list[Any]) -> None:
    """A poll that returned no record leaves no row."""
    invoked.append([_Keyword("poll")])
    completed.append([_Keyword("poll"), {}] if op["type"] == Outcome.OK else [_Keyword("poll")])


def _send(meta: Meta, op: Row, row: Row, invoked: list[Any], completed: list[Any]) -> None:
    key, value = original_key(meta, row["key"]), original_value(meta, row["key"], row["value"])
    invoked.append([_Keyword("send"), key, value])
    if row["offset"] is None and op["type"] != Outcome.OK:
        completed.append([_Keyword("send"), key, value])
    else:
        completed.append([_Keyword("send"), key, [row["offset"], value]])


def _polled(meta: Meta, rows: list[Row]) -> dict[int, list[Any]]:
    polled: dict[int, list[Any]] = {}
    for row in rows:
        value = None if row["value"] is None else original_value(meta, row["key"], row["value"])
        polled.setdefault(original_key(meta, row["key"]), []).append([row["offset"], value])
    return polled


def _rows(table: Path) -> Iterator[Row]:
    for part in sorted(table.glob("*.parquet")):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()


class _Steps:
    """The rows of ``mops``, handed out by operation; both tables are sorted by it."""

    def __init__(self, table: Path) -> None:
        self._groups = groupby(_rows(table), lambda row: int(row["op"]))
        self._next = self._taken()

    def _taken(self) -> tuple[int, list[Row]] | None:
        group = next(self._groups, None)
        return None if group is None else (group[0], list(group[1]))

    def of(self, op: int) -> list[Row]:
        if self._next is None or self._next[0] != op:
            return []
        rows = self._next[1]
        self._next = self._taken()
        return rows


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _edn(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, _Keyword):
        return f":{value}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{' '.join(map(_edn, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_edn(key)} {_edn(each)}" for key, each in value.items()) + "}"
    return str(value)
