"""The values that a run hands to its journal: events, invocations, completions, their steps, scans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from histories.schema import F, Isolation, Kind, Outcome, Phase


@dataclass(frozen=True)
class RecordedEvent:
    """One row of ``events``; see histories.schema."""

    kind: str
    time_ns: int | None = None
    """Since the start of the run; None: stamped when emitted."""
    fault_id: int | None = None
    fault: str | None = None
    node: str | None = None
    key: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    source: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One element of an operation (a row of ``mops``) as it is known at invocation or at completion."""

    kind: Kind
    key: int
    value: int | None = None
    offset: int | None = None
    status: Outcome | None = None
    invoke_ns: int | None = None
    """None: the operation's own."""
    complete_ns: int | None = None
    defect: str | None = None
    mop: int = 0
    pos: int = 0


@dataclass(frozen=True, slots=True)
class Invocation:
    process: int
    instance: int
    f: F
    invoke_ns: int
    phase: Phase = Phase.MAIN
    isolation: Isolation | None = None
    producer: int | None = None
    """Index into meta.json's producers."""
    acks: int | None = None
    txn_id: str | None = None
    steps: tuple[Step, ...] = ()
    """What is asked for: the sends with their values, the seeks of an assignment."""


@dataclass(frozen=True, slots=True)
class Completion:
    type: Outcome
    complete_ns: int
    commit_ns: int | None = None
    error: str | None = None
    steps: tuple[Step, ...] = ()
    """What became of it. For sends: the outcome of each, in the order of the invocation. For polls:
    the records. An operation that did not succeed keeps what it saw."""


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One row of ``coverage``; see histories.schema."""

    key: int
    isolation: Isolation
    complete: bool
    log_start: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    position: int | None = None
    """Where the scan stopped."""
    reason: str | None = None
    """Of an incomplete scan: ``cluster`` did not serve the key, or our ``scanner`` failed."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaLog:
    """One replica of a key, read from its broker's segments; the columns have an entry for each batch."""

    broker: int
    key: int
    log_start: int
    high_watermark: int
    offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    digest: NDArray[np.int64]
    leader_epoch: NDArray[np.int32]

    def __post_init__(self) -> None:
        assert len(self.offset) == len(self.last_offset) == len(self.digest) == len(self.leader_epoch)

    def cut(self, start: int, end: int) -> ReplicaLog:
        """Some of its batches."""
        return replace(
            self,
            offset=self.offset[start:end],
            last_offset=self.last_offset[start:end],
            digest=self.digest[start:end],
            leader_epoch=self.leader_epoch[start:end],
        )
