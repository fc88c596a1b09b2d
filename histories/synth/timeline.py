"""When the processes of a synthetic run do what: one stretch of the run, whole arrays at a time.

The run is made of *stretches*. Within one, every process has a timeline of its own (durations and pauses,
summed up), so it never has two operations open; at the end of a stretch all of them wait for each other,
so that a stretch can be written out and forgotten. Each send is given the instant at which the broker
appends it, inside its own time; offsets are then handed out in the order of those instants, which is why
real-time order and the order of each process hold by construction. A poll that fetches at an instant sees
what was appended at least ``LAG_NS`` before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OK: Final = 0
FAIL: Final = 1
INFO: Final = 2

PRODUCERS: Final = 10
MAX_CONSUMERS: Final = 6
WORKERS: Final = 4

LAG_NS: Final = 100_000
BURST_STEP_NS: Final = 10_000
ACK_NS: Final = 20_000
NEVER: Final = -1
"""Stands for null in columns of times and offsets."""

_INFO_RATE: Final = 0.003
_FAIL_RATE: Final = 0.005
_CRASH_RATE: Final = 0.0005
_BURST_RATE: Final = 0.075
_GAP_RATE: Final = 0.01


@dataclass
class Producing:
    """The producers' operations of a stretch, and their sends. Times are absolute."""

    slot: Ints
    process: Ints
    invoke: Ints
    complete: Ints
    """NEVER: it did not come back."""
    type: Ints
    crash: Bools
    first: Ints
    """Index of its first send."""
    count: Ints
    sends: Sends
    end: int
    commit: Ints
    """NEVER: not a transaction."""


@dataclass
class Sends:
    """One entry per send, and one per record of the log that no operation sent (``op`` -1)."""

    op: Ints
    mop: Ints
    slot: Ints
    """Key slot: where it goes; the key of that slot changes when keys rotate."""
    invoke: Ints
    append: Ints
    complete: Ints
    status: Ints
    value: Ints
    """NEVER: a record whose payload could not be read."""
    applied: Bools
    """It is in the log."""
    gap: Ints
    """Unused offsets after it."""
    shown: Bools
    """Main-phase consumers get to see it."""
    in_raw: Bools
    in_committed: Bools
    defect: Ints
    """0: none; else a code, see rows."""

    def extended(self, **columns: Ints) -> None:
        """Appends entries that no operation sent."""
        length = len(columns["slot"])
        defaults = {
            "op": np.full(length, -1, np.int64),
            "mop": np.zeros(length, np.int64),
            "invoke": columns["append"],
            "complete": columns["append"],
            "status": np.zeros(length, np.int64),
            "applied": np.ones(length, np.bool_),
            "gap": np.zeros(length, np.int64),
            "shown": np.ones(length, np.bool_),
            "in_raw": np.ones(length, np.bool_),
            "in_committed": np.ones(length, np.bool_),
            "defect": np.zeros(length, np.int64),
        }
        for name, more in {**defaults, **columns}.items():
            setattr(self, name, np.concatenate([getattr(self, name), more]))


@dataclass
class Consuming:
    """The consumers' rounds of a stretch, as matrices (consumer, round). The last round is an ok poll
    after everything of the stretch was appended."""

    process: Ints
    invoke: Ints
    complete: Ints
    type: Ints
    """Of a poll: OK or FAIL; INFO: the client crashed in this round."""
    end: int

    @property
    def fetch(self) -> Ints:
        return self.complete - LAG_NS // 2

    @property
    def position(self) -> Ints:
        """Rounds with the same number are in one position: none failed or crashed between them."""
        broken = self.type != OK
        position: Ints = np.cumsum(broken, axis=1) - broken
        return position


@dataclass
class Clients:
    """Process ids: an operation that ends as info ends its process, and its slot goes on under a new one."""

    consumers: int
    producer_process: Ints = field(init=False)
    consumer_process: Ints = field(init=False)
    next_process: int = field(init=False)

    def __post_init__(self) -> None:
        self.producer_process = np.arange(PRODUCERS, dtype=np.int64)
        self.consumer_process = np.arange(PRODUCERS, PRODUCERS + self.consumers, dtype=np.int64)
        self.next_process = PRODUCERS + self.consumers

    def run(self, current: Ints, ended: Bools) -> Ints:
        """The process of every (slot, round), where ``ended`` rounds end theirs. Updates ``current``."""
        process = np.empty(ended.shape, np.int64)
        for slot in range(ended.shape[0]):
            ends = int(ended[slot].sum())
            ids = np.concatenate([current[slot : slot + 1], self.next_process + np.arange(ends)])
            self.next_process += ends
            before = np.cumsum(ended[slot]) - ended[slot]
            process[slot] = ids[before]
            current[slot] = ids[-1]
        return process


