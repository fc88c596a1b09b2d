"""Opens a sealed history and makes sure that it is one, before a checker spends a minute on it.

Its files are those that were sealed (:mod:`histories.digests`). Beyond that only footers and dictionaries are read:
every table there, every part whole, every column under its name with its type, as many rows as sealing counted, and nothing in a column that
it cannot hold (:mod:`histories.domains`). Columns beyond the schema are let through; a newer recorder may have
added one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from histories.digests import check_all_sealed, check_files
from histories.domains import bounds, check_contents
from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import ADDED_LATER, TABLES, TRANSACTION_TABLES, tables_of

_UNREADABLE = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises about damaged files; names that are not UTF-8 are a ValueError."""
_AGAIN = "seal or import the history again"


def open_history(folder: Path) -> tuple[Meta, dict[str, Path]]:
    """The meta and the folder of each table. ``folder`` is a history, or a run that has one."""
    if not folder.is_dir():
        raise HistoryError(f"{folder}: no such folder; expected a run or a sealed history")
    history = folder / "history" if (folder / "history").is_dir() else folder
    if not (history / "meta.json").exists() or not _has_tables(history):
        raise HistoryError(_why_not(folder, history))
    meta = Meta.read(history / "meta.json")
    check_files(history, meta.files)
    schemas = tables_of(meta.workload)
    tables = {name: history / name for name in schemas if _is_expected(name, history, meta)}
    rows: dict[str, int] = {}
    for name, table in tables.items():
        rows[name] = _check_table(table, schemas[name])
        counted = meta.counts.get(name, rows[name])
        if rows[name] != counted:
            raise HistoryError(
                f"{table}: {rows[name]} rows, but {counted} were sealed; a part is missing or foreign: {_AGAIN}"
            )
    check_all_sealed(history, tables.values(), meta.files)
    limits = bounds(meta, rows.get("ops", 0), rows.get("txns", 0))
    for name, table in tables.items():
        try:
            check_contents(table, schemas[name], limits.get(name, ()))
        except _UNREADABLE as error:
            raise HistoryError(f"{table}: cannot be read: {_first_sentence(error)}; {_AGAIN}") from None
    return meta, tables


def _has_tables(history: Path) -> bool:
    return any((history / name).is_dir() for name in (*TABLES, *TRANSACTION_TABLES))


def _is_expected(name: str, history: Path, meta: Meta) -> bool:
    """Whether a history has this table: one that came later may be missing, unless its rows were counted."""
    return name not in ADDED_LATER or (history / name).is_dir() or name in meta.counts


def _why_not(folder: Path, history: Path) -> str:
    if (folder / "journal").is_dir():
        return (
            f"{folder}: this run was never sealed: it has a journal but no finished history, so it is still "
            f"running or it died. Seal and judge it with: tidemark check {folder}"
        )
    if not any(history.iterdir()):
        return f"{history}: the folder is empty; expected meta.json and the tables {', '.join(TABLES)}"
    if _has_tables(history):
        return f"{history}: tables without meta.json: writing this history was never finished; {_AGAIN}"
    return f"{history}: not a history; expected meta.json and the tables {', '.join(TABLES)}"


def _check_table(table: Path, schema: pa.Schema) -> int:
    """Check all parts of a table. Returns its number of rows."""
    if not table.is_dir():
        raise HistoryError(f"{table}: this table is missing; {_AGAIN}")
    parts = sorted(table.glob("*.parquet"))
    if not parts:
        raise HistoryError(f"{table}: no Parquet file in it; {_AGAIN}")
    rows = 0
    for part in parts:
        try:
            with pq.ParquetFile(part) as file:
                found = file.schema_arrow
                rows += file.metadata.num_rows
        except _UNREADABLE as error:
            raise HistoryError(f"{part}: not a whole Parquet file: {_first_sentence(error)}; {_AGAIN}") from None
        _check_columns(part, schema, found)
    return rows


def _first_sentence(error: Exception) -> str:
    """Arrow's messages are long; the first sentence says what is wrong."""
    return str(error).split(". ")[0].splitlines()[0]


def _check_columns(part: Path, schema: pa.Schema, found: pa.Schema) -> None:
    for field in schema:
        places = found.get_all_field_indices(field.name)
        expected = _plain(field.type)
        if len(places) != 1:
            what = "is missing" if not places else "is there more than once"
            raise HistoryError(f"{part}: column {field.name} {what}; expected {expected}: {_AGAIN}")
        actual = _plain(found.field(places[0]).type)
        if actual != expected:
            raise HistoryError(f"{part}: column {field.name} has type {actual}; expected {expected}: {_AGAIN}")


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type as Parquet has it: neither a dictionary nor the width of Arrow's offsets is stored."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind
