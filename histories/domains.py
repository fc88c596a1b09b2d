"""Whether the columns of a sealed history hold what they may hold, without reading its rows.

Numbers are judged by the least and greatest of each row group, which Parquet keeps in its footer; names (``ok``, ``send``,
...) by the dictionary of each column, which stands before the rows. A file that was written without them is read.
The checks take unknown names for "none of those": an outcome called ``okay`` would be no success and so no loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from histories.errors import HistoryError
from histories.meta import Meta
from histories.schema import Access, Defect, F, Isolation, Kind, Outcome, Phase

NAMES: Final[Mapping[str, Mapping[str, type[StrEnum]]]] = {
    "ops": {"f": F, "type": Outcome, "phase": Phase, "isolation": Isolation},
    "mops": {
        "kind": Kind,
        "status": Outcome,
        "defect": Defect,
        "f": F,
        "type": Outcome,
        "phase": Phase,
        "isolation": Isolation,
    },
    "coverage": {"isolation": Isolation},
    "txns": {"type": Outcome},
    "elements": {"kind": Access, "type": Outcome},
}
_OFFSETS: Final = 1 << 44
"""The checks put an offset and the rank of its key into one number."""
_INT32: Final = 1 << 31
REASONS: Final = ("cluster", "scanner")


@dataclass(frozen=True)
class Bounds:
    """The least and the first number beyond the greatest that a column may hold, and what it counts."""

    column: str
    least: int
    beyond: int
    counts: str


def bounds(meta: Meta, operations: int, transactions: int = 0) -> dict[str, tuple[Bounds, ...]]:
    """By table."""
    return {
        "mops": (
            Bounds("op", 0, operations, "operations"),
            Bounds("key", -1, len(meta.keys), "keys in meta.json"),
            Bounds("producer", 0, len(meta.producers), "producers in meta.json"),
            Bounds("offset", 0, _OFFSETS, "offsets at most"),
            *(Bounds(name, 0, _INT32, "at most") for name in ("mop", "pos", "process", "worker")),
        ),
        "ops": tuple(Bounds(name, 0, _INT32, "at most") for name in ("process", "worker")),
        "elements": (Bounds("op", 0, transactions, "transactions"),),
        "coverage": (Bounds("key", 0, len(meta.keys), "keys in meta.json"),),
        "replicas": (Bounds("key", 0, len(meta.keys), "keys in meta.json"),),
    }


def check_contents(table: Path, schema: pa.Schema, limits: Iterable[Bounds]) -> None:
    """Raises HistoryError with the file and the column."""
    names = NAMES.get(table.name, {})
    for part in sorted(table.glob("*.parquet")):
        with pq.ParquetFile(part, read_dictionary=list(names)) as file:
            _check_nulls(part, file, schema)
            for each in limits:
                _check_numbers(part, file, each)
            _check_names(part, file, names)
    if table.name == "coverage":
        _check_coverage(table)


def _check_nulls(part: Path, file: pq.ParquetFile, schema: pa.Schema) -> None:
    for field in schema:
        if field.nullable:
            continue
        nulls = sum(each.null_count or 0 for each in _statistics(file, field.name) if each is not None)
        if nulls:
            raise HistoryError(f"{part}: column {field.name}: {nulls} rows have none, and every row needs one")


def _check_numbers(part: Path, file: pq.ParquetFile, limit: Bounds) -> None:
    for each in _statistics(file, limit.column):
        if each is None or not each.has_min_max:
            continue
        wrong = each.min if each.min < limit.least else each.max
        if not limit.least <= wrong < limit.beyond:
            raise HistoryError(
                f"{part}: column {limit.column}: {wrong} is out of range; there are {limit.beyond} {limit.counts}"
            )


def _statistics(file: pq.ParquetFile, column: str) -> list[pq.Statistics | None]:
    footer = file.metadata
    # By its path, because a list column has a path with more than one part.
    places = [place for place in range(footer.num_columns) if footer.schema.column(place).path == column]
    return [
        footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups) for place in places
    ]


def _check_names(part: Path, file: pq.ParquetFile, known: Mapping[str, type[StrEnum]]) -> None:
    for group in range(file.metadata.num_row_groups if known else 0):
        for column, names in known.items():
            for name in _names_in(file, group, column):
                if name is not None and name not in set(names):
                    raise HistoryError(
                        f"{part}: column {column}: unknown name {name!r}; expected one of {', '.join(names)}"
                    )


def _names_in(file: pq.ParquetFile, group: int, column: str) -> set[str | None]:
    place = file.schema_arrow.get_field_index(column)
    whole = not file.metadata.row_group(group).column(place).has_dictionary_page
    found: set[str | None] = set()
    # The dictionary comes whole with the first row.
    for batch in file.iter_batches(batch_size=65_536 if whole else 1, row_groups=[group], columns=[column]):
        found.update(batch.column(0).dictionary.to_pylist())
        if not whole:
            break
    return found


def _check_coverage(table: Path) -> None:
    """A key's scans are few, so they are read."""
    seen: set[tuple[int, str]] = set()
    for row in pq.read_table(table).to_pylist():
        scan = (row["key"], row["isolation"])
        if scan in seen:
            raise HistoryError(f"{table}: the scan of key {scan[0]}, {scan[1]}, is there twice; a key is scanned once")
        seen.add(scan)
        if not row["complete"] and row["reason"] not in REASONS:
            raise HistoryError(
                f"{table}: column reason of key {scan[0]}, {scan[1]}: {row['reason']!r} says not why the scan is "
                f"incomplete; expected one of {', '.join(REASONS)}"
            )
