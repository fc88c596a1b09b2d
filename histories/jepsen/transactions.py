"""Histories of transactions on lists and registers: one chunk of a file to columns.

A list-append history has ``[:append k v]`` and ``[:r k [v ...]]``, an rw-register history ``[:w k v]`` and ``[:r k v]``;
a read is nil in an invocation, and of an unwritten key. Which of them a file holds is told by its first micro-operations.

Lines of a common layout are cut by one regular expression; their values, put together, are read as one JSON text. Every
other line goes through the full reader of its format. All values are then checked and taken apart in one way.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from histories.errors import HistoryError
from histories.jepsen import edn
from histories.jepsen.parse import FS, OTHER_F, TYPES, Ints, Parsed
from histories.jepsen.quick import NULL
from histories.jepsen.source import Chunk, chunks
from histories.jepsen.values import VALUE_BITS, VALUE_LIMIT
from histories.schema import Workload

WRITE, READ = range(2)
_WRITERS: Final = {Workload.APPEND: "append", Workload.REGISTER: "w"}
_SHAPES: Final = {
    Workload.APPEND: "[:append k v] or [:r k [v ...]], as in a list-append history",
    Workload.REGISTER: "[:w k v] or [:r k v], as in an rw-register history",
}

_TYPE: Final = r"(?P<type>invoke|ok|fail|info)"
_VALUE: Final = r'(?P<value>\[[^{}"\\;#]*\]|nil)'
_EDN: Final = tuple(
    re.compile(layout)
    for layout in (
        rf"\{{:index \d+, :time (?P<time>\d{{1,18}}), :type :{_TYPE}, :process (?P<process>\d{{1,9}}), :f :txn, "
        rf":value {_VALUE}\}}",
        rf"\{{:type :{_TYPE}, :f :txn, :value {_VALUE}, :time (?P<time>\d{{1,18}}), "
        r":process (?P<process>\d{1,9}), :index \d+\}",
        rf"\{{:process (?P<process>\d{{1,9}}), :type :{_TYPE}, :f :txn, :value {_VALUE}, :index \d+, "
        r":time (?P<time>\d{1,18})\}",
    )
)
_JSON: Final = (
    re.compile(
        rf'\{{"index": ?\d+, ?"time": ?(?P<time>\d{{1,18}}), ?"type": ?"{_TYPE}", ?"process": ?(?P<process>\d{{1,9}}), '
        r'?"f": ?"txn", ?"value": ?(?P<value>\[[^{}\\]*\]|null)\}'
    ),
)
_MICRO: Final = re.compile(rb'\[\s*(?::(append|r|w|send|poll)|"(append|r|w|send|poll)")[\s,\]]')
_LIST_READ: Final = re.compile(rb'\[\s*(?::r|"r")[\s,]+-?\w+[\s,]+\[')
_LOG_F: Final = re.compile(rb':f[\s,]+:(?:send|poll|assign|subscribe)\b|"f":\s*"(?:send|poll|assign|subscribe)"')
_FIELDS: Final = ("type", "process", "f", "time", "index", "value")


def workload_of(path: Path) -> Workload:
    """What a file's first micro-operations are. Nothing but reads of nothing is taken for lists."""
    text = next(chunks(path)).text
    if _LOG_F.search(text):
        return Workload.LOG
    for match in _MICRO.finditer(text):
        name = match[1] or match[2]
        if name in (b"send", b"poll"):
            return Workload.LOG
        if name == b"append" or _LIST_READ.match(text, match.start()):
            return Workload.APPEND
        if name == b"w":
            return Workload.REGISTER
    return Workload.APPEND if _MICRO.search(text) else Workload.LOG


def append_to_file(path: str, chunk: Chunk, json_lines: bool, out: str) -> tuple[Parsed, Ints]:
    return _to_file(path, chunk, json_lines, out, Workload.APPEND)


def register_to_file(path: str, chunk: Chunk, json_lines: bool, out: str) -> tuple[Parsed, Ints]:
    return _to_file(path, chunk, json_lines, out, Workload.REGISTER)


PARSERS: Final[dict[Workload, Callable[[str, Chunk, bool, str], tuple[Parsed, Ints]]]] = {
    Workload.APPEND: append_to_file,
    Workload.REGISTER: register_to_file,
}


def _to_file(path: str, chunk: Chunk, json_lines: bool, out: str, workload: Workload) -> tuple[Parsed, Ints]:
    parsed = parse(path, chunk, json_lines, workload)
    with Path(out).open("wb") as file:
        pickle.dump(parsed, file, protocol=5)
    return parsed.heads, np.empty(0, np.int64)


def parse(path: str, chunk: Chunk, json_lines: bool, workload: Workload) -> Parsed:
    """The columns of a chunk, or a HistoryError that names the line."""
    try:
        lines = chunk.text.decode().split("\n")
    except UnicodeDecodeError as error:
        at = chunk.line(chunk.text.count(b"\n", 0, error.start))
        raise HistoryError(f"{path}:{at}: not UTF-8; expected an operation in EDN or JSON") from None
    heads: list[tuple[int, int, int, int, int]] = []
    values: list[Any] = []
    texts: list[str] = []
    waiting: list[int] = []
    errors: dict[int, str] = {}
    events: list[tuple[int, str]] = []
    layouts = _JSON if json_lines else _EDN
    layout = layouts[0]
    for place, line in enumerate(lines):
        match = layout.fullmatch(line)
        if match is None:
            for each in layouts:
                if (match := each.fullmatch(line)) is not None:
                    layout = each
                    break
        if match is not None:
            text = match["value"]
            heads.append(
                (chunk.line(place), TYPES[match["type"]], int(match["process"]), FS["txn"], int(match["time"]))
            )
            values.append(None)
            if text[0] == "[":
                waiting.append(len(values) - 1)
                texts.append(text)
        elif line and not line.isspace() and (json_lines or line[0] != ";"):
            where = f"{path}:{chunk.line(place)}"
            document = _document(where, line, json_lines)
            head = _head(where, document, chunk.line(place))
            if head is None:
                events.append((chunk.line(place), f"{document['type']} {document.get('f')}"))
                continue
            if document.get("error") is not None:
                said = document["error"]
                errors[len(heads)] = said if isinstance(said, str) else json.dumps(said, default=str)
            heads.append((chunk.line(place), *head))
            values.append(document.get("value") if head[2] == FS["txn"] else None)
    for place, value in zip(waiting, _quick_values(texts, json_lines), strict=True):
        values[place] = value
    return _columns(path, heads, values, workload, errors, events)


