"""Reads a history's tables inside Spark's workers: row groups of Parquet files straight into columns of numbers.

A worker reads what it is told to (a :class:`Chunk`), never more than a row group at a time, so its memory does not
grow with the history. Spark's own reader would turn every row into a row of the virtual machine and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.load import NONE

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]

ABSENT = -1
"""Code of a null."""
MOST_CHUNKS = 2000


@dataclass(frozen=True)
class Chunk:
    """Row groups of one table: (file, number of the row group) each."""

    table: str
    sequence: int
    groups: tuple[tuple[str, int], ...]


def chunks(folder: Path, table: str, wanted: Callable[[pq.RowGroupMetaData], bool] | None = None) -> list[Chunk]:
    """A table, or those row groups of it that are wanted, in pieces of work: one row group each, or some more
    where there are very many."""
    groups = []
    for part in sorted((folder / table).glob("*.parquet")):
        footer = pq.read_metadata(part)
        for number in range(footer.num_row_groups):
            if wanted is None or wanted(footer.row_group(number)):
                groups.append((str(part.absolute()), number))
    size = -(-len(groups) // MOST_CHUNKS) or 1
    return [Chunk(table, start, tuple(groups[start : start + size])) for start in range(0, len(groups), size)]


def span(group: tuple[str, int], column: str) -> tuple[int, int]:
    """Least and greatest of a column of numbers in a row group; the widest where the file does not say."""
    path, number = group
    footer = pq.read_metadata(path)
    statistics = footer.row_group(number).column(footer.schema.names.index(column)).statistics
    if statistics is None or not statistics.has_min_max:
        return -(2**63), 2**63 - 1
    return int(statistics.min), int(statistics.max)


def read(chunk: Chunk, columns: Sequence[str], text: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Each row group, numbered in the order of the table; ``text`` columns stay dictionaries."""
    for place, (path, group) in enumerate(chunk.groups):
        with pq.ParquetFile(path, read_dictionary=list(text)) as file:
            found = file.read_row_group(group, columns=[*columns, *text], use_threads=False)
        yield chunk.sequence + place, found


def codes(table: pa.Table, column: str, names: Sequence[str]) -> Codes:
    """A text column as the place of each entry in ``names``; ABSENT where it is null."""
    array = table.column(column).unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no rows
        return np.zeros(0, dtype=np.int8)
    lookup = np.array([names.index(each) for each in array.dictionary.to_pylist()] + [ABSENT], dtype=np.int8)
    return np.asarray(lookup[pc.fill_null(array.indices, len(lookup) - 1).to_numpy(zero_copy_only=False)])


def numbers(table: pa.Table, column: str, null: int = NONE) -> Ints:
    found = table.column(column)
    if found.null_count:
        found = pc.fill_null(found.cast(pa.int64()), null)
    return np.asarray(found.to_numpy()).astype(np.int64, copy=False)
