"""The layout of a journal file, shared by its writer and its reader.

A journal is a sequence of frames. Every frame is a multiple of 8 bytes long, so every 64-bit number in the
file is aligned and a reader can take whole columns out of it without touching single rows::

    byte 0   u32  SYNC        a reader that met a broken frame looks for the next one by it
    byte 4   u32  length      of the whole frame
    byte 8   u32  crc32       of everything from byte 12 on, seeded with the length
    byte 12  u8   frame type  see Frame
    byte 13  u8   code        an invocation's f, a completion's type
    byte 14  u16  columns     which columns of steps follow, bit by bit in the order of COLUMNS
    byte 16  ...  fixed fields, see INVOKE and COMPLETE; JSON for the rare frames

The steps of an operation follow as columns, the wide ones first. A column that is not there is null, or
has its default: ``kind`` is what the operation does, ``mop`` and ``pos`` are counted (sends and other
steps are steps of their own; the records of a poll are positions in one step).

Text that repeats (transactional ids, error codes) is journalled once per file as a TEXT frame, and then
by its number; 0 is null. Null numbers are the smallest of their type, which no caller may use as a value.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, Final

import numpy as np

from histories.schema import Defect, F, Isolation, Kind, Outcome, Phase

VERSION: Final = 1
MAGIC: Final = "tidemark-journal"
SUFFIX: Final = ".journal"
SYNC: Final = 0x1A4D54A7
ALIGNMENT: Final = 8
MAX_FRAME: Final = 64 * 1024 * 1024
NULL: Final = -(2**63)
NULL_INT32: Final = -(2**31)

HEAD = Struct("<III")
BODY_AT: Final = HEAD.size
PAYLOAD_AT: Final = 16


class Frame(IntEnum):
    HEADER = 1
    """Always the first: run id, worker, start of the run."""
    INVOKE = 2
    COMPLETE = 3
    COMMIT_REQUESTED = 4
    TEXT = 5
    EVENT = 6
    COVERAGE = 7
    REPLICA = 8
    """Batches of one replica's log, and how many are to come: a long log takes several frames, one after the other."""


# Codes are places in these tuples; a new member goes to the end of its enum, or VERSION must change.
F_CODES: Final = tuple(F)
OUTCOME_CODES: Final = tuple(Outcome)
KIND_CODES: Final = tuple(Kind)
PHASE_CODES: Final = tuple(Phase)
ISOLATION_CODES: Final = tuple(Isolation)
DEFECT_CODES: Final = tuple(Defect)

COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("value", "q"),
    ("offset", "q"),
    ("invoke_ns", "q"),
    ("complete_ns", "q"),
    ("key", "i"),
    ("mop", "i"),
    ("pos", "i"),
    ("kind", "B"),
    ("status", "B"),  # 0: none, else the place in OUTCOME_CODES + 1
    ("defect", "B"),  # 0: none, else the place in DEFECT_CODES + 1
)
BIT: Final = {name: 1 << place for place, (name, _) in enumerate(COLUMNS)}
NUMPY_TYPE: Final[dict[str, np.dtype[Any]]] = {
    "q": np.dtype("<i8"),
    "i": np.dtype("<i4"),
    "B": np.dtype("u1"),
}

INVOKE = Struct("<BBHqqiiiiBBHIII")
COMPLETE = Struct("<BBHqqqII")
COMMIT_REQUESTED = Struct("<BBHqq")
TEXT = Struct("<BBHII")
JSON = Struct("<BBH")
REPLICA = Struct("<BBHiiqqII")
REPLICA_COLUMNS: Final = (("offset", "<i8"), ("last_offset", "<i8"), ("digest", "<i8"), ("leader_epoch", "<i4"))

_HEAD_FIELDS = [("sync", "<u4"), ("length", "<u4"), ("crc", "<u4"), ("frame", "u1"), ("code", "u1")]
INVOKE_DTYPE: Final = np.dtype(
    [
        *_HEAD_FIELDS,
        ("columns", "<u2"),
        ("op", "<i8"),
        ("invoke_ns", "<i8"),
        ("process", "<i4"),
        ("instance", "<i4"),
        ("producer", "<i4"),
        ("acks", "<i4"),
        ("phase", "u1"),
        ("isolation", "u1"),  # 0: none, else the place in ISOLATION_CODES + 1
        ("unused", "<u2"),
        ("txn_id", "<u4"),
        ("steps", "<u4"),
        ("unused2", "<u4"),
    ]
)
COMPLETE_DTYPE: Final = np.dtype(
    [
        *_HEAD_FIELDS,
        ("columns", "<u2"),
        ("op", "<i8"),
        ("complete_ns", "<i8"),
        ("commit_ns", "<i8"),
        ("error", "<u4"),
        ("steps", "<u4"),
    ]
)
COMMIT_REQUESTED_DTYPE: Final = np.dtype([*_HEAD_FIELDS, ("columns", "<u2"), ("op", "<i8"), ("commit_ns", "<i8")])

assert BODY_AT + INVOKE.size == INVOKE_DTYPE.itemsize
assert BODY_AT + COMPLETE.size == COMPLETE_DTYPE.itemsize
assert BODY_AT + COMMIT_REQUESTED.size == COMMIT_REQUESTED_DTYPE.itemsize
