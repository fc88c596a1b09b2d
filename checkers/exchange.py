"""Columns on their way between workers: packed narrow, and cut by the partition they belong to.

A column of int64 becomes its least value and what each entry lies above it, in as few bytes as the largest
difference needs; NONE becomes zero. A row of the checks is about 30 bytes then instead of 100, and a column in
which all entries are the same is no bytes at all. Spark moves, stores and spills the pieces; it sees no single row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from checkers.load import NONE

Ints = npt.NDArray[np.int64]
Columns: TypeAlias = Mapping[str, Ints]

_WIDTHS = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class Packed:
    """One column. ``above`` is empty where all entries are ``base``."""

    base: int
    has_none: bool
    above: npt.NDArray[Any]

    @staticmethod
    def of(column: Ints) -> Packed:
        low, high = int(column.min()), int(column.max())
        if low == high:
            return Packed(low, False, np.zeros(0, dtype=np.uint8))
        has_none = low == NONE
        base = low - 1
        if has_none:
            base = int(column.min(where=column != NONE, initial=high)) - 1
        width = next((each for each in _WIDTHS if high - base <= np.iinfo(each).max), np.int64)
        if width is np.int64:
            return Packed(0, False, column)
        above = (column - base).astype(width)
        if has_none:
            above[column == NONE] = 0
        return Packed(base, has_none, above)

    def picked(self, order: Ints) -> Packed:
        return self if not len(self.above) else Packed(self.base, self.has_none, self.above[order])

    def cut(self, start: int, end: int) -> Packed:
        return self if not len(self.above) else Packed(self.base, self.has_none, self.above[start:end])

    def unpack_into(self, column: Ints) -> None:
        if not len(self.above):
            column[:] = self.base
            return
        column[:] = self.above
        column += self.base
        if self.has_none:
            column[self.above == 0] = NONE


@dataclass(frozen=True)
class Piece:
    """Rows of one table that go from one reader to one partition. ``sequence`` says where they stood in the table."""

    table: str
    sequence: int
    count: int
    columns: dict[str, Packed]


def scattered(table: str, sequence: int, columns: Columns, part: Ints, parts: int) -> Iterator[tuple[int, Piece]]:
    """The rows as one piece for each partition in ``part`` (one number for each row), in the order they have."""
    if not len(part):
        return
    packed = {name: Packed.of(column) for name, column in columns.items()}
    order = np.argsort(part.astype(np.uint16), kind="stable")
    packed = {name: each.picked(order) for name, each in packed.items()}
    ends = np.cumsum(np.bincount(part, minlength=parts)).tolist()
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            cut = {name: each.cut(start, end) for name, each in packed.items()}
            yield number, Piece(table, sequence, end - start, cut)
        start = end


def gathered(pieces: Iterable[Piece], names: Sequence[str]) -> dict[str, Ints]:
    """The rows of all pieces, in the order of the table."""
    ordered = sorted(pieces, key=lambda piece: piece.sequence)
    total = sum(piece.count for piece in ordered)
    columns = {}
    for name in names:
        column = columns[name] = np.empty(total, dtype=np.int64)
        start = 0
        for piece in ordered:
            piece.columns[name].unpack_into(column[start : start + piece.count])
            start += piece.count
    return columns
