"""A readable way to write small histories by hand, for tests and examples.

    b = HistoryBuilder()
    b.send(process=0, key=0, value=1, offset=0)
    b.poll(process=1, records=[(0, 0, 1)])
    b.scan(key=0, records=[(0, 1)])
    tables, meta = b.tables(), b.meta()

Operations may be added in any order: ``tables()`` sorts them by invocation and numbers them. One that is
added without ``at=(invoke_ns, complete_ns)`` comes after every earlier one and overlaps none. Nothing is
checked here, because an example of a broken history is what most tests want to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from histories.meta import Exercise, KeyInfo, Meta, ProducerSettings, TopicSettings
from histories.schema import TABLES, F, Isolation, Kind, Outcome, Phase
from histories.writer import HistoryWriter

Times = tuple[int, int | None]
Record = tuple[int, int | None, int | None]
"""Key, offset, value."""

_STEP_NS: Final = 10
_AUTO: Final = -1


@dataclass(frozen=True)
class Send:
    """One send of a burst or of a transaction."""

    key: int
    value: int
    offset: int | None = None
    status: str | None = None
    """None: that of the operation."""
    at: Times | None = None
    """None: inside a burst the times of the operation, inside a transaction a slot of its own."""
    record_key: int | None = None
    tombstone: bool | None = None


@dataclass(frozen=True)
class Poll:
    """One poll of a transaction, or the records of a poll operation."""

    records: Sequence[Record] = ()
    at: Times | None = None
    defect: str | None = None


@dataclass(frozen=True)
class Seek:
    """The start of a new position."""

    key: int
    offset: int | None = None
    kind: str = Kind.SEEK


Step = Send | Poll | Seek


@dataclass
class _Operation:
    row: dict[str, Any]
    mops: list[dict[str, Any]] = field(default_factory=list)


class HistoryBuilder:
    """Collects operations, scans, events and settings; then gives tables, ``Meta`` or a sealed folder."""

    def __init__(self, run_id: str = "built") -> None:
        self._run_id = run_id
        self._operations: list[_Operation] = []
        self._coverage: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._replicas: list[dict[str, Any]] = []
        self._keys: list[KeyInfo] = []
        self._topics: dict[str, TopicSettings] = {}
        self._producers: list[ProducerSettings] = []
        self._workers: dict[int, int] = {}
        self._clock_error_ns: dict[str, int] = {}
        self._exercise = Exercise()
        self._expect: tuple[str, ...] = ()
        self._retries: int | None = None
        self._now = 0
        self._scanners = 1_000_000

    # Settings

    def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = 3,
        min_insync_replicas: int = 2,
        unclean_leader_election: bool = False,
        cleanup_policy: str = "delete",
        incarnation: int = 0,
        deleted: bool = False,
    ) -> tuple[int, ...]:
        """Declares a topic (or one more incarnation of it) and returns its keys. A history that declares
        none has one safe topic with as many partitions as its keys need."""
        self._topics[name] = TopicSettings(
            partitions, replication_factor, min_insync_replicas, unclean_leader_election, cleanup_policy
        )
        first = len(self._keys)
        self._keys += [KeyInfo(name, each, incarnation, deleted) for each in range(partitions)]
        return tuple(range(first, len(self._keys)))

    def producer(
        self, *, acks: int = -1, idempotent: bool = True, retries: int = 2_147_483_647, max_in_flight: int = 5
    ) -> int:
        """Declares producer settings and returns their index. Number 0 is safe unless declared otherwise."""
        self._producers.append(ProducerSettings(acks, idempotent, retries, max_in_flight))
        return len(self._producers) - 1

    def worker(self, number: int, processes: Iterable[int], clock_error_ns: int = 0) -> None:
        """Puts processes on a worker. Processes that are not named are all on worker 0."""
        for process in processes:
            self._workers[process] = number
        self._clock_error_ns[str(number)] = clock_error_ns

    def promise(
        self, *, exercise: Exercise | None = None, expect: Sequence[str] = (), retries: int | None = None
    ) -> None:
        self._exercise = exercise or self._exercise
        self._expect = tuple(expect)
        self._retries = retries

    # Operations

    def send(
        self,
        process: int,
        key: int,
        value: int,
        offset: int | None = None,
        type: str = Outcome.OK,
        at: Times | None = None,
        *,
        record_key: int | None = None,
        tombstone: bool | None = None,
        **options: Any,
    ) -> None:
        """A single send. Options are those of ``operation``."""
        step = Send(key, value, offset, record_key=record_key, tombstone=tombstone)
        self.operation(F.SEND, process, [step], type, at, **options)

    def burst(
        self,
        process: int,
        sends: Sequence[Send],
        type: str = Outcome.OK,
        at: Times | None = None,
        **options: Any,
    ) -> None:
        """Several pipelined sends in one operation."""
        self.operation(F.SEND, process, sends, type, at, **options)

    def poll(
        self,
        process: int,
        records: Sequence[Record],
        isolation: str = Isolation.READ_COMMITTED,
        type: str = Outcome.OK,
        at: Times | None = None,
        *,
        defect: str | None = None,
        **options: Any,
    ) -> None:
        """One poll; ``defect`` applies to every record of it."""
        self.operation(F.POLL, process, [Poll(records, defect=defect)], type, at, isolation=isolation, **options)

    def assign(
        self,
        process: int,
        keys: Sequence[int],
        offsets: Sequence[int | None] | None = None,
        at: Times | None = None,
        **options: Any,
    ) -> None:
        """Gains keys: each starts a new position, at an unknown offset unless ``offsets`` says it."""
        starts = offsets if offsets is not None else [None] * len(keys)
        steps = [Seek(key, offset) for key, offset in zip(keys, starts, strict=True)]
        self.operation(F.ASSIGN, process, steps, Outcome.OK, at, **options)

    def crash(self, process: int, at: Times | None = None) -> None:
        self.operation(F.CRASH, process, [], Outcome.INFO, at)

    def txn(
        self,
        process: int,
        steps: Sequence[Step],
        type: str = Outcome.OK,
        at: Times | None = None,
        commit_at: int | None = _AUTO,
        *,
        isolation: str = Isolation.READ_COMMITTED,
        txn_id: str | None = None,
        **options: Any,
    ) -> None:
        """A transaction. Unless ``commit_at`` is given, commit is requested after the last step when the
        transaction is ok or info, and never when it failed."""
        self.operation(
            F.TXN,
            process,
            steps,
            type,
            at,
            commit_at=commit_at,
            isolation=isolation,
            txn_id=txn_id or f"txn-{process}",
            **options,
        )

    def operation(
        self,
        f: str,
        process: int,
        steps: Sequence[Step],
        type: str = Outcome.OK,
        at: Times | None = None,
        *,
        commit_at: int | None = None,
        isolation: str | None = None,
        producer: int = 0,
        phase: str = Phase.MAIN,
        instance: int = 0,
        txn_id: str | None = None,
        group: str | None = None,
        generation: int | None = None,
        error: str | None = None,
    ) -> None:
        """Any operation; the methods above are shorter ways to the common ones."""
        in_txn = f == F.TXN
        invoke, complete = at or self._slot(len(steps) + 2 if in_txn else 1)
        self._now = max(self._now, invoke, complete or 0)
        placed = _spread(steps, invoke, complete) if in_txn else list(steps)
        if commit_at == _AUTO:
            end = complete if complete is not None else invoke + _STEP_NS * (len(steps) + 2)
            commit_at = None if type == Outcome.FAIL else max(invoke, end - 2)
        sends = any(isinstance(step, Send) for step in steps)
        row = {
            "process": process,
            "instance": instance,
            "f": f,
            "type": type,
            "invoke_ns": invoke,
            "complete_ns": complete,
            "commit_ns": commit_at,
            "phase": phase,
            "isolation": isolation,
            "acks": self._acks(producer) if sends else None,
            "txn_id": txn_id,
            "group": group,
            "generation": generation,
            "error": error,
        }
        operation = _Operation(row)
        for number, step in enumerate(placed):
            operation.mops += _mops(number, step, row, producer)
        self._operations.append(operation)

    # The final phase

    def scan(
        self,
        key: int,
        records: Sequence[tuple[int, int]],
        isolation: str | None = None,
        log_start: int = 0,
        complete: bool = True,
        *,
        reason: str | None = None,
        batch: int = 500,
    ) -> None:
        """A final scan of one key by a fresh process: (offset, value) pairs. Without ``isolation`` both
        scans are made, with the same records."""
        for each in [isolation] if isolation is not None else list(Isolation):
            process, self._scanners = self._scanners, self._scanners + 1
            self.assign(process, [key], [log_start], phase=Phase.FINAL, isolation=each)
            for first in range(0, len(records), batch):
                part = [(key, offset, value) for offset, value in records[first : first + batch]]
                self.poll(process, part, each, phase=Phase.FINAL)
            end = max((offset for offset, _ in records), default=log_start - 1) + 1
            self._coverage.append(
                {
                    "key": key,
                    "isolation": each,
                    "log_start": log_start,
                    "high_watermark": end,
                    "last_stable_offset": end,
                    "position": end,
                    "complete": complete,
                    "reason": reason if complete or reason else "cluster",
                }
            )

    def scan_rest(self, without: Iterable[int] = (), log_start: int = 0) -> None:
        """Complete scans, both isolations, of every key that has none yet: all acknowledged values of ok
        operations and all polled records, but those in ``without``."""
        lacking = set(without)
        logs: dict[int, dict[int, int]] = {}
        for operation in self._operations:
            for mop in operation.mops:
                log = logs.setdefault(mop["key"], {})
                known = mop["offset"] is not None and mop["value"] is not None and mop["value"] not in lacking
                kept = mop["kind"] == Kind.POLL or (
                    mop["status"] == Outcome.OK and (operation.row["f"] != F.TXN or operation.row["type"] == Outcome.OK)
                )
                if known and kept and mop["offset"] >= log_start:
                    log.setdefault(mop["offset"], mop["value"])
        scanned = {row["key"] for row in self._coverage}
        for key in sorted(set(logs) - scanned - {-1}):
            self.scan(key, sorted(logs[key].items()), log_start=log_start)

    def event(self, kind: str, time_ns: int | None = None, **columns: Any) -> None:
        """A row of ``events``."""
        self._events.append({"time_ns": self._now if time_ns is None else time_ns, "kind": kind, **columns})

    def replica(
        self,
        broker: int,
        key: int,
        batches: Sequence[tuple[int, int, int, int]],
        high_watermark: int | None = None,
        log_start: int = 0,
    ) -> None:
        """A broker's log of a key after recovery: first and last offset, leader epoch and digest of each batch."""
        end = max((last for _, last, _, _ in batches), default=log_start - 1) + 1
        whole = {
            "broker": broker,
            "key": key,
            "log_start": log_start,
            "high_watermark": end if high_watermark is None else high_watermark,
        }
        names = ("offset", "last_offset", "leader_epoch", "digest")
        self._replicas += [{**whole, **dict(zip(names, each, strict=True))} for each in batches] or [whole]

    # Results

    def tables(self) -> dict[str, pa.Table]:
        ordered = sorted(self._operations, key=lambda each: int(each.row["invoke_ns"]))
        ops: list[dict[str, Any]] = []
        mops: list[dict[str, Any]] = []
        for number, operation in enumerate(ordered):
            worker = self._workers.get(operation.row["process"], 0)
            ops.append({"op": number, "worker": worker, **operation.row})
            repeated = {
                name: operation.row[name] for name in ("process", "f", "type", "phase", "isolation", "commit_ns")
            }
            mops += [{"op": number, "worker": worker, **repeated, **mop} for mop in operation.mops]
        events = sorted(self._events, key=lambda row: int(row["time_ns"]))
        rows = {"ops": ops, "mops": mops, "coverage": self._coverage, "events": events, "replicas": self._replicas}
        return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in TABLES.items()}

    def meta(self) -> Meta:
        keys, topics = tuple(self._keys), dict(self._topics)
        if not topics:
            used = [mop["key"] for operation in self._operations for mop in operation.mops]
            partitions = max([*used, *(row["key"] for row in self._coverage), 0]) + 1
            keys = tuple(KeyInfo("t", each) for each in range(partitions))
            topics = {"t": TopicSettings(partitions, 3, 2)}
        return Meta(
            run_id=self._run_id,
            origin="synthetic",
            keys=keys,
            topics=topics,
            producers=tuple(self._producers) or (_SAFE_PRODUCER,),
            clock_error_ns=dict(self._clock_error_ns),
            exercise=self._exercise,
            expect=self._expect,
            retries=self._retries,
            counts={
                "ops": len(self._operations),
                "mops": sum(len(each.mops) for each in self._operations),
                "coverage": len(self._coverage),
                "events": len(self._events),
                "replicas": len(self._replicas),
            },
        )

    def write(self, folder: Path) -> Meta:
        """Writes a sealed history."""
        with HistoryWriter(folder) as writer:
            for name, table in self.tables().items():
                writer.write(name, table)
            return writer.close(self.meta())

    def _slot(self, steps: int) -> tuple[int, int]:
        invoke = self._now + _STEP_NS
        return invoke, invoke + _STEP_NS * steps

    def _acks(self, producer: int) -> int:
        return self._producers[producer].acks if producer < len(self._producers) else -1


