"""One chunk of a history file to columns: the part of importing that is done in parallel.

Speed comes from not building objects. A line of one of the two common layouts is cut by one regular
expression, which only accepts a ``:value`` made of vectors, maps, numbers, ``nil``, ``:send`` and ``:poll``;
the values of all such lines are then turned into JSON by replacing letters (a map becomes a flat vector)
and read by the C parser in one go. Every other line goes through the full reader.
"""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from histories.errors import HistoryError
from histories.jepsen import edn
from histories.jepsen.source import MAX_LINE, Chunk, too_long

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TYPES: Final = {"ok": 0, "fail": 1, "info": 2, "invoke": 3}
INVOKE: Final = 3
FS: Final = {"send": 0, "poll": 1, "txn": 2, "assign": 3, "subscribe": 4, "crash": 5}
OTHER_F: Final = 6
SEND, POLL, SEEK = range(3)
NULL: Final = -(1 << 63)

_VALUE: Final = r'(?P<value>[^":#\\;]*(?::(?:send|poll)(?=[\s\]])[^":#\\;]*)*)'
_LAYOUTS: Final = tuple(
    re.compile(layout)
    for layout in (
        r"\{:index (?P<index>\d+), :time (?P<time>\d+), :type :(?P<type>\w+), :process (?P<process>\d+), "
        rf":f :(?P<f>[\w-]+), :value {_VALUE}\}}",
        rf"\{{:type :(?P<type>\w+), :f :(?P<f>[\w-]+), :value {_VALUE}, "
        r":time (?P<time>\d+), :process (?P<process>\d+), :index (?P<index>\d+)\}",
        rf"\{{:process (?P<process>\d+), :type :(?P<type>\w+), :f :(?P<f>[\w-]+), :value {_VALUE}, "
        r":index (?P<index>\d+), :time (?P<time>\d+)\}",
    )
)
_FIELDS: Final = ("type", "process", "f", "time", "index", "value")


@dataclass
class Parsed:
    """The operations of clients in one chunk (one entry per line) and their micro-operations."""

    line: Ints
    type: Ints
    process: Ints
    f: Ints
    time: Ints
    has_value: Bools
    first: Ints
    """Where the rows of each line start; one more entry at the end."""
    mop: Ints
    kind: Ints
    key: Ints
    offset: Ints
    value: Ints
    polled_place: Ints
    """With ``polled_key``: which lines polled which keys, in order."""
    polled_key: Ints
    errors: dict[int, str] = field(default_factory=dict)
    """By place in the chunk."""
    named: dict[int, tuple[list[int], list[int], bool]] = field(default_factory=dict)
    """Of assignments, subscriptions and rebalances: the keys of the value, the keys of the rebalance log,
    and whether it sought the beginning."""
    events: list[tuple[int, str]] = field(default_factory=list)
    """Of the nemesis: time, text."""

    @property
    def heads(self) -> Parsed:
        """Without the micro-operations: what pairing needs."""
        none = np.empty(0, np.int64)
        return replace(self, first=none, mop=none, kind=none, key=none, offset=none, value=none, errors={})


def parse_to_file(path: str, chunk: Chunk, json_lines: bool, out: str) -> tuple[Parsed, Ints]:
    """Parses a chunk and leaves all of it in a file. Returns its heads and its distinct keys."""
    parsed = parse(path, chunk, json_lines)
    with Path(out).open("wb") as file:
        pickle.dump(parsed, file, protocol=5)
    named = [key for keys, log, _ in parsed.named.values() for key in [*keys, *log]]
    return parsed.heads, np.unique(np.concatenate([parsed.key, np.array(named, np.int64)]))


def parse(path: str, chunk: Chunk, json_lines: bool) -> Parsed:
    """The columns of a chunk, or a HistoryError that names the line."""
    text = _decoded(path, chunk)
    reader = _JsonReader(path, chunk) if json_lines else _EdnReader(path, chunk)
    columns = _Columns(path, chunk)
    places: list[int] = []
    lines: list[str] = []
    for place, line in enumerate(text.split("\n")):
        if len(line) > MAX_LINE:
            raise too_long(Path(path), chunk.line(place))
        if line and not line.isspace() and (json_lines or line[0] != ";"):
            places.append(place)
            lines.append(line)
    for place, fields in zip(places, reader.read(places, lines), strict=True):
        columns.add(place, fields)
    return columns.parsed()


def _decoded(path: str, chunk: Chunk) -> str:
    try:
        return chunk.text.decode()
    except UnicodeDecodeError as error:
        line = chunk.line(chunk.text.count(b"\n", 0, error.start))
        raise HistoryError(f"{path}:{line}: not UTF-8; expected an operation in EDN or JSON") from None


Fields = tuple[Any, Any, Any, Any, Any, Any, dict[str, Any] | None]
"""Type, process, f, time, index, value, everything; the last is None when there is nothing else."""


