"""A history as plain Python values: what the reference judges and the random generator makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from histories.meta import Meta
from histories.schema import COVERAGE, MOPS, OPS, TABLES


@dataclass(frozen=True, slots=True)
class Mop:
    """One row of ``mops``; the names are those of ``histories.schema.MOPS``."""

    op: int
    mop: int
    pos: int
    kind: str
    key: int
    invoke_ns: int
    process: int
    worker: int
    f: str
    type: str
    phase: str = "main"
    offset: int | None = None
    value: int | None = None
    record_key: int | None = None
    tombstone: bool | None = None
    source_key: int | None = None
    source_offset: int | None = None
    status: str | None = None
    complete_ns: int | None = None
    defect: str | None = None
    producer: int | None = None
    isolation: str | None = None
    commit_ns: int | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in its process's order."""
        return (self.op, self.mop, self.pos)


@dataclass(frozen=True, slots=True)
class Op:
    """One row of ``ops``."""

    op: int
    process: int
    worker: int
    f: str
    type: str
    invoke_ns: int
    complete_ns: int | None = None
    instance: int = 0
    commit_ns: int | None = None
    phase: str = "main"
    isolation: str | None = None
    acks: int | None = None
    txn_id: str | None = None
    group: str | None = None
    generation: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """One row of ``coverage``."""

    key: int
    isolation: str
    complete: bool
    log_start: int | None = 0
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    position: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class History:
    ops: tuple[Op, ...]
    mops: tuple[Mop, ...]
    coverage: tuple[Coverage, ...]
    meta: Meta

    @staticmethod
    def of(tables: Mapping[str, pa.Table], meta: Meta) -> History:
        """From Arrow tables, as ``HistoryBuilder`` or Parquet files give them."""
        return History(
            ops=tuple(Op(**row) for row in tables["ops"].to_pylist()),
            mops=tuple(Mop(**row) for row in tables["mops"].to_pylist()),
            coverage=tuple(Coverage(**row) for row in tables["coverage"].to_pylist()),
            meta=meta,
        )

    def tables(self) -> dict[str, pa.Table]:
        return tables_of(self.ops, self.mops, self.coverage)


def tables_of(
    ops: tuple[Op, ...] | list[Op],
    mops: tuple[Mop, ...] | list[Mop],
    coverage: tuple[Coverage, ...] | list[Coverage],
) -> dict[str, pa.Table]:
    rows: dict[str, list[dict[str, Any]]] = {
        "ops": [asdict(each) for each in ops],
        "mops": [asdict(each) for each in mops],
        "coverage": [asdict(each) for each in coverage],
        "events": [],
        "replicas": [],
    }
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in TABLES.items()}


def _same_columns() -> bool:
    pairs = ((Mop, MOPS), (Op, OPS), (Coverage, COVERAGE))
    return all({each.name for each in fields(row)} == set(schema.names) for row, schema in pairs)


assert _same_columns(), "these rows follow histories.schema: change them together"
