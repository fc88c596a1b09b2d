"""The quick way through a chunk: one regular expression cuts and checks a line, numpy reads its numbers.

A line of a common layout whose ``:value`` is exactly what a Kafka workload writes is accepted by the
expression, and then nothing in it can surprise: what each number means follows from how deep in brackets
it stands. ``[:send k [o v]]`` has its key at depth two and the rest at three, ``[:poll {k [[o v]]}]`` its
keys at three and its records at five, an assignment its keys at one. So the values of all lines are read as
one array of bytes, without an object for any of them. Lines that are not accepted are left to the full
reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NULL: Final = -(1 << 63)
SEND, POLL = range(2)

_N: Final = r"-?\d{1,18}"
_EDN_SEND: Final = rf"\[:send {_N} (?:{_N}|\[(?:{_N}|nil) {_N}\])\]"
_EDN_RECORDS: Final = rf"\[(?:\[{_N} {_N}\](?: (?=\[))?)*+\]"
_EDN_POLL: Final = rf"\[:poll(?: \{{(?:{_N} {_EDN_RECORDS}(?:, )?)*+\}})?\]"
_EDN_VALUE: Final = rf"(?P<value>\[(?:(?:{_EDN_SEND}|{_EDN_POLL})(?: (?=\[))?)*+\]|\[(?:{_N} ?)*+\]|nil)"
_TYPE: Final = r"(?P<type>invoke|ok|fail|info)"
_F: Final = r"(?P<f>send|poll|txn|assign|subscribe|crash)"

EDN_LAYOUTS: Final = tuple(
    re.compile(layout)
    for layout in (
        rf"\{{:index (?P<index>\d+), :time (?P<time>\d{{1,18}}), :type :{_TYPE}, :process (?P<process>\d{{1,9}}), "
        rf":f :{_F}, :value {_EDN_VALUE}\}}",
        rf"\{{:type :{_TYPE}, :f :{_F}, :value {_EDN_VALUE}, :time (?P<time>\d{{1,18}}), "
        r":process (?P<process>\d{1,9}), :index (?P<index>\d+)\}",
        rf"\{{:process (?P<process>\d{{1,9}}), :type :{_TYPE}, :f :{_F}, :value {_EDN_VALUE}, "
        r":index (?P<index>\d+), :time (?P<time>\d{1,18})\}",
    )
)

_JSON_SEND: Final = rf'\["send", ?{_N}, ?(?:{_N}|\[(?:{_N}|null), ?{_N}\])\]'
_JSON_RECORDS: Final = rf"\[(?:\[{_N}, ?{_N}\](?:, ?(?=\[))?)*+\]"
_JSON_POLL: Final = rf'\["poll"(?:, ?\{{(?:"{_N}": ?{_JSON_RECORDS}(?:, ?(?="))?)*+\}})?\]'
_JSON_VALUE: Final = (
    rf"(?P<value>\[(?:(?:{_JSON_SEND}|{_JSON_POLL})(?:, ?(?=\[))?)*+\]|\[(?:{_N}(?:, ?(?=[-\d]))?)*+\]|null)"
)
JSON_LAYOUTS: Final = (
    re.compile(
        r'\{"index": ?(?P<index>\d+), ?"time": ?(?P<time>\d{1,18}), ?"type": ?"'
        rf'{_TYPE}", ?"process": ?(?P<process>\d{{1,9}}), ?"f": ?"{_F}", ?"value": ?{_JSON_VALUE}\}}'
    ),
)

_NUMBER_BYTES: Final = bytes(each if each in b"-0123456789" else 32 for each in range(256))
_OPEN, _CLOSE = np.zeros(256, np.int8), np.zeros(256, np.int8)
_OPEN[[ord("["), ord("{")]] = 1
_CLOSE[[ord("]"), ord("}")]] = 1
_STEP: Final = _OPEN - _CLOSE
_IS_NUMBER: Final = np.array([each in b"-0123456789" for each in range(256)])


@dataclass
class Rows:
    """The micro-operations of some values, and the keys that assignments name."""

    line: Ints
    """Which value."""
    mop: Ints
    kind: Ints
    key: Ints
    offset: Ints
    value: Ints
    named_line: Ints
    named_key: Ints


def rows_of(values: list[str]) -> Rows:
    """Reads values that an expression above has accepted."""
    null = str(NULL)
    text = "\n".join(values).replace("nil", null).replace("null", null).encode()
    letters = np.frombuffer(text, np.uint8)
    numbers = numbers_of(text)
    is_number = _IS_NUMBER[letters]
    starts = is_number.copy()
    starts[1:] &= ~is_number[:-1]
    at = np.flatnonzero(starts)
    depth = np.cumsum(_STEP[letters], dtype=np.int32)
    ends = np.flatnonzero(letters == ord("\n"))
    line = np.searchsorted(ends, at)
    depth_at = depth[at].astype(np.int64)
    steps = np.flatnonzero((letters == ord("[")) & (depth == 2))
    step_line = np.searchsorted(ends, steps)
    first_step = np.searchsorted(step_line, np.arange(len(values)))
    step_mop = np.arange(steps.size) - first_step[step_line]
    step_sends = letters[np.minimum(steps + 2, letters.size - 1)] == ord("s")
    step = np.searchsorted(steps, at, side="right") - 1
    sends, sent = _sends(numbers, step, step_sends, depth_at)
    records, polled = _records(numbers, step, step_sends, depth_at)
    token = np.concatenate([sends, records])
    order = np.argsort(token, kind="stable")
    token = token[order]
    key, offset, value = (np.concatenate(pair)[order] for pair in zip(sent, polled, strict=True))
    kind = np.repeat([SEND, POLL], [sends.size, records.size])[order]
    named = np.flatnonzero(depth_at == 1)
    return Rows(line[token], step_mop[step[token]], kind, key, offset, value, line[named], numbers[named])


def numbers_of(text: bytes) -> Ints:
    """All integers in a text, in order."""
    return np.fromstring(text.translate(_NUMBER_BYTES), dtype=np.int64, sep=" ")


def _sends(numbers: Ints, step: Ints, step_sends: Ints, depth: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """The first number of each send, and its key, offset and value."""
    inside = np.flatnonzero((depth >= 2) & step_sends[step]) if step_sends.size else np.empty(0, np.int64)
    first = inside[np.diff(step[inside], prepend=-1) != 0]
    count = np.diff(np.append(np.flatnonzero(np.diff(step[inside], prepend=-1)), inside.size))
    acknowledged = count == 3
    offset = np.where(acknowledged, numbers[first + 1], NULL) if first.size else first
    value = numbers[first + count - 1] if first.size else first
    return first, (numbers[first], offset, value)


def _records(numbers: Ints, step: Ints, step_sends: Ints, depth: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """The first number of each polled record, and its key, offset and value."""
    inside = np.flatnonzero(depth == 5)
    first = inside[::2]
    if not first.size:
        return first, (first, first, first)
    is_key = (depth == 3) & ~step_sends[step].astype(np.bool_)
    key_at = np.maximum.accumulate(np.where(is_key, np.arange(depth.size), 0))
    return first, (numbers[key_at[first]], numbers[first], numbers[first + 1])
