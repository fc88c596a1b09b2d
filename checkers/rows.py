"""The rows of one partition as columns of numpy, and the few tools that every check on them uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.load import FLAGS, INFO, NONE
from checkers.promises import Promises

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_OFFSET_BITS = 44
"""An offset and the rank of its key share one int64: 2^44 offsets, 2^19 keys in a partition."""
MOST_OFFSET = (1 << _OFFSET_BITS) - 1


class _Column:
    """A column of Rows, taken from its source when it is first asked for: a check uses a few of them."""

    def __set_name__(self, owner: type[Rows], name: str) -> None:
        self._name = name

    def __get__(self, rows: Rows, owner: type[Rows]) -> Ints:
        return rows.column(self._name)


class Rows:
    """Columns of equal length; ``key`` is below zero where a send's topic was deleted while it was open.

    ``where`` and ``take`` choose rows; only the columns that are then used are copied.
    """

    key = _Column()
    value = _Column()
    offset = _Column()
    process = _Column()
    op = _Column()
    step = _Column()
    invoke_ns = _Column()
    complete_ns = _Column()
    commit_ns = _Column()
    producer = _Column()
    worker = _Column()
    fate = _Column()
    flags = _Column()

    def __init__(self, source: Mapping[str, Ints], index: Ints | None = None) -> None:
        self._source = source
        self._index = index
        self._taken: dict[str, Ints] = {}
        self._count = len(source["key"]) if index is None else len(index)

    @staticmethod
    def of(given: Mapping[str, Ints], promises: Promises) -> Rows:
        """The rows in the order of their operations."""
        columns: dict[str, Any] = {**given, "flags": given["flags"].astype(np.int16)}
        if promises.acks_zero.any():
            # a send with acks=0 is reported delivered by a client that knows nothing
            blind = promises.acks_zero[columns["producer"]]
            columns["fate"] = np.where(blind, INFO, columns["fate"])
            columns["flags"] = np.where(blind, columns["flags"] & ~_bit("acked"), columns["flags"])
        return Rows(columns)

    def column(self, name: str) -> Ints:
        if self._index is None:
            return self._source[name]
        if name not in self._taken:
            self._taken[name] = self._source[name][self._index]
        return self._taken[name]

    def flag(self, name: str) -> Bools:
        return np.asarray((self.flags & _bit(name)) != 0)

    def where(self, mask: Bools) -> Rows:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, order: Ints) -> Rows:
        return Rows(self._source, order if self._index is None else self._index[order])

    @property
    def has_offset(self) -> Bools:
        return np.asarray(self.offset != NONE)

    def __len__(self) -> int:
        return self._count


def _bit(flag: str) -> int:
    return 1 << FLAGS.index(flag)


@dataclass(frozen=True)
class KeyTable:
    """Settings and scans of the keys, as arrays by key."""

    unclean: Bools
    exempt: Bools
    compacted: Bools
    raw_complete: Bools
    raw_start: Ints
    committed_complete: Bools
    committed_start: Ints

    @staticmethod
    def of(table: pa.Table) -> KeyTable:
        return KeyTable(**{name: table.column(name).to_numpy() for name in KeyTable.__annotations__})


def starts_of(*sorted_columns: Ints) -> Ints:
    """Where each run of equal rows begins, in columns sorted together."""
    changed = np.zeros(len(sorted_columns[0]), dtype=bool)
    changed[:1] = True
    for column in sorted_columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def numbered(starts: Ints, count: int) -> Ints:
    """The number of its run for each of ``count`` entries; the runs begin at ``starts``, the first of them at 0."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=count))


def place(key: Ints, offset: Ints) -> Ints:
    """Key and offset as one number that sorts like the pair."""
    assert not len(offset) or (offset.min() >= 0 and offset.max() < 1 << _OFFSET_BITS), "an offset is out of range"
    assert not len(key) or key.max() < 1 << (62 - _OFFSET_BITS), "a key is out of range"
    return (key << _OFFSET_BITS) | offset
