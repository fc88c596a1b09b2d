"""The second pass of an import: paired operations to rows of ``ops`` and ``mops``, a chunk at a time."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from histories.errors import HistoryError
from histories.jepsen.pairing import NONE, Matched
from histories.jepsen.parse import FS, INVOKE, OTHER_F, SEEK, TYPES, Ints, Parsed
from histories.jepsen.quick import NULL, POLL, SEND
from histories.jepsen.values import VALUE_BITS, VALUE_LIMIT
from histories.schema import MOPS, OPS, Isolation

_INFO: Final = TYPES["info"]
_HELD_CHUNKS: Final = 4
_PARTS: Final = 31
_KINDS: Final = ("send", "poll", "seek")
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "f": tuple(FS),
    "type": ("ok", "fail", "info"),
    "status": ("ok", "fail", "info"),
    "kind": _KINDS,
    "phase": ("main",),
    "isolation": tuple(Isolation),
}


@dataclass
class Chunks:
    """The chunks that the first pass left, read back when needed."""

    folder: Path
    starts: list[int]
    late: dict[int, int]
    _held: dict[int, tuple[Parsed, Matched]] = field(default_factory=dict)

    def load(self, number: int) -> tuple[Parsed, Matched]:
        if number not in self._held:
            while len(self._held) >= _HELD_CHUNKS:
                del self._held[min(self._held)]
            with (self.folder / f"{number}.parsed").open("rb") as file:
                parsed: Parsed = pickle.load(file)
            with (self.folder / f"{number}.matched").open("rb") as file:
                matched: Matched = pickle.load(file)
            self._held[number] = (parsed, matched)
        return self._held[number]

    def completions(self, number: int) -> Ints:
        """Of each line of a chunk, with the late ones."""
        parsed, matched = self.load(number)
        completion = matched.completion.copy()
        for place in np.flatnonzero((completion == NONE) & (parsed.type == INVOKE)).tolist():
            completion[place] = self.late.get(matched.start + place, NONE)
        return completion


class _Sent:
    """Finds a value that was sent twice. The values wait in files, each with a part of them that fits into
    memory."""

    def __init__(self, folder: Path) -> None:
        self._files = [folder / f"sent-{part}" for part in range(_PARTS)]

    def add(self, values: Ints, lines: Ints) -> None:
        part = values % _PARTS
        order = np.argsort(part, kind="stable")
        pairs = np.stack([values, lines], axis=1)[order]
        ends = np.searchsorted(part[order], np.arange(_PARTS + 1))
        for number in np.flatnonzero(np.diff(ends)).tolist():
            with self._files[number].open("ab") as file:
                file.write(pairs[ends[number] : ends[number + 1]].tobytes())

    def twice(self) -> tuple[int, int, int] | None:
        """A value and the first two lines that send it."""
        for each in self._files:
            if not each.exists():
                continue
            pairs = np.fromfile(each, np.int64).reshape(-1, 2)
            pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
            again = np.flatnonzero(np.diff(pairs[:, 0]) == 0)
            if again.size:
                value, first = pairs[again[0]].tolist()
                return value, first, int(pairs[again[0] + 1, 1])
        return None


class RowMaker:
    """Makes the rows of the chunks, one after the other."""

    def __init__(self, source: Path, folder: Path, keys: Ints, isolation: Isolation) -> None:
        self._source = source
        self._keys = keys
        self._isolation = list(Isolation).index(isolation)
        self._next_op = 0
        self._sent = _Sent(folder)

    def chunk(self, chunks: Chunks, number: int) -> tuple[pa.Table, pa.Table]:
        """The operations that were invoked in a chunk."""
        parsed, matched = chunks.load(number)
        place = np.flatnonzero((parsed.type == INVOKE) & (parsed.f != OTHER_F))
        completion = chunks.completions(number)[place]
        op = self._next_op + np.arange(place.size)
        self._next_op += place.size
        type_ = np.full(place.size, _INFO, np.int64)
        complete = np.full(place.size, NULL, np.int64)
        errors: list[str | None] = [None] * place.size
        parts: list[dict[str, Ints]] = []
        silent = np.ones(place.size, np.bool_)
        home = np.searchsorted(np.array(chunks.starts), completion, side="right") - 1
        home[completion == NONE] = NONE
        for other in np.unique(home[home != NONE]).tolist():
            mine = np.flatnonzero(home == other)
            there, paired = chunks.load(other)
            local = completion[mine] - paired.start
            type_[mine] = there.type[local]
            complete[mine] = paired.time[local]
            said = there.has_value[local]
            silent[mine[said]] = False
            parts.append(self._rows(there, local[said], op[mine[said]]))
            parts += self._seeks(there, paired, local, op[mine])
            for index, each in zip(mine.tolist(), local.tolist(), strict=True):
                if each in there.errors:
                    errors[index] = there.errors[each]
        parts.append(self._rows(parsed, place[silent], op[silent]))
        ops = {
            "op": op,
            "process": parsed.process[place],
            "f": parsed.f[place],
            "type": type_,
            "invoke_ns": matched.time[place],
            "complete_ns": complete,
        }
        ops["isolation"] = np.where(ops["f"] <= FS["subscribe"], self._isolation, NULL)
        ops["isolation"][ops["f"] == FS["send"]] = NULL
        mops = self._ordered(parts, ops, op)
        self._remember(mops, parsed.line[place])
        return self._ops_table(ops, errors), self._mops_table(mops)

    def check_unique(self) -> None:
        """A value sent twice to one key makes every check of delivery meaningless."""
        twice = self._sent.twice()
        if twice is not None:
            value, first, second = twice
            raise HistoryError(
                f"{self._source}:{second}: value {value & (VALUE_LIMIT - 1)} is sent to key "
                f"{self._keys[value >> VALUE_BITS]} again, after line {first}; expected each value once per key"
            )

    def _rows(self, parsed: Parsed, places: Ints, op: Ints) -> dict[str, Ints]:
        """The micro-operations of some lines of a chunk."""
        first, count = parsed.first[places], parsed.first[places + 1] - parsed.first[places]
        ends = np.cumsum(count)
        total = int(ends[-1]) if ends.size else 0
        rows = np.arange(total) + np.repeat(first - (ends - count), count)
        key = np.searchsorted(self._keys, parsed.key[rows])
        value = parsed.value[rows]
        known = value != NULL
        wrong = np.flatnonzero(known & ((value < 0) | (value >= VALUE_LIMIT)))
        if wrong.size:
            line = int(np.repeat(parsed.line[places], count)[wrong[0]])
            raise HistoryError(f"{self._source}:{line}: value {value[wrong[0]]}; expected 0 <= value < 2**{VALUE_BITS}")
        return {
            "op": np.repeat(op, count),
            "mop": parsed.mop[rows],
            "pos": np.arange(total),
            "kind": parsed.kind[rows],
            "key": key,
            "offset": parsed.offset[rows],
            "value": np.where(known, value + (key << VALUE_BITS), NULL),
        }

    def _seeks(self, parsed: Parsed, matched: Matched, local: Ints, op: Ints) -> list[dict[str, Ints]]:
        """New positions: before every poll of the operation that has them, or as its only rows."""
        if not matched.seeks:
            return []
        numbers = dict(zip(local.tolist(), op.tolist(), strict=True))
        rows: list[tuple[int, int, int, int]] = []
        for place, key in matched.seeks:
            if place not in numbers:
                continue
            mine = slice(int(parsed.first[place]), int(parsed.first[place + 1]))
            polls = np.unique(parsed.mop[mine][parsed.kind[mine] == POLL]).tolist()
            for mop in polls or [0]:
                # The position is settled when all rows are in order; negative is before the records.
                rows.append((numbers[place], mop, -1, int(np.searchsorted(self._keys, key))))
        table = np.array(rows, np.int64).reshape(-1, 4)
        null = np.full(len(rows), NULL, np.int64)
        return [
            {
                "op": table[:, 0],
                "mop": table[:, 1],
                "pos": table[:, 2],
                "kind": np.full(len(rows), SEEK, np.int64),
                "key": table[:, 3],
                "offset": null,
                "value": null,
            }
        ]

    def _ordered(self, parts: list[dict[str, Ints]], ops: dict[str, Ints], op: Ints) -> dict[str, Ints]:
        mops = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.lexsort((mops["pos"], mops["mop"], mops["op"]))
        mops = {name: column[order] for name, column in mops.items()}
        group = (np.diff(mops["op"], prepend=-1) != 0) | (np.diff(mops["mop"], prepend=-1) != 0)
        starts = np.flatnonzero(group)
        mops["pos"] = np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))
        owner = mops["op"] - op[0] if op.size else mops["op"]
        for name in ("process", "f", "type", "invoke_ns", "complete_ns", "isolation"):
            mops[name] = ops[name][owner]
        mops["status"] = np.where(mops["kind"] == SEND, mops["type"], NULL)
        return mops

    def _remember(self, mops: dict[str, Ints], lines: Ints) -> None:
        sends = np.flatnonzero(mops["kind"] == SEND)
        self._sent.add(mops["value"][sends], lines[mops["op"][sends] - (self._next_op - lines.size)])

    def _ops_table(self, ops: dict[str, Ints], errors: list[str | None]) -> pa.Table:
        zeros = np.zeros(ops["op"].size, np.int64)
        sends = (ops["f"] == FS["send"]) | (ops["f"] == FS["txn"])
        columns = {
            **ops,
            "worker": zeros,
            "instance": zeros,
            "phase": zeros,
            "acks": np.where(sends, -1, NULL),
        }
        return _table(OPS, columns, {"error": errors})

    def _mops_table(self, mops: dict[str, Ints]) -> pa.Table:
        zeros = np.zeros(mops["op"].size, np.int64)
        producer = np.where(mops["kind"] == SEND, 0, NULL)
        return _table(MOPS, {**mops, "worker": zeros, "phase": zeros, "producer": producer}, {})


def _table(schema: pa.Schema, columns: dict[str, Ints], texts: dict[str, list[Any]]) -> pa.Table:
    length = columns["op"].size
    arrays = []
    for column in schema:
        if column.name in texts:
            arrays.append(pa.array(texts[column.name], pa.string()).cast(column.type))
        elif column.name not in columns:
            arrays.append(pa.nulls(length, column.type))
        else:
            values = columns[column.name]
            missing = values == NULL if column.nullable else None
            if column.name in _TEXTS:
                codes = pa.array(np.where(values == NULL, 0, values).astype(np.int32), mask=missing)
                arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(_TEXTS[column.name], pa.string())))
            else:
                kind = np.int32 if column.type == pa.int32() else np.int64
                arrays.append(pa.array(np.where(values == NULL, 0, values).astype(kind), mask=missing))
    return pa.Table.from_arrays(arrays, schema=schema)