_SAFE_PRODUCER: Final = ProducerSettings(acks=-1, idempotent=True, retries=2_147_483_647, max_in_flight=5)


def _spread(steps: Sequence[Step], invoke: int, complete: int | None) -> list[Step]:
    """Gives each step of a transaction its own part of the transaction's time."""
    length = (complete - invoke) if complete is not None else _STEP_NS * (len(steps) + 2)
    width = length // (len(steps) + 2)
    placed: list[Step] = []
    for number, step in enumerate(steps):
        start = invoke + width * number
        if isinstance(step, Seek) or step.at is not None:
            placed.append(step)
        else:
            placed.append(replace(step, at=(start, start + width // 2)))
    return placed


def _mops(number: int, step: Step, row: dict[str, Any], producer: int) -> list[dict[str, Any]]:
    common = {"mop": number, "invoke_ns": row["invoke_ns"], "complete_ns": row["complete_ns"], "status": None}
    if isinstance(step, Seek):
        return [{**common, "pos": 0, "kind": step.kind, "key": step.key, "offset": step.offset, "value": None}]
    if step.at is not None:
        common |= {"invoke_ns": step.at[0], "complete_ns": step.at[1]}
    if isinstance(step, Send):
        common |= {
            "pos": 0,
            "kind": Kind.SEND,
            "key": step.key,
            "offset": step.offset,
            "value": step.value,
            "status": step.status or row["type"],
            "producer": producer,
            "record_key": step.record_key,
            "tombstone": step.tombstone,
        }
        return [common]
    return [
        {
            **common,
            "pos": pos,
            "kind": Kind.POLL,
            "key": key,
            "offset": offset,
            "value": value,
            "defect": step.defect,
        }
        for pos, (key, offset, value) in enumerate(step.records)
    ]
