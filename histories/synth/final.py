"""The final phase of a synthetic run: a sentinel to each key, then two complete scans of each.

The log of the main phase does not fit into memory in a long run, so each stretch leaves its part in a
file, and the scans stream over the parts. All scans follow each other, one operation at a time: an
operation's times then follow from its number, and an operation may be cut by the end of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from histories.schema import COVERAGE
from histories.synth import rows
from histories.synth.timeline import FAIL, NEVER, OK, Ints

SCAN_BATCH: Final = 500
_STEP_NS: Final = 1_000_000
_PIECE_ROWS: Final = 262_144
_NAMES: Final = ("offset", "value", "flags")

Write = Callable[[str, pa.Table], None]


@dataclass
class Spill:
    """The log of the main phase, one file per stretch."""

    folder: Path
    parts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    pieces: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Of each key: part, first row, end."""
    high_watermark: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    polls: int = 0
    """How many polls both scans of what is here will need, without the last, partial ones."""

    def add(self, log: dict[str, Ints]) -> None:
        flags = log["raw"] | (log["committed"] << 1) | (log["defect"] << 2)
        path = self.folder / f"{len(self.parts)}.npy"
        np.save(path, np.stack([log["offset"], log["value"], flags]))
        part = len(self.parts)
        self.parts.append(np.load(path, mmap_mode="r"))
        keys, first = np.unique(log["key"], return_index=True)
        for key, low, high in zip(keys.tolist(), first.tolist(), [*first.tolist()[1:], log["key"].size], strict=True):
            self.pieces.setdefault(key, []).append((part, low, high))
            self.high_watermark[key] = int(log["offset"][high - 1]) + 1
            self.counts[key] = self.counts.get(key, 0) + high - low

    def operations(self, keys: int) -> int:
        """How many operations the final phase of all that takes at most."""
        polls = sum(-(-(count + 1) // SCAN_BATCH) for count in self.counts.values())
        return 3 * keys + 2 * (polls + keys - len(self.counts))

    def rows(self, key: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        for part, low, high in self.pieces.get(key, ()):
            offset, value, flags = (np.asarray(each) for each in self.parts[part][:, low:high])
            yield offset, value, flags


@dataclass
class FinalPhase:
    """Writes the final phase, from an operation number and a time on."""

    write: Write
    spill: Spill
    keys: int
    unread_key: int | None
    start_ns: int
    first_op: int
    first_process: int
    next_value: int
    next_op: int = field(init=False)
    next_process: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_op = self.first_op
        self.next_process = self.first_process

    def run(self, total_ops: int) -> None:
        """Everything; the last scanner goes on polling nothing until there are ``total_ops``."""
        served = np.array([key for key in range(self.keys) if key != self.unread_key], np.int64)
        self._sentinels(served)
        for isolation in (rows.UNCOMMITTED, rows.COMMITTED):
            self._scan(served, isolation)
            if self.unread_key is not None:
                self._refused(isolation)
        self._idle(total_ops - self.next_op)
        self._coverage(served)

    def _times(self, op: Ints) -> tuple[Ints, Ints]:
        invoke = self.start_ns + (op - self.first_op) * _STEP_NS
        return invoke, invoke + _STEP_NS // 2

    def _ops(self, op: Ints, process: Ints, f: Ints, type_: int, isolation: int) -> None:
        invoke, complete = self._times(op)
        zeros = np.zeros(op.size, np.int64)
        columns = {
            "op": op,
            "process": process,
            "worker": zeros,
            "instance": zeros,
            "f": f,
            "type": zeros + type_,
            "invoke_ns": invoke,
            "complete_ns": complete,
            "phase": zeros + 1,
            "isolation": zeros + isolation,
            "acks": np.where(f == rows.SEND, -1, NEVER - 1),
            "error": zeros + (2 if type_ == FAIL else NEVER),
        }
        self.write("ops", rows.ops_table(columns))

    def _mops(self, op: Ints, process: Ints, kind: Ints, isolation: int, columns: dict[str, Ints]) -> None:
        invoke, complete = self._times(op)
        zeros = np.zeros(op.size, np.int64)
        f = np.choose(kind, [rows.SEND, rows.POLL, rows.ASSIGN])
        common = {
            "op": op,
            "mop": zeros,
            "pos": zeros,
            "kind": kind,
            "invoke_ns": invoke,
            "complete_ns": complete,
            "process": process,
            "worker": zeros,
            "f": f,
            "type": zeros + OK,
            "phase": zeros + 1,
            "isolation": zeros + isolation,
        }
        self.write("mops", rows.mops_table({**common, **columns}))

    def _sentinels(self, served: Ints) -> None:
        op = self.next_op + np.arange(served.size)
        process = np.full(op.size, self.next_process)
        zeros = np.zeros(op.size, np.int64)
        self._ops(op, process, zeros + rows.SEND, OK, NEVER)
        sentinels = {
            "key": served,
            "offset": np.array([self.spill.high_watermark.get(key, 0) for key in served.tolist()], np.int64),
            "value": self.next_value + np.arange(op.size),
            "status": zeros + OK,
            "producer": zeros,
        }
        self._mops(op, process, zeros + rows.K_SEND, NEVER, sentinels)
        self.next_op += op.size
        self.next_process += 1

    def _pieces(self, served: Ints, isolation: int) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Key, offset, value and defect of everything that this scan returns, in pieces."""
        waiting: list[tuple[Ints, Ints, Ints, Ints]] = []
        count = 0
        for place, key in enumerate(served.tolist()):
            sentinel = (self.spill.high_watermark.get(key, 0), self.next_value + place, 3)
            tail = tuple(np.array([each], np.int64) for each in sentinel)
            for offset, value, flags in [*self.spill.rows(key), tail]:
                seen = (flags >> isolation) & 1 == 1
                waiting.append((np.full(int(seen.sum()), key), offset[seen], value[seen], flags[seen] >> 2))
                count += waiting[-1][0].size
                if count >= _PIECE_ROWS:
                    yield _joined(waiting)
                    waiting, count = [], 0
        if waiting:
            yield _joined(waiting)

    def _scan(self, served: Ints, isolation: int) -> None:
        """One scan of every key by a fresh process: an assignment, then polls of ``SCAN_BATCH`` records."""
        last_key, last_nth = -1, -1
        for key, offset, value, defect in self._pieces(served, isolation):
            starts = np.flatnonzero(np.diff(key, prepend=-1))
            nth = np.arange(key.size) - np.repeat(starts, np.diff(starts, append=key.size))
            if key[0] == last_key:
                nth[key == last_key] += last_nth + 1
            last_key, last_nth = int(key[-1]), int(nth[-1])
            new_key, new_poll = nth == 0, nth % SCAN_BATCH == 0
            op = self.next_op - 1 + np.cumsum(new_key.astype(np.int64) + new_poll)
            process = self.next_process - 1 + np.cumsum(new_key)
            assign_op, assign_process = op[new_key] - 1, process[new_key]
            all_ops = np.concatenate([assign_op, op[new_poll]])
            order = np.argsort(all_ops)
            kinds = np.repeat([rows.ASSIGN, rows.POLL], [assign_op.size, int(new_poll.sum())])
            owners = np.concatenate([assign_process, process[new_poll]])
            self._ops(all_ops[order], owners[order], kinds[order], OK, isolation)
            self._scan_mops(
                isolation,
                (assign_op, assign_process, key[new_key]),
                (op, process, {"key": key, "offset": offset, "value": value, "defect": defect - 1}, nth),
            )
            self.next_op, self.next_process = int(op[-1]) + 1, int(process[-1]) + 1

    def _scan_mops(
        self,
        isolation: int,
        assigned: tuple[Ints, Ints, Ints],
        polled: tuple[Ints, Ints, dict[str, Ints], Ints],
    ) -> None:
        assign_op, assign_process, assign_key = assigned
        op, process, columns, nth = polled
        zeros = np.zeros(assign_op.size, np.int64)
        all_ops = np.concatenate([assign_op, op])
        order = np.argsort(all_ops, kind="stable")
        seek = {"key": assign_key, "offset": zeros, "value": zeros - 1, "defect": zeros - 1}
        merged = {name: np.concatenate([seek[name], column])[order] for name, column in columns.items()}
        merged["pos"] = np.concatenate([zeros, nth % SCAN_BATCH])[order]
        kind = np.repeat([rows.K_SEEK, rows.K_POLL], [assign_op.size, op.size])[order]
        owners = np.concatenate([assign_process, process])[order]
        self._mops(all_ops[order], owners, kind, isolation, merged)

    def _refused(self, isolation: int) -> None:
        """The scan of the key that is not served: an assignment, then a poll that fails."""
        op = self.next_op + np.arange(2)
        process = np.full(2, self.next_process)
        self._ops(op[:1], process[:1], np.array([rows.ASSIGN]), OK, isolation)
        self._ops(op[1:], process[1:], np.array([rows.POLL]), FAIL, isolation)
        seek = {"key": np.array([self.unread_key or 0]), "offset": np.zeros(1, np.int64)}
        self._mops(op[:1], process[:1], np.array([rows.K_SEEK]), isolation, seek)
        self.next_op += 2
        self.next_process += 1

    def _idle(self, count: int) -> None:
        op = self.next_op + np.arange(count)
        self._ops(op, np.full(count, self.next_process), np.full(count, rows.POLL), OK, rows.COMMITTED)
        self.next_op += count
        self.next_process += 1

    def _coverage(self, served: Ints) -> None:
        coverage = []
        for isolation in rows.ISOLATIONS:
            for key in range(self.keys):
                complete = key != self.unread_key
                end = self.spill.high_watermark.get(key, 0) + int(complete)
                coverage.append(
                    {
                        "key": key,
                        "isolation": isolation,
                        "log_start": 0,
                        "high_watermark": end,
                        "last_stable_offset": end,
                        "position": end if complete else 0,
                        "complete": complete,
                        "reason": None if complete else "scanner",
                    }
                )
        assert len(coverage) == 2 * (served.size + int(self.unread_key is not None))
        self.write("coverage", pa.Table.from_pylist(coverage, schema=COVERAGE))


def _joined(parts: list[tuple[Ints, Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints, Ints]:
    key, offset, value, defect = (np.concatenate(column) for column in zip(*parts, strict=True))
    return key, offset, value, defect
