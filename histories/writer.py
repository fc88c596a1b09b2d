"""Writes the Parquet tables of a history; everything that makes a history writes it through here.

A folder is sealed by its ``meta.json``, which is written last, by rename: a folder without one was never
finished, and is written again from the start. Rows are collected to whole row groups, so a caller may
hand over batches of any size; what is held in memory is one row group per table. The order of the rows
is the caller's business.

Text columns are dictionary-encoded in memory and in Parquet; Spark reads them as plain strings.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from histories.digests import digest_files
from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import Workload, tables_of

ROWS_PER_PART = 8 * 1024 * 1024
COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1


class HistoryWriter:
    """One history folder in the making. Use it as a context manager, or call ``close`` or ``abort``."""

    def __init__(
        self,
        folder: Path,
        rows_per_group: int = 262_144,
        rows_per_part: int = ROWS_PER_PART,
        workload: Workload = Workload.LOG,
    ) -> None:
        if rows_per_group < 1 or rows_per_part < 1:
            raise ValueError("rows_per_group and rows_per_part must be at least 1")
        if (folder / "meta.json").exists():
            raise HistoryError(f"{folder}: already holds a sealed history; delete it or choose another folder")
        self._folder = folder
        self._tables: dict[str, _TableWriter] = {}
        for name, schema in tables_of(workload).items():
            table_folder = folder / name
            table_folder.mkdir(parents=True, exist_ok=True)
            # Parts of an attempt that was never sealed; left in place they would be read as rows of this one.
            for stale in sorted(table_folder.glob("part-*.parquet")):
                stale.unlink()
            self._tables[name] = _TableWriter(table_folder, schema, rows_per_group, rows_per_part)
        self._open = True

    def write(self, table: str, batch: pa.Table | pa.RecordBatch) -> None:
        """Append rows. Columns may come in any order and as plain strings; absent nullable ones are null."""
        if table not in self._tables:
            raise ValueError(f"no table {table!r}; there are {', '.join(self._tables)}")
        if not self._open:
            raise ValueError(f"{self._folder}: the writer is closed")
        self._tables[table].write(batch)

    def close(self, meta: Meta) -> Meta:
        """Finish every table, then seal the folder. Returns the meta as stored, with its counts."""
        if not self._open:
            raise ValueError(f"{self._folder}: the writer is closed")
        for table in self._tables.values():
            table.close()
        self._open = False
        sealed = replace(
            meta,
            counts={name: table.rows for name, table in self._tables.items()},
            files=digest_files(self._folder, (path for table in self._tables.values() for path in table.parts)),
        )
        unfinished = self._folder / "meta.json.tmp"
        sealed.write(unfinished)
        sync(unfinished)
        unfinished.rename(self._folder / "meta.json")
        sync(self._folder)
        return sealed

    def abort(self) -> None:
        """Let go of the files; the folder stays unsealed."""
        self._open = False
        for table in self._tables.values():
            table.abandon()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            self.abort()


class _TableWriter:
    def __init__(self, folder: Path, schema: pa.Schema, rows_per_group: int, rows_per_part: int) -> None:
        self.rows = 0
        self._folder = folder
        self._schema = schema
        self._rows_per_group = rows_per_group
        self._rows_per_part = rows_per_part
        self._text = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._part: pq.ParquetWriter | None = None
        self._part_path = folder
        self._part_rows = 0
        self.parts: list[Path] = []

    def write(self, batch: pa.Table | pa.RecordBatch) -> None:
        table = conform(batch, self._schema, self._folder.name)
        self.rows += table.num_rows
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows < self._rows_per_group:
            return
        whole = pa.concat_tables(self._waiting)
        start = 0
        while whole.num_rows - start >= self._rows_per_group:
            self._write_group(whole.slice(start, self._rows_per_group))
            start += self._rows_per_group
        rest = whole.slice(start)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows = rest.num_rows

    def close(self) -> None:
        if self._waiting_rows:
            self._write_group(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_rows = [], 0
        if not self.parts:
            self._open_part()
        self._close_part()
        sync(self._folder)

    def abandon(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None

    def _write_group(self, group: pa.Table) -> None:
        # One dictionary per column of a row group: where the chunks' dictionaries differ, the Parquet
        # writer would give up on dictionary encoding for the rest of the group.
        group = group.unify_dictionaries().combine_chunks()
        if self._part is None or self._part_rows >= self._rows_per_part:
            self._close_part()
            self._open_part()
        assert self._part is not None
        self._part.write_table(group, row_group_size=self._rows_per_group)
        self._part_rows += group.num_rows

    def _open_part(self) -> None:
        self._part_path = self._folder / f"part-{len(self.parts):05d}.parquet"
        self.parts.append(self._part_path)
        self._part_rows = 0
        self._part = pq.ParquetWriter(
            self._part_path,
            self._schema,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=self._text,
            write_statistics=True,
        )

    def _close_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None
            sync(self._part_path)


def conform(batch: pa.Table | pa.RecordBatch, schema: pa.Schema, name: str) -> pa.Table:
    """The batch as a table of exactly this schema, or a HistoryError that names the column."""
    table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    unknown = [column for column in table.column_names if column not in schema.names]
    if unknown:
        raise HistoryError(f"table {name}: unknown column {unknown[0]!r}; it has {', '.join(schema.names)}")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            column = pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        else:
            column = table.column(field.name)
            if column.type != field.type:
                try:
                    column = column.cast(field.type)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise HistoryError(
                        f"table {name}, column {field.name}: {column.type} is no {field.type}: {error}"
                    ) from None
        if not field.nullable and column.null_count:
            raise HistoryError(f"table {name}, column {field.name}: null where a value is required")
        columns.append(column)
    return pa.table(columns, schema=schema)


def sync(path: Path) -> None:
    """fsync a file or a folder: a sealed history survives a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
