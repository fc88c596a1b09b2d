"""Whether ``mops`` and ``ops`` tell the same story, and whether each step can be.

The checks read a step's operation from columns that ``mops`` repeats; were one of them wrong, an aborted send could
pass for a good one. So each row group of ``mops`` is compared with the operations it belongs to. Both tables are
sorted, so those are one or two row groups of ``ops``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from checkers.load import NONE
from checkers.rows import Bools, Ints, starts_of
from checkers.scan import ABSENT, Chunk, Codes, chunks, codes, numbers, read, span
from histories.schema import F, Isolation, Kind, Outcome, Phase

REPEATED_NUMBERS = ("process", "worker", "commit_ns")
REPEATED_TEXT = {"f": tuple(F), "type": tuple(Outcome), "phase": tuple(Phase), "isolation": tuple(Isolation)}
_KINDS, _OUTCOMES, _FS = tuple(Kind), tuple(Outcome), tuple(F)
_SEND, _POLL = _KINDS.index(Kind.SEND), _KINDS.index(Kind.POLL)
_OK, _FAIL, _INFO = (_OUTCOMES.index(each) for each in (Outcome.OK, Outcome.FAIL, Outcome.INFO))
_SENDS, _POLLS, _TXN = (_FS.index(each) for each in (F.SEND, F.POLL, F.TXN))

SENTENCES = {
    "#lonely": "{n} steps belong to no operation",
    **{f"#other:{name}": f"{{n}} operations have another {name} in ops than in mops"
       for name in (*REPEATED_NUMBERS, *REPEATED_TEXT)},
    "#mixed": "{n} steps have other columns of their operation than the step before them",
    "#outcome": "{n} operations ended otherwise than their sends",
    "#misplaced": "{n} steps are of a kind that their operation cannot have",
    "#wordless": "{n} sends lack an outcome or a value",
    "#keyless": "{n} steps that are no sends have no key",
    "#unread": "{n} polled records have neither a value nor a defect",
    "#twice": "{n} steps are not in the order of op, mop and pos, or there twice",
}  # fmt: skip
"""What each tally means. Where one is not zero the tables contradict each other."""
BACKWARDS = "#backwards"
"""Steps that complete before they were invoked."""

Column: TypeAlias = Ints | Codes

Edge: TypeAlias = tuple[int, tuple[int, int, int], tuple[int, int, int]]
"""Of a row group: its number, and op, mop and pos of its first and of its last row."""


@dataclass(frozen=True)
class OpsGroup:
    """A row group of ``ops``, and the operations in it."""

    chunk: Chunk
    lowest: int
    highest: int


def groups_of(folder: Path) -> tuple[OpsGroup, ...]:
    return tuple(
        OpsGroup(Chunk("ops", 0, (group,)), *span(group, "op"))
        for chunk in chunks(folder, "ops")
        for group in chunk.groups
    )


@dataclass(frozen=True)
class Agreement:
    """Compares row groups of ``mops`` with ``ops``; Spark carries it to the workers."""

    groups: tuple[OpsGroup, ...]
    imported: bool
    """Other harnesses may poll records without a value."""

    def of(self, sequence: int, steps: pa.Table) -> tuple[dict[str, int], list[Edge]]:
        """Tallies, and the edges of the row group, for :func:`unordered`."""
        op, mop, pos = (numbers(steps, name) for name in ("op", "mop", "pos"))
        if not len(op):
            return {}, []
        found = self._repeated(op, steps) | self._possible(op, steps)
        began, ended = numbers(steps, "invoke_ns"), numbers(steps, "complete_ns")
        found[BACKWARDS] = int(((ended != NONE) & (ended < began)).sum())
        follows = (op[1:] > op[:-1]) | (
            (op[1:] == op[:-1]) & ((mop[1:] > mop[:-1]) | ((mop[1:] == mop[:-1]) & (pos[1:] > pos[:-1])))
        )
        found["#twice"] = int((~follows).sum())
        first, last = ((int(op[at]), int(mop[at]), int(pos[at])) for at in (0, -1))
        return {name: n for name, n in found.items() if n}, [(sequence, first, last)]

    def _repeated(self, op: Ints, steps: pa.Table) -> dict[str, int]:
        """Columns that ``mops`` repeats: the same in all steps of an operation, and as ``ops`` has them."""
        starts = starts_of(op)
        again = op[1:] == op[:-1]
        mixed = np.zeros(len(again), dtype=bool)
        found = {}
        own_op, own = self._operations(int(op.min()), int(op.max()))
        at = np.searchsorted(own_op, op[starts])
        there = at < len(own_op)
        there[there] = own_op[at[there]] == op[starts][there]
        found["#lonely"] = int((~there).sum())
        at, starts = at[there], starts[there]
        for name, column in _repeated_columns(steps).items():
            mixed |= again & (column[1:] != column[:-1])
            found[f"#other:{name}"] = int((column[starts] != own[name][at]).sum())
        found["#mixed"] = int(mixed.sum())
        return found

    def _operations(self, lowest: int, highest: int) -> tuple[Ints, dict[str, Column]]:
        mine = [each for each in self.groups if each.lowest <= highest and each.highest >= lowest]
        pieces = [_operations_of(each.chunk, _stamp(each.chunk)) for each in mine]
        if not pieces:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, dict.fromkeys((*REPEATED_NUMBERS, *REPEATED_TEXT), nothing)
        op = np.concatenate([each for each, _ in pieces])
        columns = {name: np.concatenate([each[name] for _, each in pieces]) for name in pieces[0][1]}
        if (op[1:] >= op[:-1]).all():
            return op, columns
        order = np.argsort(op, kind="stable")
        return op[order], {name: column[order] for name, column in columns.items()}

    def _possible(self, op: Ints, steps: pa.Table) -> dict[str, int]:
        """Steps that no recorder writes."""
        kind, status = codes(steps, "kind", _KINDS), codes(steps, "status", _OUTCOMES)
        f, outcome = codes(steps, "f", _FS), codes(steps, "type", _OUTCOMES)
        sent, polled = kind == _SEND, kind == _POLL
        sound = steps.column("defect").is_null().to_numpy()
        no_value = steps.column("value").is_null().to_numpy()
        return {
            "#outcome": _otherwise(op, sent & (f == _SENDS), outcome, status),
            "#misplaced": int(
                (
                    (sent & (f != _SENDS) & (f != _TXN)) | (polled & (f != _POLLS) & (f != _TXN)) | (~polled & ~sound)
                ).sum()
            ),
            "#wordless": int((sent & ((status == ABSENT) | no_value)).sum()),
            "#keyless": int((~sent & (numbers(steps, "key") < 0)).sum()),
            "#unread": 0 if self.imported else int((polled & sound & no_value).sum()),
        }


@lru_cache(maxsize=2)
def _operations_of(chunk: Chunk, _stamp: tuple[int, int]) -> tuple[Ints, dict[str, Column]]:
    """Kept, because an operation has several steps: neighbouring row groups of ``mops`` ask for the same one."""
    ((_, table),) = read(chunk, ("op", *REPEATED_NUMBERS), tuple(REPEATED_TEXT))
    return numbers(table, "op"), _repeated_columns(table)


def _stamp(chunk: Chunk) -> tuple[int, int]:
    """Tells the file from another one of its name."""
    ((path, _),) = chunk.groups
    status = os.stat(path)
    return status.st_mtime_ns, status.st_ino


def _repeated_columns(table: pa.Table) -> dict[str, Column]:
    found: dict[str, Column] = {name: numbers(table, name) for name in REPEATED_NUMBERS}
    return found | {name: codes(table, name, names) for name, names in REPEATED_TEXT.items()}


def _otherwise(op: Ints, sends: Bools, outcome: Codes, status: Codes) -> int:
    """Operations that only send, and are ok although a send is unknown or all of them failed, or failed although one did
    not. Steps of the first and the last one of a row group may lie in another, so these are only looked at one by one."""
    which = np.flatnonzero(sends)
    if not len(which):
        return 0
    starts = starts_of(op[which])
    ok = np.add.reduceat((status[which] == _OK).astype(np.int64), starts)
    info = np.add.reduceat((status[which] == _INFO).astype(np.int64), starts)
    ended, number = outcome[which][starts], op[which][starts]
    whole = (number != op[0]) & (number != op[-1])
    wrong = (ended == _OK) & ((info > 0) | (whole & (ok == 0)))
    wrong |= (ended == _FAIL) & (ok + info > 0)
    return int(wrong.sum())


def unordered(edges: Iterable[Edge]) -> int:
    """Row groups that do not begin after the one before them ended."""
    ordered = sorted(edges)
    return sum(after[1] <= before[2] for before, after in pairwise(ordered))
