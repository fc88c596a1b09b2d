"""The partitions of a synthetic run: from instants of appending to keys and offsets, and who reads what.

A *slot* is a place that one key at a time holds. With rotation a slot's key is given up after about
``rotate`` writes and a new one takes its place, as long runs do to keep partitions small; without, slot
and key are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from histories.synth.timeline import FAIL, INFO, LAG_NS, MAX_CONSUMERS, NEVER, OK, Consuming, Ints, Sends


@dataclass
class Partitions:
    """The state of all slots between stretches."""

    slots: int
    """Slots that consumers read. One more, that nobody reads, is used when ``unread`` is set."""
    rotate: int
    unread: bool
    key: Ints = field(init=False)
    next_offset: Ints = field(init=False)
    written: Ints = field(init=False)
    keys: int = field(init=False)

    def __post_init__(self) -> None:
        total = self.slots + int(self.unread)
        self.key = np.arange(total, dtype=np.int64)
        self.next_offset = np.zeros(total, np.int64)
        self.written = np.zeros(total, np.int64)
        self.keys = total

    @property
    def unread_key(self) -> int | None:
        return self.slots if self.unread else None

    def turns(self, sends: Sends) -> list[Ints]:
        """For each slot the instants from which on its next key holds it. They are settled before
        anything is injected, so that no injected case spans two keys."""
        turns: list[Ints] = [np.empty(0, np.int64) for _ in range(self.slots + int(self.unread))]
        if not self.rotate:
            return turns
        order = np.lexsort((sends.append, sends.slot))
        slots = sends.slot[order]
        for slot in range(self.slots):
            low, high = np.searchsorted(slots, [slot, slot + 1])
            instants = sends.append[order[low:high]]
            first = int(-self.written[slot] % self.rotate) if self.written[slot] else self.rotate
            turns[slot] = instants[first :: self.rotate]
            self.written[slot] += high - low
        return turns


@dataclass
class Placed:
    """The sends of a stretch in the order of the log: by slot, then by append."""

    order: Ints
    """Indices into the sends, all of them."""
    key: Ints
    """Of each send, by its index."""
    offset: Ints
    """By its index; NEVER when it is not in the log."""
    records: Ints
    """Indices of those in the log, in order."""


def place(partitions: Partitions, sends: Sends, turns: list[Ints]) -> Placed:
    """Gives each send its key and, if it is in the log, its offset."""
    order = np.lexsort((sends.append, sends.slot))
    key = np.empty(sends.slot.size, np.int64)
    offset = np.full(sends.slot.size, NEVER, np.int64)
    slots = sends.slot[order]
    for slot in range(len(turns)):
        low, high = np.searchsorted(slots, [slot, slot + 1])
        mine = order[low:high]
        turn = np.searchsorted(turns[slot], sends.append[mine], side="right")
        ids = np.concatenate([partitions.key[slot : slot + 1], partitions.keys + np.arange(len(turns[slot]))])
        partitions.keys += len(turns[slot])
        key[mine] = ids[turn]
        step = np.where(sends.applied[mine], 1 + sends.gap[mine], 0)
        end = partitions.next_offset[slot] + np.cumsum(step)
        start = end - step
        # Offsets of a new key start again at 0.
        starts = np.searchsorted(turn, np.arange(len(ids)))
        base = np.where(starts < mine.size, start[np.minimum(starts, mine.size - 1)], 0) if mine.size else starts
        base[0] = 0
        offset[mine] = np.where(sends.applied[mine], start - base[turn], NEVER)
        if mine.size and turn[-1] == len(ids) - 1:
            partitions.next_offset[slot] = end[-1] - base[-1]
        elif len(ids) > 1:
            partitions.next_offset[slot] = 0
        partitions.key[slot] = ids[-1]
    return Placed(order, key, offset, order[sends.applied[order]])


def consumers_for(slots: int) -> int:
    return min(MAX_CONSUMERS, max(2, slots))


def readers_of(slot: int, consumers: int) -> tuple[int, ...]:
    """One or two consumers read each slot."""
    first = slot % consumers
    second = (slot + 1 + slot // consumers) % consumers
    return (first, second) if slot % 2 == 0 and second != first else (first,)


@dataclass
class Reads:
    """One entry per record that a poll of a stretch returned."""

    consumer: Ints
    round: Ints
    record: Ints
    """Index into the sends."""
    rank: Ints
    """Place of the record in the log of the stretch; entries of one poll are sorted by it."""
    value: Ints

    def sorted(self) -> Reads:
        order = np.lexsort((self.rank, self.round, self.consumer))
        return Reads(*(getattr(self, name)[order] for name in ("consumer", "round", "record", "rank", "value")))

    def without(self, entries: Ints) -> Reads:
        keep = np.ones(self.record.size, np.bool_)
        keep[entries] = False
        return Reads(*(getattr(self, name)[keep] for name in ("consumer", "round", "record", "rank", "value")))

    def added(self, entries: Ints, rounds: Ints) -> Reads:
        """These entries again, in other rounds."""
        return Reads(
            np.concatenate([self.consumer, self.consumer[entries]]),
            np.concatenate([self.round, rounds]),
            np.concatenate([self.record, self.record[entries]]),
            np.concatenate([self.rank, self.rank[entries]]),
            np.concatenate([self.value, self.value[entries]]),
        )


@dataclass(frozen=True)
class ForcedRead:
    """This consumer gets this record (index into the sends), and all before it, by this round."""

    consumer: int
    round: int
    record: int


def read(sends: Sends, placed: Placed, consuming: Consuming, slots: int, forced: list[ForcedRead]) -> Reads:
    """Every consumer gets the records of its slots in order, each in the first of its polls that can see
    it and whose turn the slot has."""
    consumers, rounds = consuming.invoke.shape
    shown = placed.records[sends.shown[placed.records]]
    shown_slots = sends.slot[shown]
    of_consumer: list[list[int]] = [[] for _ in range(consumers)]
    for slot in range(slots):
        for consumer in readers_of(slot, consumers):
            of_consumer[consumer].append(slot)
    rank = np.empty(sends.slot.size, np.int64)
    rank[placed.order] = np.arange(placed.order.size)
    parts: list[tuple[Ints, Ints, Ints]] = []
    fetch = consuming.fetch
    for consumer, mine in enumerate(of_consumer):
        able = consuming.type[consumer] != INFO
        for place_, slot in enumerate(mine):
            low, high = np.searchsorted(shown_slots, [slot, slot + 1])
            records = shown[low:high]
            turns = min(4, len(mine))
            can = able & (np.arange(rounds) % turns == place_ % turns)
            can[-1] = True
            polls = np.flatnonzero(can)
            chosen = polls[np.searchsorted(fetch[consumer, polls], sends.append[records] + LAG_NS)]
            for each in forced:
                if each.consumer == consumer and sends.slot[each.record] == slot:
                    before = rank[records] <= rank[each.record]
                    chosen[before] = np.minimum(chosen[before], each.round)
            parts.append((np.full(records.size, consumer), chosen, records))
    consumer_, round_, record = (np.concatenate(column) for column in zip(*parts, strict=True))
    reads = Reads(consumer_, round_, record, rank[record], sends.value[record]).sorted()
    # A poll that failed keeps what it saw; the consumer seeks back and gets the same again.
    again = np.flatnonzero(consuming.type[reads.consumer, reads.round] == FAIL)
    return reads.added(again, reads.round[again] + 1).sorted()


@dataclass
class Positions:
    """Which process of which consumer has been assigned which key; -1: none yet."""

    process: Ints

    def grown(self, keys: int) -> None:
        have = self.process.shape[1]
        if keys > have:
            more = np.full((self.process.shape[0], max(keys, 2 * have) - have), -1, np.int64)
            self.process = np.concatenate([self.process, more], axis=1)


def seeks(reads: Reads, placed: Placed, consuming: Consuming, positions: Positions, keys: int) -> Ints:
    """Entries of ``reads`` before which their process must seek: the first of a key after an assignment,
    and the first of a key after a failed poll had returned some of it."""
    positions.grown(keys)
    key = placed.key[reads.record]
    process = consuming.process[reads.consumer, reads.round]
    pair = (process << 32) | key
    _, first = np.unique(pair, return_index=True)
    known = positions.process[reads.consumer[first], key[first]] == process[first]
    positions.process[reads.consumer[first], key[first]] = process[first]
    gained = first[~known]
    previous = np.maximum(reads.round - 1, 0)
    after_failure = (
        (reads.round > 0)
        & (consuming.type[reads.consumer, previous] == FAIL)
        & (consuming.type[reads.consumer, reads.round] == OK)
    )
    candidates = np.flatnonzero(after_failure)
    group = (reads.round[candidates] << 32) | key[candidates]
    group = group * consuming.invoke.shape[0] + reads.consumer[candidates]
    _, firsts = np.unique(group, return_index=True)
    return np.unique(np.concatenate([gained, candidates[firsts]]))
