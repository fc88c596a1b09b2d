"""One stretch of the main phase: made, injected into, and turned into rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from histories.synth import rows
from histories.synth.log import (
    ForcedRead,
    Partitions,
    Placed,
    Positions,
    Reads,
    place,
    read,
    seeks,
)
from histories.synth.timeline import (
    FAIL,
    INFO,
    NEVER,
    OK,
    PRODUCERS,
    WORKERS,
    Clients,
    Consuming,
    Ints,
    Producing,
    consume,
    produce,
)


@dataclass
class Run:
    """What lasts from stretch to stretch."""

    rng: np.random.Generator
    clients: Clients
    partitions: Partitions
    positions: Positions
    now: int = 1_000_000
    next_op: int = 0
    next_value: int = 0


@dataclass
class Stretch:
    """A stretch in the making. Injections edit it: before ``settle`` the sends, after it the reads."""

    producing: Producing
    consuming: Consuming
    turns: list[Ints]
    forced: list[ForcedRead] = field(default_factory=list)
    placed: Placed | None = None
    reads: Reads | None = None
    acknowledged: Ints | None = None
    """The offset that each send was told, by its index."""

    def settle(self, run: Run) -> None:
        """Hands out offsets and reads."""
        sends = self.producing.sends
        self.placed = place(run.partitions, sends, self.turns)
        self.reads = read(sends, self.placed, self.consuming, run.partitions.slots, self.forced)
        self.acknowledged = np.where(sends.status == OK, self.placed.offset, NEVER)


def isolation_of(consumer: Ints) -> Ints:
    """Every third consumer reads uncommitted."""
    return np.where(consumer % 3 == 2, rows.UNCOMMITTED, rows.COMMITTED)


def begin(run: Run, rounds: int) -> Stretch:
    slots = run.partitions.slots
    producing = produce(run.rng, run.clients, run.now, rounds, slots, run.next_value)
    run.next_value += producing.sends.value.size
    consumers = run.clients.consumers
    poll_rounds = max(1, rounds * PRODUCERS // consumers - 1)
    consuming = consume(run.rng, run.clients, run.now, producing.end, poll_rounds, consumers)
    return Stretch(producing, consuming, run.partitions.turns(producing.sends))


@dataclass
class Tables:
    ops: pa.Table
    mops: pa.Table
    log: dict[str, Ints]
    """The records of the stretch, sorted by key and offset."""


def finish(run: Run, stretch: Stretch) -> Tables:
    """The rows of a settled stretch."""
    assert stretch.reads is not None
    assert stretch.placed is not None
    entries = seeks(stretch.reads, stretch.placed, stretch.consuming, run.positions, run.partitions.keys)
    ops, assign_op = _ops(stretch, run.now, entries)
    order = np.argsort(ops["invoke_ns"], kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = run.next_op + np.arange(order.size)
    sends = _send_mops(stretch, ops, number)
    polls = _poll_mops(stretch, ops, number)
    starts = _seek_mops(stretch, ops, number, entries, assign_op)
    mops = {name: np.concatenate([sends[name], polls[name], starts[name]]) for name in sends}
    # Each of the three is sorted by (op, mop, pos), and no operation is in two of them.
    mop_order = np.argsort(mops["op"], kind="stable")
    tables = Tables(
        rows.ops_table({"op": run.next_op + np.arange(order.size), **{k: v[order] for k, v in ops.items()}}),
        rows.mops_table({name: column[mop_order] for name, column in mops.items()}),
        _log(stretch),
    )
    run.next_op += order.size
    run.now = stretch.consuming.end
    return tables


def _ops(stretch: Stretch, start: int, entries: Ints) -> tuple[dict[str, Ints], Ints]:
    """Operations of producers, then of consumers, then the assignments before polls that need them; and
    for each entry the number of its assignment among those."""
    producing, consuming, reads = stretch.producing, stretch.consuming, stretch.reads
    assert reads is not None
    consumers, rounds = consuming.invoke.shape
    poll, assign_op = np.unique(reads.consumer[entries] * rounds + reads.round[entries], return_inverse=True)
    consumer, round_ = poll // rounds, poll % rounds
    previous = np.where(round_ > 0, consuming.complete[consumer, np.maximum(round_ - 1, 0)], start)
    pause = consuming.invoke[consumer, round_] - previous
    every = np.repeat(np.arange(consumers), rounds)
    in_txn = producing.commit != NEVER
    kind = consuming.type.ravel()
    crashed = kind == INFO
    parts: list[dict[str, Ints]] = [
        {
            "process": producing.process,
            "worker": producing.slot % WORKERS,
            "f": np.where(producing.crash, rows.CRASH, np.where(in_txn, rows.TXN, rows.SEND)),
            "type": producing.type,
            "invoke_ns": producing.invoke,
            "complete_ns": producing.complete,
            "commit_ns": producing.commit,
            "isolation": np.where(in_txn, rows.COMMITTED, NEVER),
            "acks": np.where(producing.crash, NEVER - 1, -1),
            "txn_id": np.where(in_txn, producing.slot, NEVER),
            "error": np.where(producing.crash | (producing.type == OK), NEVER, producing.type - 1),
        },
        {
            "process": consuming.process.ravel(),
            "worker": every % WORKERS,
            "f": np.where(crashed, rows.CRASH, rows.POLL),
            "type": kind,
            "invoke_ns": consuming.invoke.ravel(),
            "complete_ns": consuming.complete.ravel(),
            "commit_ns": np.full(kind.size, NEVER),
            "isolation": np.where(crashed, NEVER, isolation_of(every)),
            "acks": np.full(kind.size, NEVER - 1),
            "txn_id": np.full(kind.size, NEVER),
            "error": np.where(kind == FAIL, 2, NEVER),
        },
        {
            "process": consuming.process[consumer, round_],
            "worker": consumer % WORKERS,
            "f": np.full(poll.size, rows.ASSIGN),
            "type": np.full(poll.size, OK),
            "invoke_ns": previous + pause // 3,
            "complete_ns": previous + pause * 2 // 3,
            "commit_ns": np.full(poll.size, NEVER),
            "isolation": isolation_of(consumer),
            "acks": np.full(poll.size, NEVER - 1),
            "txn_id": np.full(poll.size, NEVER),
            "error": np.full(poll.size, NEVER),
        },
    ]
    ops = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    ops["instance"] = ops["phase"] = np.zeros(ops["process"].size, np.int64)
    return ops, assign_op


_REPEATED = ("process", "worker", "f", "type", "phase", "isolation", "commit_ns")


def _send_mops(stretch: Stretch, ops: dict[str, Ints], number: Ints) -> dict[str, Ints]:
    sends, placed = stretch.producing.sends, stretch.placed
    assert placed is not None
    assert stretch.acknowledged is not None
    mine = np.flatnonzero(sends.op >= 0)
    op = sends.op[mine]
    by_number = np.argsort(number[op], kind="stable")
    mine, op = mine[by_number], op[by_number]
    zeros = np.zeros(mine.size, np.int64)
    return {
        "op": number[op],
        "mop": sends.mop[mine],
        "pos": zeros,
        "kind": zeros + rows.K_SEND,
        "key": placed.key[mine],
        "offset": stretch.acknowledged[mine],
        "value": sends.value[mine],
        "status": sends.status[mine],
        "invoke_ns": sends.invoke[mine],
        "complete_ns": sends.complete[mine],
        "defect": zeros - 1,
        "producer": zeros,
        **{name: ops[name][op] for name in _REPEATED},
    }


def _poll_mops(stretch: Stretch, ops: dict[str, Ints], number: Ints) -> dict[str, Ints]:
    sends, placed, reads, consuming = (
        stretch.producing.sends,
        stretch.placed,
        stretch.reads,
        stretch.consuming,
    )
    assert placed is not None
    assert reads is not None
    local = stretch.producing.process.size + reads.consumer * consuming.invoke.shape[1] + reads.round
    begins = np.flatnonzero(np.diff(local, prepend=-1))
    pos = np.arange(local.size) - np.repeat(begins, np.diff(begins, append=local.size))
    zeros = np.zeros(local.size, np.int64)
    return {
        "op": number[local],
        "mop": zeros,
        "pos": pos,
        "kind": zeros + rows.K_POLL,
        "key": placed.key[reads.record],
        "offset": placed.offset[reads.record],
        "value": reads.value,
        "status": zeros - 1,
        "invoke_ns": ops["invoke_ns"][local],
        "complete_ns": ops["complete_ns"][local],
        "defect": sends.defect[reads.record] - 1,
        "producer": zeros - 1,
        **{name: ops[name][local] for name in _REPEATED},
    }


def _seek_mops(stretch: Stretch, ops: dict[str, Ints], number: Ints, entries: Ints, assign_op: Ints) -> dict[str, Ints]:
    placed, reads, consuming = stretch.placed, stretch.reads, stretch.consuming
    assert placed is not None
    assert reads is not None
    local = stretch.producing.process.size + consuming.invoke.size + assign_op
    order = np.argsort(local, kind="stable")
    local, entries = local[order], entries[order]
    begins = np.flatnonzero(np.diff(local, prepend=-1))
    mop = np.arange(local.size) - np.repeat(begins, np.diff(begins, append=local.size))
    zeros = np.zeros(local.size, np.int64)
    return {
        "op": number[local],
        "mop": mop,
        "pos": zeros,
        "kind": zeros + rows.K_SEEK,
        "key": placed.key[reads.record[entries]],
        "offset": placed.offset[reads.record[entries]],
        "value": zeros - 1,
        "status": zeros - 1,
        "invoke_ns": ops["invoke_ns"][local],
        "complete_ns": ops["complete_ns"][local],
        "defect": zeros - 1,
        "producer": zeros - 1,
        **{name: ops[name][local] for name in _REPEATED},
    }


def _log(stretch: Stretch) -> dict[str, Ints]:
    sends, placed = stretch.producing.sends, stretch.placed
    assert placed is not None
    records = placed.records
    # In the order of slots a rotated key may come after one with a higher number.
    records = records[np.lexsort((placed.offset[records], placed.key[records]))]
    return {
        "key": placed.key[records],
        "offset": placed.offset[records],
        "value": sends.value[records],
        "defect": sends.defect[records],
        "raw": sends.in_raw[records].astype(np.int64),
        "committed": sends.in_committed[records].astype(np.int64),
    }
