"""The rows of one partition as columns of numpy, and the few tools that every check on them uses."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Rows:
    """Columns of equal length; ``key`` is below zero where a send's topic was deleted while it was open."""

    key: Ints
    value: Ints
    offset: Ints
    process: Ints
    op: Ints
    step: Ints
    invoke_ns: Ints
    complete_ns: Ints
    commit_ns: Ints
    producer: Ints
    worker: Ints
    fate: Ints
    flags: Ints

    @staticmethod
    def of(table: pa.Table, promises: Promises) -> Rows:
        columns: dict[str, Any] = {
            name: table.column(name).to_numpy().astype(np.int64, copy=False) for name in Rows.__annotations__
        }
        sent = (columns["flags"] & 1).astype(bool)
        # a send with acks=0 is reported delivered by a client that knows nothing
        blind = sent & promises.acks_zero[columns["producer"]]
        columns["fate"] = np.where(blind, INFO, columns["fate"])
        columns["flags"] = np.where(blind, columns["flags"] & ~_bit("acked"), columns["flags"])
        return Rows(**columns)

    def flag(self, name: str) -> Bools:
        return np.asarray((self.flags & _bit(name)) != 0)

    def where(self, mask: Bools) -> Rows:
        return Rows(**{name: getattr(self, name)[mask] for name in Rows.__annotations__})

    def take(self, order: Ints) -> Rows:
        return Rows(**{name: getattr(self, name)[order] for name in Rows.__annotations__})

    @property
    def has_offset(self) -> Bools:
        return np.asarray(self.offset != NONE)

    def __len__(self) -> int:
        return len(self.key)


def _bit(flag: str) -> int:
    return 1 << list(FLAGS).index(flag)


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
    if not len(sorted_columns[0]):
        return np.zeros(0, dtype=np.int64)
    changed = np.zeros(len(sorted_columns[0]), dtype=bool)
    changed[0] = True
    for column in sorted_columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def place(key: Ints, offset: Ints) -> Ints:
    """Key and offset as one number that sorts like the pair."""
    assert not len(offset) or (offset.min() >= 0 and offset.max() < 1 << _OFFSET_BITS), "an offset is out of range"
    assert not len(key) or key.max() < 1 << (62 - _OFFSET_BITS), "a key is out of range"
    return (key << _OFFSET_BITS) | offset
