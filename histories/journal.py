"""The journal of one worker: what it is about to do, and what became of it, safe from a kill at any byte.

Every call is one ``write`` to the kernel before it returns: the invocation before the client is called, the
completion before the next call. Nothing is collected in the process, because what a kill takes with it
would make a value that was read look like one that nobody sent. (A crash of the machine is another matter:
nothing is synced while a run goes on.)

``invoke`` and ``complete`` take the values of ``histories.recorded``. The hot operations, pipelined sends and
polls, have ways of their own that take parallel sequences, so that no object is made per record.

Threads of one worker may share a writer. A write that fails leaves the file at its last whole frame and the
writer unusable: a run that can no longer be recorded must end.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

import numpy as np

from histories import journal_format as layout
from histories.errors import HistoryError
from histories.journal_format import BIT, NULL, NULL_INT32, Frame
from histories.recorded import Completion, CoverageRow, Invocation, RecordedEvent, ReplicaLog, Step
from histories.schema import F, Isolation, Kind, Outcome, Phase

_F: Final[dict[str, int]] = {each: code for code, each in enumerate(layout.F_CODES)}
_OUTCOME: Final[dict[str, int]] = {each: code for code, each in enumerate(layout.OUTCOME_CODES)}
_STATUS: Final[dict[str | None, int]] = {None: 0, **{each: code + 1 for each, code in _OUTCOME.items()}}
_KIND: Final[dict[str, int]] = {each: code for code, each in enumerate(layout.KIND_CODES)}
_PHASE: Final[dict[str, int]] = {each: code for code, each in enumerate(layout.PHASE_CODES)}
_ISOLATION: Final[dict[str | None, int]] = {
    None: 0,
    **{each: code + 1 for code, each in enumerate(layout.ISOLATION_CODES)},
}
_DEFECT: Final[dict[str | None, int]] = {
    None: 0,
    **{each: code + 1 for code, each in enumerate(layout.DEFECT_CODES)},
}
_OPEN_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
_PADDING: Final = tuple(b"\0" * (-length % layout.ALIGNMENT) for length in range(layout.ALIGNMENT))
_REPLICA_BATCHES: Final = 65_536
_KEY_VALUE: Final = BIT["key"] | BIT["value"]


class JournalWriter:
    """Appends to a file of its own. Times are nanoseconds since the start of the run, given by the caller."""

    def __init__(self, path: Path, run_id: str, worker: int, started_ns: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._texts: dict[str, int] = {}
        self._next_op = 0
        self._size = 0
        self._broken: str | None = None
        try:
            # Exclusive: appending to the journal of an earlier worker would count its operations anew.
            self._file = os.open(path, _OPEN_FLAGS, 0o644)
        except FileExistsError:
            raise HistoryError(f"{path}: exists already; every worker writes a journal of its own") from None
        header = {
            "magic": layout.MAGIC,
            "version": layout.VERSION,
            "run_id": run_id,
            "worker": worker,
            "started_ns": started_ns,
        }
        with self._lock:
            self._write(_json_frame(Frame.HEADER, header))

    def invoke(self, invocation: Invocation) -> int:
        """Journal that an operation is about to begin. Returns its number, for ``complete``."""
        steps = invocation.steps
        if any(step.kind is Kind.POLL for step in steps):
            raise ValueError("polled records are known at completion; an invocation has none")
        mask, columns = _columns_of(steps)
        return self._invoke(
            invocation.f,
            mask,
            invocation.invoke_ns,
            invocation.process,
            invocation.instance,
            invocation.producer,
            invocation.acks,
            invocation.phase,
            invocation.isolation,
            invocation.txn_id,
            len(steps),
            columns,
        )

    def complete(self, op: int, completion: Completion) -> None:
        mask, columns = _columns_of(completion.steps)
        self._complete(
            op,
            mask,
            completion.type,
            completion.complete_ns,
            completion.commit_ns,
            completion.error,
            len(completion.steps),
            columns,
        )

    def commit_requested(self, op: int, commit_ns: int) -> None:
        """Journal that the commit of a transaction is about to be asked for."""
        body = layout.COMMIT_REQUESTED.pack(Frame.COMMIT_REQUESTED, 0, 0, op, commit_ns)
        with self._lock:
            self._write(_frame(body))

    def invoke_sends(
        self,
        process: int,
        instance: int,
        producer: int,
        acks: int,
        phase: Phase,
        invoke_ns: int,
        keys: Sequence[int],
        values: Sequence[int],
    ) -> int:
        """A burst of pipelined sends: one operation, one step per send."""
        count = len(keys)
        if len(values) != count:
            raise _unequal(keys=keys, values=values)
        columns = array("q", values).tobytes() + array("i", keys).tobytes()
        return self._invoke(
            F.SEND,
            _KEY_VALUE,
            invoke_ns,
            process,
            instance,
            producer,
            acks,
            phase,
            None,
            None,
            count,
            columns,
        )

    def complete_sends(
        self,
        op: int,
        type: Outcome,
        complete_ns: int,
        error: str | None,
        statuses: Sequence[Outcome | None],
        offsets: Sequence[int | None],
        step_invoke_ns: Sequence[int | None] | None = None,
        step_complete_ns: Sequence[int | None] | None = None,
        steps_since_ns: int = 0,
    ) -> None:
        """The sends of a burst, in the order of its invocation; one without a status is unknown. The times of
        steps may count from another moment than the start of the run: from ``steps_since_ns`` before it."""
        count = len(statuses)
        if len(offsets) != count:
            raise _unequal(statuses=statuses, offsets=offsets)
        mask = BIT["offset"] | BIT["status"]
        columns = _int64(offsets)
        if step_invoke_ns is not None:
            if len(step_invoke_ns) != count:
                raise _unequal(statuses=statuses, step_invoke_ns=step_invoke_ns)
            mask |= BIT["invoke_ns"]
            columns += _int64(step_invoke_ns, steps_since_ns)
        if step_complete_ns is not None:
            if len(step_complete_ns) != count:
                raise _unequal(statuses=statuses, step_complete_ns=step_complete_ns)
            mask |= BIT["complete_ns"]
            columns += _int64(step_complete_ns, steps_since_ns)
        columns += _statuses(statuses)
        self._complete(op, mask, type, complete_ns, None, error, count, columns)

    def invoke_poll(
        self, process: int, instance: int, isolation: Isolation | None, phase: Phase, invoke_ns: int
    ) -> int:
        return self._invoke(F.POLL, 0, invoke_ns, process, instance, None, None, phase, isolation, None, 0, b"")

    def complete_poll(
        self,
        op: int,
        type: Outcome,
        complete_ns: int,
        error: str | None,
        keys: Sequence[int],
        offsets: Sequence[int | None],
        values: Sequence[int | None],
        defects: Sequence[str | None] | None = None,
    ) -> None:
        """The records of one poll, in the order in which the client returned them."""
        count = len(keys)
        if not len(offsets) == len(values) == count:
            raise _unequal(keys=keys, offsets=offsets, values=values)
        mask = _KEY_VALUE | BIT["offset"]
        columns = _int64(values) + _int64(offsets) + array("i", keys).tobytes()
        if defects is not None:
            if len(defects) != count:
                raise _unequal(keys=keys, defects=defects)
            mask |= BIT["defect"]
            columns += bytes([_DEFECT[defect] for defect in defects])
        self._complete(op, mask, type, complete_ns, None, error, count, columns)

    def event(self, event: RecordedEvent) -> None:
        if event.time_ns is None:
            raise ValueError(f"event {event.kind!r} has no time; it is stamped when emitted")
        with self._lock:
            self._write(_json_frame(Frame.EVENT, asdict(event)))

    def coverage(self, row: CoverageRow) -> None:
        with self._lock:
            self._write(_json_frame(Frame.COVERAGE, asdict(row)))

    def replica(self, log: ReplicaLog) -> None:
        with self._lock:
            for start in range(0, max(1, len(log.offset)), _REPLICA_BATCHES):
                end = min(start + _REPLICA_BATCHES, len(log.offset))
                self._write(_replica_frame(log.cut(start, end), len(log.offset) - end))

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
                self._broken = self._broken or "the journal is closed"

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _invoke(
        self,
        f: F,
        mask: int,
        invoke_ns: int,
        process: int,
        instance: int,
        producer: int | None,
        acks: int | None,
        phase: Phase,
        isolation: Isolation | None,
        txn_id: str | None,
        count: int,
        columns: bytes,
    ) -> int:
        # Number and write under one lock: the numbers are then dense in the order of the file.
        with self._lock:
            op = self._next_op
            text, introduction = self._text(txn_id) if txn_id is not None else (0, b"")
            body = layout.INVOKE.pack(
                Frame.INVOKE,
                _F[f],
                mask,
                op,
                invoke_ns,
                process,
                instance,
                NULL_INT32 if producer is None else producer,
                NULL_INT32 if acks is None else acks,
                _PHASE[phase],
                _ISOLATION[isolation],
                0,
                text,
                count,
                0,
            )
            self._write(introduction + _frame(body + columns))
            self._next_op = op + 1
            if txn_id is not None:
                self._texts[txn_id] = text
        return op

    def _complete(
        self,
        op: int,
        mask: int,
        outcome: Outcome,
        complete_ns: int,
        commit_ns: int | None,
        error: str | None,
        count: int,
        columns: bytes,
    ) -> None:
        with self._lock:
            text, introduction = self._text(error) if error is not None else (0, b"")
            body = layout.COMPLETE.pack(
                Frame.COMPLETE,
                _OUTCOME[outcome],
                mask,
                op,
                complete_ns,
                NULL if commit_ns is None else commit_ns,
                text,
                count,
            )
            self._write(introduction + _frame(body + columns))
            if error is not None:
                self._texts[error] = text

    def _text(self, text: str) -> tuple[int, bytes]:
        """The number of a text, and the frame that introduces it if it is new. It counts as introduced
        only once that frame is written: packing what follows it may fail."""
        number = self._texts.get(text)
        if number is not None:
            return number, b""
        number = len(self._texts) + 1
        encoded = text.encode()
        return number, _frame(layout.TEXT.pack(Frame.TEXT, 0, 0, number, len(encoded)) + encoded)

    def _write(self, data: bytes) -> None:
        if self._broken is not None:
            raise HistoryError(f"{self._path}: {self._broken}")
        try:
            written = os.write(self._file, data)
        except OSError as error:
            written, reason = 0, error.strerror or str(error)
        else:
            reason = f"only {written} of {len(data)} bytes were written"
        if written != len(data):
            self._broken = (
                f"the journal cannot be written after byte {self._size}: {reason}; free space on its disk "
                "and run again (what was recorded before is whole)"
            )
            if written:
                os.ftruncate(self._file, self._size)
            raise HistoryError(f"{self._path}: {self._broken}")
        self._size += written


def _frame(body: bytes) -> bytes:
    body += _PADDING[(layout.BODY_AT + len(body)) % layout.ALIGNMENT]
    length = layout.BODY_AT + len(body)
    if length > layout.MAX_FRAME:
        raise ValueError(f"one journal frame of {length} bytes; at most {layout.MAX_FRAME} are allowed")
    return layout.HEAD.pack(layout.SYNC, length, zlib.crc32(body, length)) + body


def _json_frame(frame: Frame, document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, separators=(",", ":")).encode()
    # Blanks fill the frame here, so that its whole payload is JSON.
    return _frame(layout.JSON.pack(frame, 0, 0) + text + b" " * (-len(text) % layout.ALIGNMENT))


def _replica_frame(log: ReplicaLog, to_come: int) -> bytes:
    body = layout.REPLICA.pack(
        Frame.REPLICA, 0, 0, log.broker, log.key, log.log_start, log.high_watermark, len(log.offset), to_come
    )
    columns = [getattr(log, name).astype(kind).tobytes() for name, kind in layout.REPLICA_COLUMNS]
    return _frame(body + b"".join(columns))


def _int64(numbers: Sequence[int | None], minus: int = 0) -> bytes:
    if isinstance(numbers, array) and numbers.typecode == "q":
        return (np.frombuffer(numbers, np.int64) - minus).tobytes()
    try:
        packed = np.array(array("q", cast("Sequence[int]", numbers)))
    except TypeError:
        packed = np.array([NULL if number is None else number - minus for number in numbers], np.int64)
    else:
        packed -= minus
    return packed.tobytes()


def _statuses(statuses: Sequence[Outcome | None]) -> bytes:
    """Mostly all the same; they are then looked up once."""
    if statuses and statuses.count(statuses[0]) == len(statuses):
        return bytes([_STATUS[statuses[0]]]) * len(statuses)
    return bytes([_STATUS[status] for status in statuses])


def _unequal(**sequences: Sequence[object]) -> ValueError:
    """A column of another length would shift all columns behind it."""
    lengths = {name: len(each) for name, each in sequences.items()}
    return ValueError(f"parallel sequences of unequal length: {lengths}")


def _columns_of(steps: Sequence[Step]) -> tuple[int, bytes]:
    """The columns of steps that say more than the defaults, in the order of COLUMNS."""
    if not steps:
        return 0, b""
    mask = BIT["key"] | BIT["kind"]
    columns = []
    for name, numbers in (
        ("value", [step.value for step in steps]),
        ("offset", [step.offset for step in steps]),
        ("invoke_ns", [step.invoke_ns for step in steps]),
        ("complete_ns", [step.complete_ns for step in steps]),
    ):
        if any(number is not None for number in numbers):
            mask |= BIT[name]
            columns.append(_int64(numbers))
    columns.append(array("i", [step.key for step in steps]).tobytes())
    # Nobody placed them: they are counted when read.
    if any(step.mop or step.pos for step in steps):
        mask |= BIT["mop"] | BIT["pos"]
        columns.append(array("i", [step.mop for step in steps]).tobytes())
        columns.append(array("i", [step.pos for step in steps]).tobytes())
    columns.append(bytes([_KIND[step.kind] for step in steps]))
    if any(step.status is not None for step in steps):
        mask |= BIT["status"]
        columns.append(bytes([_STATUS[step.status] for step in steps]))
    if any(step.defect is not None for step in steps):
        mask |= BIT["defect"]
        columns.append(bytes([_DEFECT[step.defect] for step in steps]))
    return mask, b"".join(columns)
