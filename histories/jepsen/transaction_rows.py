"""The second pass of an import of transactions: paired operations to rows of ``txns`` and ``elements``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from histories.jepsen.pairing import NONE
from histories.jepsen.parse import INVOKE, OTHER_F, TYPES, Ints, Parsed
from histories.jepsen.quick import NULL
from histories.jepsen.tables import Chunks
from histories.jepsen.transactions import READ
from histories.schema import ELEMENTS, TXNS, Access, Outcome

_TEXTS = {"type": tuple(Outcome), "kind": tuple(Access)}


class TransactionRows:
    """Makes the rows of the chunks, one after the other."""

    def __init__(self) -> None:
        self._next_op = 0

    def chunk(self, chunks: Chunks, number: int) -> tuple[pa.Table, pa.Table]:
        """The transactions that were invoked in a chunk. What the completion says counts; where it says nothing,
        the invocation's writes."""
        parsed, matched = chunks.load(number)
        place = np.flatnonzero((parsed.type == INVOKE) & (parsed.f != OTHER_F))
        completion = chunks.completions(number)[place]
        op = self._next_op + np.arange(place.size)
        self._next_op += place.size
        type_ = np.full(place.size, TYPES["info"], np.int64)
        complete = np.full(place.size, NULL, np.int64)
        errors: list[str | None] = [None] * place.size
        silent = np.ones(place.size, np.bool_)
        parts: list[dict[str, Ints]] = []
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
            parts.append(_rows(there, local[said], op[mine[said]]))
            for index, each in zip(mine.tolist(), local.tolist(), strict=True):
                errors[index] = there.errors.get(each)
        parts.append(_rows(parsed, place[silent], op[silent]))
        complete_at = np.where(completion == NONE, NULL, completion)
        txns = {
            "op": op, "process": parsed.process[place], "type": type_, "invoke_ns": matched.time[place],
            "complete_ns": complete, "invoke_at": matched.start + place, "complete_at": complete_at,
        }  # fmt: skip
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owner = rows["op"] - (op[0] if op.size else 0)
        rows["type"], rows["complete_at"] = type_[owner], complete_at[owner]
        # A read of nothing by a transaction that did not succeed says nothing: nil is what its invocation says too.
        told = (rows["kind"] != READ) | (rows["value"] != NULL) | (rows["type"] == TYPES["ok"])
        order = np.flatnonzero(told)
        order = order[np.argsort(rows["op"][order], kind="stable")]
        return _table(TXNS, txns, {"error": errors}), _table(ELEMENTS, {k: v[order] for k, v in rows.items()}, {})


def _rows(parsed: Parsed, places: Ints, op: Ints) -> dict[str, Ints]:
    first, count = parsed.first[places], parsed.first[places + 1] - parsed.first[places]
    ends = np.cumsum(count)
    rows = np.arange(int(ends[-1]) if ends.size else 0) + np.repeat(first - (ends - count), count)
    value, kind = parsed.value[rows], parsed.kind[rows]
    return {
        "op": np.repeat(op, count),
        "mop": parsed.mop[rows],
        "pos": np.where((kind == READ) & (value != NULL), parsed.offset[rows], NULL),
        "kind": kind,
        "key": parsed.key[rows],
        "value": value,
    }


def _table(schema: pa.Schema, columns: dict[str, Ints], texts: dict[str, list[Any]]) -> pa.Table:
    arrays = []
    for column in schema:
        if column.name in texts:
            arrays.append(pa.array(texts[column.name], pa.string()).cast(column.type))
            continue
        values = columns[column.name]
        if column.name in _TEXTS:
            codes = pa.array(values.astype(np.int32))
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(list(_TEXTS[column.name]), pa.string())))
            continue
        missing = values == NULL
        kind = np.int32 if column.type == pa.int32() else np.int64
        arrays.append(pa.array(np.where(missing, 0, values).astype(kind), mask=missing if column.nullable else None))
    return pa.Table.from_arrays(arrays, schema=schema)