def produce(
    rng: np.random.Generator, clients: Clients, start: int, rounds: int, slots: int, first_value: int
) -> Producing:
    """``rounds`` operations of every producer, from ``start`` on."""
    shape = (PRODUCERS, rounds)
    pause = rng.integers(200_000, 800_000, shape)
    duration = rng.integers(1_000_000, 9_000_000, shape)
    complete = start + np.cumsum(pause + duration, axis=1)
    invoke = complete - duration
    luck = rng.random(shape)
    crash = luck < _CRASH_RATE
    info = (luck < _CRASH_RATE + _INFO_RATE) & ~crash
    fail = (luck > 1 - _FAIL_RATE) & ~crash
    type_ = np.where(crash | info, INFO, np.where(fail, FAIL, OK)).astype(np.int64)
    process = clients.run(clients.producer_process, type_ == INFO)
    count = np.where(rng.random(shape) < _BURST_RATE, rng.integers(2, 9, shape), 1)
    count[crash] = 0
    flat = count.ravel()
    first = np.cumsum(flat) - flat
    end = int(complete[:, -1].max())
    sends = _sends(rng, invoke.ravel(), complete.ravel(), type_.ravel(), flat, slots, first_value)
    lost = (type_ == INFO) & (rng.random(shape) < 0.5)
    return Producing(
        slot=np.repeat(np.arange(PRODUCERS), rounds),
        process=process.ravel(),
        invoke=invoke.ravel(),
        complete=np.where(lost, NEVER, complete).ravel(),
        type=type_.ravel(),
        crash=crash.ravel(),
        first=first,
        count=flat,
        sends=sends,
        end=end,
        commit=np.full(flat.size, NEVER, np.int64),
    )


def _sends(
    rng: np.random.Generator,
    invoke: Ints,
    complete: Ints,
    type_: Ints,
    count: Ints,
    slots: int,
    first_value: int,
) -> Sends:
    total = int(count.sum())
    op = np.repeat(np.arange(count.size), count)
    mop = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    # Room at both ends: 50 us before the first append; a whole burst and its acknowledgements after it.
    room = complete - invoke - 350_000
    first_append = invoke + 50_000 + (rng.random(count.size) * room).astype(np.int64)
    append = first_append[op] + BURST_STEP_NS * mop
    own_slot = rng.integers(0, slots, total)
    leading = own_slot[(np.cumsum(count) - count)[op]] if total else own_slot
    slot = np.where(rng.random(total) < 0.7, leading, own_slot)
    single = (count == 1)[op]
    last_append = first_append[op] + BURST_STEP_NS * (count[op] - 1)
    acknowledged = np.where(single, complete[op], last_append + ACK_NS + 1_000 * mop)
    status = type_[op].copy()
    # Of a burst that ended as info, the first send was still acknowledged.
    status[(status == INFO) & ~single & (mop == 0)] = OK
    applied = (status == OK) | ((status == INFO) & (rng.random(total) < 0.5))
    return Sends(
        op=op,
        mop=mop,
        slot=slot,
        invoke=invoke[op] + 1_000 * mop,
        append=append,
        complete=np.where(status == INFO, NEVER, acknowledged),
        status=status,
        value=first_value + np.arange(total),
        applied=applied,
        gap=(rng.random(total) < _GAP_RATE) * rng.integers(1, 4, total),
        shown=np.ones(total, np.bool_),
        in_raw=np.ones(total, np.bool_),
        in_committed=np.ones(total, np.bool_),
        defect=np.zeros(total, np.int64),
    )


def consume(rng: np.random.Generator, clients: Clients, start: int, end: int, rounds: int, consumers: int) -> Consuming:
    """``rounds`` polls of every consumer between ``start`` and ``end``, and one more after ``end``."""
    shape = (consumers, rounds)
    length = np.cumsum(rng.integers(500, 1_500, shape), axis=1)
    scale = (end - start) / length[:, -1:]
    complete = start + (length * scale).astype(np.int64)
    before = np.concatenate([np.full((consumers, 1), start), complete[:, :-1]], axis=1)
    invoke = before + (complete - before) // 4
    luck = rng.random(shape)
    crash = luck < _CRASH_RATE
    fail = luck > 1 - _FAIL_RATE
    # The round after a failed one reads again what it had seen, so two in a row are kept apart.
    fail[:, 1:] &= ~fail[:, :-1] & ~crash[:, 1:]
    crash[:, 1:] &= ~fail[:, :-1]
    fail[:, -1] = crash[:, -1] = False
    type_ = np.where(crash, INFO, np.where(fail, FAIL, OK)).astype(np.int64)
    last = np.full((consumers, 1), end + 2 * LAG_NS)
    invoke = np.concatenate([invoke, last + rng.integers(0, 50_000, (consumers, 1))], axis=1)
    complete = np.concatenate([complete, invoke[:, -1:] + 4 * LAG_NS], axis=1)
    type_ = np.concatenate([type_, np.full((consumers, 1), OK)], axis=1)
    process = clients.run(clients.consumer_process, type_ == INFO)
    return Consuming(process, invoke, complete, type_, int(complete.max()) + LAG_NS)