def _quick_values(texts: list[str], json_lines: bool) -> Iterator[Any]:
    joined = ",\n".join(texts)
    if not json_lines:
        spaced = joined.replace(",\n", "\n").replace(", ", " ").replace("nil", "null")
        for word in ("append", "r", "w"):
            spaced = spaced.replace(f":{word} ", f'"{word}" ')
        joined = spaced.replace(" ", ",").replace("\n", ",\n")
    try:
        yield from json.loads(f"[{joined}]")
    except ValueError:
        # Something in it is not as it usually is: the full reader says what, or understands it.
        for text in texts:
            yield json.loads(text) if json_lines else edn.loads(text)


def _document(where: str, line: str, json_lines: bool) -> dict[str, Any]:
    try:
        document = json.loads(line.strip().rstrip(",")) if json_lines else edn.loads(line)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{where}: not {'JSON' if json_lines else 'EDN'}: {error}") from None
    if not isinstance(document, dict) or "type" not in document or "process" not in document:
        raise HistoryError(
            f"{where}: not an operation; expected one such as "
            "{:index 0, :time 17, :type :invoke, :process 3, :f :txn, :value [[:append 1 2]]}"
        )
    return document


def _head(where: str, document: dict[str, Any], line: int) -> tuple[int, int, int, int] | None:
    """Type, process, f and time; None for what no client did."""
    type_, process, f, time, index, _ = map(document.get, _FIELDS)
    if not isinstance(type_, str) or type_ not in TYPES:
        raise HistoryError(f"{where}: type {type_!r}; expected invoke, ok, fail or info")
    if type(process) is not int:
        return None
    if not 0 <= process < 1 << 31:
        raise HistoryError(f"{where}: process {process}; expected a number below 2**31, or nemesis")
    if time is None:
        time = index if index is not None else line
    if type(time) is not int or not 0 <= time < 1 << 62:
        raise HistoryError(f"{where}: time {time!r}; expected nanoseconds since the start, an integer")
    return TYPES[type_], process, FS["txn"] if f == "txn" else OTHER_F, time


def _columns(
    path: str,
    heads: list[tuple[int, int, int, int, int]],
    values: list[Any],
    workload: Workload,
    errors: dict[int, str],
    events: list[tuple[int, str]],
) -> Parsed:
    first: list[int] = []
    mop: list[int] = []
    kind: list[int] = []
    keys: list[int] = []
    pos: list[int] = []
    found: list[int] = []
    writer, lists = _WRITERS[workload], workload == Workload.APPEND
    for head, value in zip(heads, values, strict=True):
        first.append(len(mop))
        if value is None:
            continue
        where = f"{path}:{head[0]}"
        if type(value) is not list:
            raise HistoryError(f"{where}: value {_short(value)}; expected a vector of micro-operations")
        for number, step in enumerate(value):
            if type(step) is not list or not 2 <= len(step) <= 3 or type(step[1]) is not int:
                raise HistoryError(
                    f"{where}: micro-operation {_short(step)}; expected {_SHAPES[workload]}, k an integer"
                )
            said = step[2] if len(step) == 3 else None
            if step[0] == writer:
                read: list[Any] = [said]
                kind.append(WRITE)
            elif step[0] == "r":
                if lists and not (said is None or type(said) is list):
                    raise HistoryError(f"{where}: micro-operation {_short(step)}; expected {_SHAPES[workload]}")
                read = (said or [None]) if lists else [said]
                kind.extend([READ] * len(read))
            else:
                raise HistoryError(f"{where}: micro-operation {_short(step)}; expected {_SHAPES[workload]}")
            unknown = step[0] == "r" and read == [None]
            if not unknown and (set(map(type, read)) != {int} or min(read) < 0 or max(read) >= VALUE_LIMIT):
                raise HistoryError(f"{where}: {_short(step)}; expected values 0 <= v < 2**{VALUE_BITS}, integers")
            mop.extend([number] * len(read))
            keys.extend([step[1]] * len(read))
            pos.extend(range(len(read)))
            found.extend([NULL] if unknown else read)
    first.append(len(mop))
    table = np.array(heads, np.int64).reshape(-1, 5)
    none = np.empty(0, np.int64)
    try:
        columns = [np.array(each, np.int64) for each in (mop, kind, keys, pos, found)]
    except OverflowError:
        raise HistoryError(f"{path}:{heads[0][0]}: in the lines from here on: a key beyond 64 bits") from None
    return Parsed(
        line=table[:, 0], type=table[:, 1], process=table[:, 2], f=table[:, 3], time=table[:, 4],
        has_value=np.array([each is not None for each in values], np.bool_), first=np.array(first, np.int64),
        mop=columns[0], kind=columns[1], key=columns[2], offset=columns[3], value=columns[4],
        polled_place=none, polled_key=none, errors=errors, events=events,
    )  # fmt: skip


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