class _EdnReader:
    def __init__(self, path: str, chunk: Chunk) -> None:
        self._path, self._chunk = path, chunk

    def read(self, places: list[int], lines: list[str]) -> list[Fields]:
        fields: list[Fields] = []
        texts: list[str] = []
        quick: list[int] = []
        layout = _LAYOUTS[0]
        for number, line in enumerate(lines):
            match = layout.fullmatch(line)
            if match is None:
                match, layout = self._other_layout(line, layout)
            if match is None:
                fields.append(self._slow(places[number], line))
                continue
            type_, process, f, time, index, value = match.group(*_FIELDS)
            fields.append((type_, int(process), f, int(time), int(index), None, None))
            texts.append(value)
            quick.append(number)
        values = self._values(texts)
        if values is None:
            return [self._either(*each) for each in zip(places, lines, fields, strict=True)]
        for number, value in zip(quick, values, strict=True):
            type_, process, f, time, index, _, _ = fields[number]
            fields[number] = (type_, process, f, time, index, value, None)
        return fields

    def _either(self, place: int, line: str, fields: Fields) -> Fields:
        """One line of a chunk in which some value is not what it seemed to be."""
        if fields[-1] is not None:
            return fields
        match, _ = self._other_layout(line, _LAYOUTS[0])
        values = self._values([match["value"]]) if match is not None else None
        return self._slow(place, line) if values is None else (*fields[:5], values[0], None)

    def _other_layout(self, line: str, layout: re.Pattern[str]) -> tuple[re.Match[str] | None, re.Pattern[str]]:
        for each in _LAYOUTS:
            match = each.fullmatch(line)
            if match is not None:
                return match, each
        return None, layout

    def _values(self, texts: list[str]) -> list[Any] | None:
        """All values in one go; None if any is not what it seemed to be."""
        text = "\x00".join(texts)
        text = text.replace(", ", " ").replace("{", "[").replace("}", "]")
        text = text.replace(":send", '"send"').replace(":poll", '"poll"').replace("nil", "null")
        text = text.replace(" ", ",").replace("\x00", ",")
        try:
            values = json.loads(f"[{text}]")
        except ValueError:
            return None
        return values if len(values) == len(texts) else None

    def _slow(self, place: int, line: str) -> Fields:
        try:
            document = edn.loads(line)
        except ValueError as error:
            raise HistoryError(f"{self._path}:{self._chunk.line(place)}: not EDN: {error}; {EXPECTED}") from None
        return _fields(document, self._path, self._chunk.line(place))


class _JsonReader:
    def __init__(self, path: str, chunk: Chunk) -> None:
        self._path, self._chunk = path, chunk

    def read(self, places: list[int], lines: list[str]) -> list[Fields]:
        trimmed = [line.strip().rstrip(",") for line in lines]
        try:
            documents = json.loads(f"[{','.join(trimmed)}]")
        except (ValueError, RecursionError):
            documents = []
        if len(documents) != len(lines):
            documents = [self._one(place, line) for place, line in zip(places, trimmed, strict=True)]
        return [
            _fields(document, self._path, self._chunk.line(place))
            for place, document in zip(places, documents, strict=True)
        ]

    def _one(self, place: int, line: str) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise HistoryError(f"{self._path}:{self._chunk.line(place)}: not JSON: {error}; {EXPECTED}") from None


EXPECTED: Final = (
    "expected an operation such as {:index 0, :time 17, :type :invoke, :process 3, :f :send, :value [[:send 1 2]]}"
)


def _fields(document: Any, path: str, line: int) -> Fields:
    if not isinstance(document, dict) or "type" not in document or "process" not in document:
        raise HistoryError(f"{path}:{line}: not an operation; {EXPECTED}")
    get = document.get
    return get("type"), get("process"), get("f"), get("time"), get("index"), get("value"), document


