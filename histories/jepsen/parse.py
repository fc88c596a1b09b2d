"""One chunk of a history file to columns: the part of importing that is done in parallel.

Most lines take the quick way (see quick); every other goes through the full reader of its format and is
looked at piece by piece, so that what is wrong with it can be said.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from histories.errors import HistoryError
from histories.jepsen import edn
from histories.jepsen.quick import EDN_LAYOUTS, JSON_LAYOUTS, NULL, POLL, SEND, numbers_of, rows_of
from histories.jepsen.source import MAX_LINE, Chunk, too_long

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TYPES: Final = {"ok": 0, "fail": 1, "info": 2, "invoke": 3}
INVOKE: Final = 3
FS: Final = {"send": 0, "poll": 1, "txn": 2, "assign": 3, "subscribe": 4, "crash": 5}
OTHER_F: Final = 6
SEEK: Final = 2

_HEAD: Final = ("type", "f", "process", "time", "value")
_FIELDS: Final = ("type", "process", "f", "time", "index", "value")
_KNOWN: Final = frozenset(
    {
        *_FIELDS,
        "error",
        "rebalance-log",
        "seek-to-beginning?",
        # What Jepsen's clients and generators add for the reader of the log; it changes nothing of what was done.
        *("abort-ok?", "clock", "debug", "deref-ms", "definite?", "exception", "ext", "final?", "keys", "link", "node"),
        *("poll-ms", "timed-out?", "tried-commit?", "unseen"),
    }
)


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
    layouts = JSON_LAYOUTS if json_lines else EDN_LAYOUTS
    layout = layouts[0]
    heads: list[tuple[str, ...]] = []
    places: list[int] = []
    columns = _Columns(path, chunk)
    for place, line in enumerate(text.split("\n")):
        match = layout.fullmatch(line)
        if match is None:
            for each in layouts[1:]:
                match = each.fullmatch(line)
                if match is not None:
                    layouts = (each, *(other for other in layouts if other is not each))
                    layout = each
                    break
        if match is not None:
            heads.append(match.group(*_HEAD))
            places.append(place)
        elif line and not line.isspace() and (json_lines or line[0] != ";"):
            if len(line) > MAX_LINE:
                raise too_long(Path(path), chunk.line(place))
            columns.add(place, _document(path, chunk, place, line, json_lines))
    slow, slow_places = columns.parsed()
    if not heads:
        return slow
    quick = _quick(path, chunk, heads, np.array(places, np.int64))
    if not slow.line.size:
        return replace(quick, events=slow.events)
    return _merged(quick, np.array(places, np.int64), slow, slow_places)


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object with the same key twice")
    return made


_LOAD_JSON: Final = json.JSONDecoder(object_pairs_hook=_each_key_once).decode


def _document(path: str, chunk: Chunk, place: int, line: str, json_lines: bool) -> dict[str, Any]:
    try:
        document = _LOAD_JSON(line.strip().rstrip(",")) if json_lines else edn.loads(line)
    except (ValueError, RecursionError) as error:
        form = "JSON" if json_lines else "EDN"
        raise HistoryError(f"{path}:{chunk.line(place)}: not {form}: {error}; {EXPECTED}") from None
    if not isinstance(document, dict) or "type" not in document or "process" not in document:
        raise HistoryError(f"{path}:{chunk.line(place)}: not an operation; {EXPECTED}")
    return document


def _quick(path: str, chunk: Chunk, heads: list[tuple[str, ...]], places: Ints) -> Parsed:
    """The columns of lines that a layout accepted."""
    types, fs, processes, times, values = zip(*heads, strict=True)
    rows = rows_of(list(values))
    count = len(heads)
    named: dict[int, tuple[list[int], list[int], bool]] = {}
    f = np.array([FS[each] for each in fs], np.int64)
    has_value = np.array([each[0] == "[" for each in values])
    for each in np.flatnonzero(((f == FS["assign"]) | (f == FS["subscribe"])) & has_value).tolist():
        low, high = np.searchsorted(rows.named_line, [each, each + 1])
        named[each] = (rows.named_key[low:high].tolist(), [], False)
    line = chunk.first_line + places if chunk.lines is None else np.array(chunk.lines, np.int64)[places]
    steps, keys = f[rows.line] > FS["txn"], f[rows.named_line] <= FS["txn"]
    if steps.any() or keys.any():
        wrong = int(min(*rows.line[steps].tolist()[:1], *rows.named_line[keys].tolist()[:1], count))
        raise HistoryError(
            f"{path}:{line[wrong]}: {fs[wrong]} of {values[wrong][:80]}; expected micro-operations for send, poll "
            "and txn, keys for assign and subscribe"
        )
    return _complete(
        line=line,
        type_=np.array([TYPES[each] for each in types], np.int64),
        process=numbers_of(" ".join(processes).encode()),
        f=f,
        time=numbers_of(" ".join(times).encode()),
        has_value=has_value,
        first=np.searchsorted(rows.line, np.arange(count + 1)),
        rows=(rows.mop, rows.kind, rows.key, rows.offset, rows.value),
        named=named,
    )


def _complete(
    *,
    line: Ints,
    type_: Ints,
    process: Ints,
    f: Ints,
    time: Ints,
    has_value: Bools,
    first: Ints,
    rows: tuple[Ints, Ints, Ints, Ints, Ints],
    named: dict[int, tuple[list[int], list[int], bool]],
) -> Parsed:
    """With which lines polled which keys."""
    mop, kind, key, offset, value = rows
    place = np.repeat(np.arange(line.size), np.diff(first))
    polled = np.flatnonzero(kind == POLL)
    # Records of one key follow each other, so neighbours are enough to look at.
    new = (np.diff(place[polled], prepend=-1) != 0) | (np.diff(key[polled], prepend=NULL) != 0)
    polled = polled[new]
    return Parsed(
        line, type_, process, f, time, has_value, first, mop, kind, key, offset, value,
        place[polled], key[polled], named=named,
    )  # fmt: skip


def _merged(quick: Parsed, quick_places: Ints, slow: Parsed, slow_places: Ints) -> Parsed:
    """Both kinds of lines in the order of the file."""
    order = np.argsort(np.concatenate([quick_places, slow_places]), kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)

    def both(name: str) -> Any:
        return np.concatenate([getattr(quick, name), getattr(slow, name)])

    count = np.concatenate([np.diff(quick.first), np.diff(slow.first)])
    row_order = np.argsort(np.repeat(number, count), kind="stable")
    merged = _complete(
        line=both("line")[order],
        type_=both("type")[order],
        process=both("process")[order],
        f=both("f")[order],
        time=both("time")[order],
        has_value=both("has_value")[order],
        first=np.append(0, np.cumsum(count[order])),
        rows=tuple(both(name)[row_order] for name in ("mop", "kind", "key", "offset", "value")),
        named={int(number[each]): keys for each, keys in quick.named.items()},
    )
    shift = quick_places.size
    merged.named.update({int(number[shift + each]): keys for each, keys in slow.named.items()})
    merged.errors.update({int(number[shift + each]): said for each, said in slow.errors.items()})
    return replace(merged, events=slow.events)


def _decoded(path: str, chunk: Chunk) -> str:
    try:
        return chunk.text.decode()
    except UnicodeDecodeError as error:
        line = chunk.line(chunk.text.count(b"\n", 0, error.start))
        raise HistoryError(f"{path}:{line}: not UTF-8; expected an operation in EDN or JSON") from None


EXPECTED: Final = (
    "expected an operation such as {:index 0, :time 17, :type :invoke, :process 3, :f :send, :value [[:send 1 2]]}"
)


class _Columns:
    """Collects rows; one operation at a time."""

    def __init__(self, path: str, chunk: Chunk) -> None:
        self._path, self._chunk = path, chunk
        self._heads: list[tuple[int, int, int, int, int, bool, int]] = []
        self._places: list[int] = []
        self._mop: list[int] = []
        self._kind: list[int] = []
        self._key: list[int] = []
        self._offset: list[int] = []
        self._value: list[int] = []
        self._errors: dict[int, str] = {}
        self._named: dict[int, tuple[list[int], list[int], bool]] = {}
        self._events: list[tuple[int, str]] = []

    def add(self, place: int, document: dict[str, Any]) -> None:
        type_, process, f, time, index, value = map(document.get, _FIELDS)
        code = TYPES.get(type_) if isinstance(type_, str) else None
        if code is None:
            raise self._bad(place, f"type {type_!r}; expected invoke, ok, fail or info")
        if time is None:
            time = index if index is not None else self._chunk.line(place)
        if not isinstance(time, int) or not 0 <= time < 1 << 62:
            raise self._bad(place, f"time {time!r}; expected nanoseconds since the start, an integer")
        if not isinstance(process, int):
            said = "" if value is None else f" {value}"
            self._events.append((time, f"{type_} {f}{said}"))
            return
        if not 0 <= process < 1 << 31:
            raise self._bad(place, f"process {process}; expected a number below 2**31, or nemesis")
        f_code = FS.get(f, OTHER_F) if isinstance(f, str) else OTHER_F
        if f_code != OTHER_F and not document.keys() <= _KNOWN:
            # It may change what the operation means: to pass over it could judge a history that did not happen.
            unknown = ", ".join(sorted(map(str, document.keys() - _KNOWN)))
            raise self._bad(place, f"unknown field {unknown[:80]}; expected {', '.join(sorted(_KNOWN))}")
        first = len(self._mop)
        if f_code <= FS["txn"]:
            if value is not None:
                self._micro_operations(place, value)
        elif f_code in (FS["assign"], FS["subscribe"]) and value is not None:
            beginning = bool(document.get("seek-to-beginning?"))
            self._named[len(self._heads)] = (self._keys(place, value), [], beginning)
        self._besides(place, document)
        line = self._chunk.line(place)
        self._heads.append((line, code, process, f_code, time, value is not None, first))
        self._places.append(place)

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

    def parsed(self) -> tuple[Parsed, Ints]:
        """The columns, and the place in the chunk of each line."""
        heads = np.array(self._heads, np.int64).reshape(-1, 7)
        line, type_, process, f, time, has_value, first = (heads[:, each] for each in range(7))
        try:
            rows = [
                np.array(column, np.int64) for column in (self._mop, self._kind, self._key, self._offset, self._value)
            ]
        except OverflowError:
            raise self._bad(0, "in the lines from here on: a key, offset or value beyond 64 bits") from None
        parsed = _complete(
            line=line,
            type_=type_,
            process=process,
            f=f,
            time=time,
            has_value=has_value == 1,
            first=np.append(first, len(self._mop)),
            rows=(rows[0], rows[1], rows[2], rows[3], rows[4]),
            named=self._named,
        )
        parsed.errors.update(self._errors)
        parsed.events.extend(self._events)
        return parsed, np.array(self._places, np.int64)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
