"""From the steps as they are stored to the rows that the checks share: numbers only.

A row's ``fate`` is what is known of its send by the definitions: outside transactions the status of
the step, inside them the type of the transaction; what is no send has one too, and nobody asks for it. (For acks=0 see
:class:`checkers.rows.Rows`.)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checkers.exchange import Ints
from checkers.load import FAIL, FLAGS, INFO, NONE, OK
from checkers.scan import ABSENT, codes, numbers
from histories.schema import Defect, F, Isolation, Kind, Outcome, Phase

TEXT = ("kind", "status", "defect", "f", "type", "phase", "isolation")
NUMBERS = (
    "op", "mop", "pos", "key", "offset", "value", "invoke_ns", "complete_ns", "commit_ns", "producer", "process", "worker",
)  # fmt: skip
ROW = (
    "key", "value", "offset", "process", "op", "step", "invoke_ns", "complete_ns", "commit_ns", "producer", "worker",
    "fate", "flags",
)  # fmt: skip
"""The columns of a row."""

_OUTCOMES = tuple(Outcome)
_FATE = np.array([{Outcome.OK: OK, Outcome.FAIL: FAIL}.get(each, INFO) for each in _OUTCOMES] + [INFO], dtype=np.int8)
"""By the code of an outcome; the last is for none."""


def narrowed(table: pa.Table, proved: Ints) -> dict[str, Ints]:
    """The rows of a piece of ``mops``. ``proved`` are unknown transactions that a reader proved to be committed."""
    kind = codes(table, "kind", tuple(Kind))
    f = codes(table, "f", tuple(F))
    outcome = codes(table, "type", _OUTCOMES)
    status = codes(table, "status", _OUTCOMES)
    defect = codes(table, "defect", tuple(Defect))
    op, offset = numbers(table, "op"), numbers(table, "offset")
    sent = kind == tuple(Kind).index(Kind.SEND)
    polled = kind == tuple(Kind).index(Kind.POLL)
    txn = f == tuple(F).index(F.TXN)
    ok, fail = _OUTCOMES.index(Outcome.OK), _OUTCOMES.index(Outcome.FAIL)
    fate = _FATE[np.where(txn, outcome, status)]
    fate[np.isin(op, proved)] = OK
    committed_only = tuple(Isolation).index(Isolation.READ_COMMITTED)
    bits = {
        "sent": sent,
        "polled": polled & (defect == ABSENT),
        "boundary": ~sent & ~polled,
        "txn": txn,
        "op_ok": outcome == ok,
        "final": codes(table, "phase", tuple(Phase)) == tuple(Phase).index(Phase.FINAL),
        "committed_only": codes(table, "isolation", tuple(Isolation)) == committed_only,
        "defective": defect != ABSENT,
        "refused": status == fail,
        "acked": (status == ok) & ~(txn & (outcome == fail)) & (offset != NONE),
        "checksum": defect == tuple(Defect).index(Defect.CHECKSUM),
    }
    flags = np.zeros(len(op), dtype=np.int16)
    for bit, name in enumerate(FLAGS):
        flags |= bits[name].astype(np.int16) << bit
    return {
        **{
            name: numbers(table, name)
            for name in ("key", "value", "process", "invoke_ns", "complete_ns", "commit_ns", "worker")
        },
        "offset": offset,
        "op": op,
        "step": (numbers(table, "mop") << 32) | numbers(table, "pos"),
        "producer": numbers(table, "producer", -1),
        "fate": fate.astype(np.int64),
        "flags": flags.astype(np.int64),
    }


def sent(rows: dict[str, Ints]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the rows are sends."""
    return np.asarray((rows["flags"] & (1 << FLAGS.index("sent"))) != 0)
