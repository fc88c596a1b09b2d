"""The one definition of a history's tables. Every other place derives from it.

A history is a folder::

    history/
      meta.json
      ops/part-*.parquet          one row per operation, invocation and completion paired
      mops/part-*.parquet         one row per element of an operation
      coverage/part-*.parquet     one row per key and isolation, from the final scans
      events/part-*.parquet       faults, leader / ISR / controller changes, process starts and deaths
      replicas/part-*.parquet     one row per batch of each replica's log, as its segments had it after recovery

``replicas`` came later than the others: a history made before has none. A replica without a batch has one row, in which
``offset`` and what describes a batch are null.

A history of transactions on lists or registers (list-append, rw-register) has two tables of its own instead::

      txns/part-*.parquet         one row per transaction
      elements/part-*.parquet     one row per write, and per element of each list that was read

``elements`` is sorted by ``(op, mop, pos)``. A read that found nothing (nil, or an empty list) has one row without
``pos`` and ``value``; a read whose outcome nobody knows has none. Times are kept twice there: in nanoseconds, and as
places in the order of all invocations and completions (``_at``), which is what decides who was before whom.

``ops`` is sorted by ``op``; ``mops`` by ``(op, mop, pos)``; parts are in order of their names.

``mops`` repeats those columns of its operation that the checks need (``process`` to ``commit_ns`` at
the end of the schema). Parquet's dictionary encoding makes that almost free, and it saves the checks
a join of the two largest tables.

Positions. A mop of kind ``seek``, ``reset`` or ``resume`` starts a new position of its process in its
key: order checks never compare records on both sides of one. ``assign`` records one ``seek`` per key
gained (``offset`` null where the start is unknown). An operation that did not end ``ok`` also ends
the position.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

FORMAT = 1
"""Version of this layout, stored in meta.json."""


class F(StrEnum):
    """What an operation does."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    COMMIT = "commit"
    INIT = "init"
    CRASH = "crash"


class Outcome(StrEnum):
    """How an operation, or one pipelined send in it, ended."""

    OK = "ok"
    """It took effect."""
    FAIL = "fail"
    """It certainly did not."""
    INFO = "info"
    """Nobody knows."""


class Kind(StrEnum):
    """What one element of an operation is."""

    SEND = "send"
    POLL = "poll"
    COMMIT = "commit"
    RESUME = "resume"
    SEEK = "seek"
    RESET = "reset"


class Workload(StrEnum):
    """What a history's operations work on; it decides which tables the history has."""

    LOG = "log"
    """Sends and polls of partitions."""
    APPEND = "append"
    """Transactions that append to lists and read them whole."""
    REGISTER = "register"
    """Transactions that write and read registers."""


class Access(StrEnum):
    """What one row of ``elements`` is."""

    WRITE = "write"
    """Of a register, or an append to a list."""
    READ = "read"


class Phase(StrEnum):
    MAIN = "main"
    FINAL = "final"


