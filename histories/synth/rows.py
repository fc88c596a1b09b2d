"""Arrays of a synthetic run to tables of the schema. Codes of text columns index the tuples below."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from histories.schema import MOPS, OPS, Defect, Isolation
from histories.synth.timeline import NEVER, PRODUCERS, Bools, Ints

FS: Final = ("send", "poll", "txn", "assign", "crash")
SEND, POLL, TXN, ASSIGN, CRASH = range(5)
TYPES: Final = ("ok", "fail", "info")
KINDS: Final = ("send", "poll", "seek")
K_SEND, K_POLL, K_SEEK = range(3)
PHASES: Final = ("main", "final")
ISOLATIONS: Final = (Isolation.READ_UNCOMMITTED.value, Isolation.READ_COMMITTED.value)
UNCOMMITTED, COMMITTED = range(2)
ERRORS: Final = ("MSG_SIZE_TOO_LARGE", "_MSG_TIMED_OUT", "_TRANSPORT")
DEFECTS: Final = (Defect.CHECKSUM.value, Defect.FOREIGN_RUN.value, Defect.MISROUTED.value)
"""Codes of a record's defect are one more than the index here; 0 is none."""
TXN_IDS: Final = tuple(f"txn-{slot}" for slot in range(PRODUCERS))

_DICTIONARIES: Final = {
    "f": FS,
    "type": TYPES,
    "kind": KINDS,
    "phase": PHASES,
    "isolation": ISOLATIONS,
    "error": ERRORS,
    "status": TYPES,
    "defect": DEFECTS,
    "txn_id": TXN_IDS,
}
_ARROW: Final = {name: pa.array(texts, pa.string()) for name, texts in _DICTIONARIES.items()}


def _column(field: pa.Field, values: Ints) -> pa.Array:
    missing: Bools | None = values < 0 if field.nullable else None
    if pa.types.is_dictionary(field.type):
        codes = pa.array(values.astype(np.int32), mask=missing)
        return pa.DictionaryArray.from_arrays(codes, _ARROW[field.name])
    if field.name == "acks":  # -1 is a value of it: all
        missing = values == NEVER - 1
    kind = np.int32 if field.type == pa.int32() else np.int64
    return pa.array(values.astype(kind, copy=False), mask=missing)


def table(schema: pa.Schema, columns: dict[str, Ints]) -> pa.Table:
    """A table; negative numbers are nulls, columns that are not given are null."""
    length = len(columns["op"])
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(_column(field, columns[field.name]))
        elif pa.types.is_dictionary(field.type):
            nulls = pa.nulls(length, pa.int32())
            arrays.append(pa.DictionaryArray.from_arrays(nulls, _ARROW.get(field.name, pa.array([], pa.string()))))
        else:
            arrays.append(pa.nulls(length, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def ops_table(columns: dict[str, Ints]) -> pa.Table:
    return table(OPS, columns)


def mops_table(columns: dict[str, Ints]) -> pa.Table:
    return table(MOPS, columns)