class _Columns:
    """Collects rows; one operation at a time."""

    def __init__(self, path: str, chunk: Chunk) -> None:
        self._path, self._chunk = path, chunk
        self._heads: list[tuple[int, int, int, int, int, bool, int]] = []
        self._mop: list[int] = []
        self._kind: list[int] = []
        self._key: list[int] = []
        self._offset: list[int] = []
        self._value: list[int] = []
        self._errors: dict[int, str] = {}
        self._named: dict[int, tuple[list[int], list[int], bool]] = {}
        self._events: list[tuple[int, str]] = []

    def add(self, place: int, fields: Fields) -> None:
        type_, process, f, time, index, value, document = fields
        code = TYPES.get(type_) if isinstance(type_, str) else None
        if code is None:
            raise self._bad(place, f"type {type_!r}; expected invoke, ok, fail or info")
        if time is None:
            time = index if index is not None else self._chunk.line(place)
        if not isinstance(time, int) or not 0 <= time < 1 << 62:
            raise self._bad(place, f"time {time!r}; expected nanoseconds since the start, an integer")
        if not isinstance(process, int):
            said = "" if document is None or document.get("value") is None else f" {document['value']}"
            self._events.append((time, f"{type_} {f}{said}"))
            return
        if not 0 <= process < 1 << 31:
            raise self._bad(place, f"process {process}; expected a number below 2**31, or nemesis")
        f_code = FS.get(f, OTHER_F) if isinstance(f, str) else OTHER_F
        first = len(self._mop)
        if f_code <= FS["txn"]:
            if value is not None:
                self._micro_operations(place, value)
        elif f_code in (FS["assign"], FS["subscribe"]) and value is not None:
            beginning = bool(document is not None and document.get("seek-to-beginning?"))
            self._named[len(self._heads)] = (self._keys(place, value), [], beginning)
        if document is not None:
            self._besides(place, document)
        line = self._chunk.line(place)
        self._heads.append((line, code, process, f_code, time, value is not None, first))

    def _besides(self, place: int, document: dict[str, Any]) -> None:
        number = len(self._heads)
        if document.get("error") is not None:
            error = document["error"]
            self._errors[number] = error if isinstance(error, str) else json.dumps(error, default=str)
        log = document.get("rebalance-log")
        if log:
            if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
                raise self._bad(place, "a rebalance-log that is no vector of maps")
            moved = [key for entry in log for key in self._keys(place, entry.get("keys") or [])]
            keys, _, beginning = self._named.get(number, ([], [], False))
            self._named[number] = (keys, sorted(set(moved)), beginning)

    def _keys(self, place: int, value: Any) -> list[int]:
        if not isinstance(value, list) or not all(type(key) is int for key in value):
            raise self._bad(place, f"keys {_short(value)}; expected a vector of integers")
        return value

    def _micro_operations(self, place: int, value: Any) -> None:
        if not isinstance(value, list):
            raise self._bad(place, f"value {_short(value)}; expected a vector of micro-operations")
        for number, step in enumerate(value):
            if not isinstance(step, list) or not step:
                raise self._bad(place, f"micro-operation {_short(step)}; expected [:send k v] or [:poll ...]")
            if step[0] == "send":
                self._send(place, number, step)
            elif step[0] == "poll":
                if len(step) > 1 and step[1] is not None:
                    self._poll(place, number, step[1])
            else:
                raise self._bad(
                    place, f"micro-operation {_short(step)}; expected :send or :poll: not a Kafka workload?"
                )

    def _send(self, place: int, number: int, step: list[Any]) -> None:
        offset: Any = None
        value = step[2] if len(step) == 3 else None
        if type(value) is list and len(value) == 2:
            offset, value = value
        self._row(place, number, SEND, step[1] if len(step) > 1 else None, offset, value, step)
        if value is None:
            raise self._bad(place, f"{_short(step)}; expected [:send k v] or [:send k [offset v]]")

    def _poll(self, place: int, number: int, polled: Any) -> None:
        if isinstance(polled, dict):
            pairs = [(self._json_key(place, key), records) for key, records in polled.items()]
        elif isinstance(polled, list) and len(polled) % 2 == 0:
            pairs = list(zip(polled[::2], polled[1::2], strict=True))  # a map that became a flat vector
        else:
            raise self._bad(place, f"poll of {_short(polled)}; expected a map of keys to records")
        for key, records in pairs:
            if not isinstance(records, list):
                raise self._bad(place, f"records {_short(records)}; expected [[offset v] ...]")
            for record in records:
                if type(record) is not list or len(record) != 2:
                    raise self._bad(place, f"record {_short(record)}; expected [offset v]")
                self._row(place, number, POLL, key, record[0], record[1], record)

    def _json_key(self, place: int, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return int(key)
            except ValueError:
                raise self._bad(place, f"key {key!r}; expected an integer") from None
        return key

    def _row(self, place: int, number: int, kind: int, key: Any, offset: Any, value: Any, said: Any) -> None:
        if offset is None:
            offset = NULL
        if value is None:
            value = NULL
        if type(key) is not int or type(offset) is not int or type(value) is not int:
            raise self._bad(place, f"{_short(said)}; expected an integer key, offset and value")
        self._mop.append(number)
        self._kind.append(kind)
        self._key.append(key)
        self._offset.append(offset)
        self._value.append(value)

    def _bad(self, place: int, what: str) -> HistoryError:
        return HistoryError(f"{self._path}:{self._chunk.line(place)}: {what}")

    def parsed(self) -> Parsed:
        heads = np.array(self._heads, np.int64).reshape(-1, 7)
        line, type_, process, f, time, has_value, first = (heads[:, each] for each in range(7))
        try:
            key, offset, value = (np.array(column, np.int64) for column in (self._key, self._offset, self._value))
        except OverflowError:
            raise self._bad(0, "in the lines from here on: a key, offset or value beyond 64 bits") from None
        starts = np.append(first, len(self._mop))
        kind = np.array(self._kind, np.int64)
        place = np.repeat(np.arange(line.size), np.diff(starts))
        polled = np.flatnonzero(kind == POLL)
        # Records of one key follow each other, so neighbours are enough to look at.
        new = (np.diff(place[polled], prepend=-1) != 0) | (np.diff(key[polled], prepend=NULL) != 0)
        polled = polled[new]
        return Parsed(
            line=line,
            type=type_,
            process=process,
            f=f,
            time=time,
            has_value=has_value == 1,
            first=starts,
            mop=np.array(self._mop, np.int64),
            kind=kind,
            key=key,
            offset=offset,
            value=value,
            polled_place=place[polled],
            polled_key=key[polled],
            errors=self._errors,
            named=self._named,
            events=self._events,
        )


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