class Isolation(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Defect(StrEnum):
    """Why a polled record cannot be one of this run's own under this key. Its value column is null
    unless the payload could be read."""

    CHECKSUM = "checksum"
    FOREIGN_RUN = "foreign-run"
    MISROUTED = "misrouted"


_text = pa.dictionary(pa.int32(), pa.string())


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


OPS = pa.schema(
    [
        _required("op", pa.int64()),  # dense, in the order of invocation
        _required("process", pa.int32()),
        _required("worker", pa.int32()),
        _required("instance", pa.int32()),
        _required("f", _text),
        _required("type", _text),
        _required("invoke_ns", pa.int64()),  # since the start of the run
        pa.field("complete_ns", pa.int64()),  # null: it never came back
        pa.field("commit_ns", pa.int64()),  # when commit was requested; null: never
        _required("phase", _text),
        pa.field("isolation", _text),
        pa.field("acks", pa.int32()),  # -1 is all
        pa.field("txn_id", _text),
        pa.field("group", _text),
        pa.field("generation", pa.int32()),
        pa.field("error", _text),
    ]
)

MOPS = pa.schema(
    [
        _required("op", pa.int64()),
        _required("mop", pa.int32()),
        _required("pos", pa.int32()),
        _required("kind", _text),
        _required("key", pa.int32()),  # dictionary in meta.json; -1: a send whose topic was deleted while it was open
        pa.field("offset", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("record_key", pa.int64()),
        pa.field("tombstone", pa.bool_()),
        pa.field("source_key", pa.int32()),
        pa.field("source_offset", pa.int64()),
        pa.field("status", _text),  # of this step, for sends; null elsewhere
        _required("invoke_ns", pa.int64()),
        pa.field("complete_ns", pa.int64()),
        pa.field("defect", _text),  # of a polled record, see Defect
        pa.field("producer", pa.int32()),  # of a send: index into meta.json's producers
        # repeated from the operation
        _required("process", pa.int32()),
        _required("worker", pa.int32()),
        _required("f", _text),
        _required("type", _text),
        _required("phase", _text),
        pa.field("isolation", _text),
        pa.field("commit_ns", pa.int64()),
    ]
)

COVERAGE = pa.schema(
    [
        _required("key", pa.int32()),
        _required("isolation", _text),
        pa.field("log_start", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("position", pa.int64()),  # where the scan stopped
        _required("complete", pa.bool_()),  # one unbroken position ran from the log start to the sentinel
        pa.field("reason", _text),  # of an incomplete scan: "cluster" did not serve the key, or our "scanner" failed
    ]
)

EVENTS = pa.schema(
    [
        _required("time_ns", pa.int64()),
        # fault-planned, fault-injected, fault-evidence, fault-not-landed, fault-healed, leader, isr,
        # controller, node-started, node-died, phase, unavailable
        _required("kind", _text),
        pa.field("fault_id", pa.int32()),
        pa.field("fault", _text),  # kill, stop, restart, pause, ...
        pa.field("node", _text),
        pa.field("key", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("controller_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("source", _text),
        pa.field("detail", pa.string()),
    ]
)

REPLICAS = pa.schema(
    [
        _required("broker", pa.int32()),
        _required("key", pa.int32()),
        pa.field("offset", pa.int64()),  # of the batch's first record
        pa.field("last_offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("digest", pa.int64()),  # of the batch's bytes on disk
        _required("log_start", pa.int64()),
        _required("high_watermark", pa.int64()),
    ]
)

TXNS = pa.schema(
    [
        _required("op", pa.int64()),  # dense, in the order of invocation
        _required("process", pa.int32()),
        _required("type", _text),
        _required("invoke_ns", pa.int64()),
        pa.field("complete_ns", pa.int64()),
        _required("invoke_at", pa.int64()),
        pa.field("complete_at", pa.int64()),  # null: it never came back
        pa.field("error", _text),
    ]
)

ELEMENTS = pa.schema(
    [
        _required("op", pa.int64()),
        _required("mop", pa.int32()),
        pa.field("pos", pa.int32()),  # place in the list that was read
        _required("kind", _text),  # see Access
        _required("key", pa.int64()),  # as the history has it
        pa.field("value", pa.int64()),
        # repeated from the transaction
        _required("type", _text),
        pa.field("complete_at", pa.int64()),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "ops": OPS,
    "mops": MOPS,
    "coverage": COVERAGE,
    "events": EVENTS,
    "replicas": REPLICAS,
}

ADDED_LATER = frozenset({"replicas"})
"""Tables that an older history of this format lacks; it is read as if they were empty."""

TRANSACTION_TABLES: dict[str, pa.Schema] = {"txns": TXNS, "elements": ELEMENTS}


def tables_of(workload: str) -> dict[str, pa.Schema]:
    """The tables of a history, by what it works on."""
    return TABLES if workload == Workload.LOG else TRANSACTION_TABLES
