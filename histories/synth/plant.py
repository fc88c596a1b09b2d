"""Injected cases that are done to sends and to the log, before offsets are handed out.

Each method takes one operation and either makes a case of it or refuses it. Because offsets, reads and
scans are derived afterwards, everything around a case stays as it would be in a healthy run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from histories.synth import rows
from histories.synth.log import ForcedRead, readers_of
from histories.synth.sites import Sites
from histories.synth.stretch import Run, Stretch, isolation_of
from histories.synth.timeline import BURST_STEP_NS, FAIL, LAG_NS, NEVER, OK, PRODUCERS

_TXN_RATE = 0.01
_TXN_ACK_NS = 10_000
_TXN_COMMIT_NS = 95_000
"""After the first append: later than the last acknowledgement, earlier than anybody can read."""


@dataclass(frozen=True)
class _Extra:
    """A record in the log that no operation sent."""

    slot: int
    append: int
    value: int
    defect: int


class Planter:
    """Plants the cases of one stretch."""

    def __init__(self, run: Run, stretch: Stretch) -> None:
        self.run = run
        self.stretch = stretch
        self.producing = stretch.producing
        self.sends = stretch.producing.sends
        self.sites = Sites(stretch, run.rng, run.partitions.slots)
        self.extras: list[_Extra] = []
        self.misplaced: list[int] = []
        self.inconsistent: list[int] = []
        self.gadgets: dict[str, Callable[[int], bool]] = {
            "lost-write": self.lost_write,
            "vanished-read": self.vanished_read,
            "duplicate": self.duplicate,
            "misplaced-ack": self.misplaced_ack,
            "inconsistent-offset": self.inconsistent_offset,
            "phantom": self.phantom,
            "aborted-read": self.aborted_read,
            "early-read": self.early_read,
            "torn-transaction": self.torn_transaction,
            "unseen": self.unseen,
            "int-nonmonotonic-send": self.int_nonmonotonic_send,
            "nonmonotonic-send": self.nonmonotonic_send,
            "realtime-order": self.realtime_order,
            "int-send-skip": self.int_send_skip,
        }

    def plant(self, name: str, count: int) -> int:
        """Plants up to ``count`` cases and says how many."""
        bursts = name in ("torn-transaction", "int-nonmonotonic-send", "int-send-skip")
        pool = self.sites.bursts if bursts else self.sites.singles
        for done in range(count):
            if not self.sites.plant(pool, self.gadgets[name]):
                return done
        return count

    def finish(self) -> None:
        """Adds the records that nobody sent."""
        if self.extras:
            first = self.sends.slot.size
            self.sends.extended(
                slot=np.array([each.slot for each in self.extras], np.int64),
                append=np.array([each.append for each in self.extras], np.int64),
                value=np.array([each.value for each in self.extras], np.int64),
                defect=np.array([each.defect for each in self.extras], np.int64),
            )
            self.sites.touched += range(first, self.sends.slot.size)

    def healthy_transactions(self) -> None:
        """Turns a few operations into transactions that commit as they should."""
        for op in np.flatnonzero(self.run.rng.random(self.producing.count.size) < _TXN_RATE).tolist():
            if self.producing.type[op] == OK and not self.sites.used[op] and not self.producing.crash[op]:
                self._as_transaction(op)
                self.sites.used[op] = True

    def _as_transaction(self, op: int) -> None:
        mine = self._sends_of(op)
        self.sends.complete[mine] = self.sends.append[mine] + _TXN_ACK_NS
        self.sends.gap[mine] = np.maximum(self.sends.gap[mine], 1)  # a marker follows
        self.producing.commit[op] = self.sends.append[mine.start] + _TXN_COMMIT_NS

    def _sends_of(self, op: int) -> slice:
        first = int(self.producing.first[op])
        return slice(first, first + int(self.producing.count[op]))

    def _claim(self, op: int, later: int = 0) -> int | None:
        """The only send of an operation, if the place is free."""
        send = int(self.producing.first[op])
        at = int(self.sends.append[send])
        if not self.sites.claim(int(self.sends.slot[send]), at, at + later):
            return None
        self.sites.touched.append(send)
        return send

    # Delivery

    def lost_write(self, op: int) -> bool:
        send = self._claim(op)
        if send is None:
            return False
        self.sends.shown[send] = self.sends.in_raw[send] = self.sends.in_committed[send] = False
        return True

    def vanished_read(self, op: int) -> bool:
        send = self._claim(op)
        if send is None:
            return False
        self.sends.in_raw[send] = self.sends.in_committed[send] = False
        return True

    def duplicate(self, op: int) -> bool:
        later = self.sites.apart // 2
        send = self._claim(op, later)
        if send is None:
            return False
        at = int(self.sends.append[send]) + later
        self.extras.append(_Extra(int(self.sends.slot[send]), at, int(self.sends.value[send]), 0))
        return True

    def misplaced_ack(self, op: int) -> bool:
        send = self._claim(op)
        if send is None:
            return False
        self.sends.gap[send] = max(1, int(self.sends.gap[send]))
        self.misplaced.append(send)
        return True

    def inconsistent_offset(self, op: int) -> bool:
        send = self._claim(op)
        if send is None:
            return False
        self.inconsistent.append(send)
        return True

    def phantom(self, op: int) -> bool:
        """By turns a value that nobody sent, a bad checksum, a foreign run, another key's record."""
        send = self._claim(op)
        if send is None:
            return False
        slot, at = int(self.sends.slot[send]), int(self.sends.append[send]) + 1
        form = len(self.extras) % 4
        elsewhere = np.flatnonzero((self.sends.slot != slot) & (self.sends.status == OK))
        if form in (1, 2):
            self.extras.append(_Extra(slot, at, NEVER, form))
        elif form == 3 and elsewhere.size:
            value = int(self.sends.value[self.run.rng.choice(elsewhere)])
            self.extras.append(_Extra(slot, at, value, form))
        else:
            self.extras.append(_Extra(slot, at, self.run.next_value, 0))
            self.run.next_value += 1
        return True

    def aborted_read(self, op: int) -> bool:
        send = self._claim(op)
        if send is None:
            return False
        self.producing.type[op] = self.sends.status[send] = FAIL
        return True

    def early_read(self, op: int) -> bool:
        """A transaction of one send; a read_committed consumer gets it while the operation is still open,
        and commit is requested right after that."""
        send = int(self.producing.first[op])
        slot, visible = int(self.sends.slot[send]), int(self.sends.append[send]) + LAG_NS
        consuming = self.stretch.consuming
        consumers = consuming.invoke.shape[0]
        polls = []
        for consumer in readers_of(slot, consumers):
            if isolation_of(np.array(consumer)) == rows.COMMITTED:
                round_ = int(np.searchsorted(consuming.fetch[consumer], visible))
                polls.append((int(consuming.complete[consumer, round_]), consumer, round_))
        if not polls:
            return False
        polls.sort()
        seen, consumer, round_ = polls[0]
        others_later = all(complete > seen + 2_000 for complete, _, _ in polls[1:])
        in_time = seen + 2_000 < self.producing.complete[op]
        if not (others_later and in_time and consuming.type[consumer, round_] == OK):
            return False
        if self._claim(op) is None:
            return False
        self._as_transaction(op)
        self.producing.commit[op] = seen + 1_000
        self.stretch.forced.append(ForcedRead(consumer, round_, send))
        return True

    def torn_transaction(self, op: int) -> bool:
        victim = int(self.producing.first[op]) + 1
        at = int(self.sends.append[victim])
        if not self.sites.claim(int(self.sends.slot[victim]), at, at):
            return False
        self.sites.touched.append(victim)
        self._as_transaction(op)
        self.sends.in_committed[victim] = False
        return True

    def unseen(self, op: int) -> bool:
        """Goes to the key that nobody reads and whose scan is not complete."""
        self.sends.slot[self.producing.first[op]] = self.run.partitions.slots
        return True

    # Order of sends

    def int_nonmonotonic_send(self, op: int) -> bool:
        first = int(self.producing.first[op])
        at = int(self.sends.append[first])
        if not self.sites.claim(int(self.sends.slot[first]), at, at):
            return False
        self.sends.append[[first, first + 1]] = self.sends.append[[first + 1, first]]
        self.sites.touched += [first, first + 1]
        return True

    def nonmonotonic_send(self, op: int) -> bool:
        """The next operation of the same process is appended first."""
        following = op + 1
        if following % self.sites.rounds == 0 or not self.sites.usable(following):
            return False
        return self._late(op, following)

    def realtime_order(self, op: int) -> bool:
        """The first operation of another process after this one completed is appended first."""
        place = int(np.searchsorted(self.sites.sorted_invoke, self.producing.complete[op], side="right"))
        if place == self.sites.by_invoke.size:
            return False
        following = int(self.sites.by_invoke[place])
        if self.producing.slot[following] == self.producing.slot[op] or not self.sites.usable(following):
            return False
        return self._late(op, following)

    def _late(self, op: int, following: int) -> bool:
        """Appends the send of ``op`` right after that of ``following``, which is sent to the same slot and
        appended as early as any send can be: no third one gets between completion and append."""
        send, later = int(self.producing.first[op]), int(self.producing.first[following])
        at = int(self.producing.invoke[following]) + 50_000
        slot = int(self.sends.slot[send])
        if not self.sites.claim(slot, int(self.sends.append[send]), at):
            return False
        self.sends.slot[later] = slot
        self.sends.append[later] = at
        self.sends.append[send] = at + 1
        self.sites.used[following] = True
        self.sites.touched += [send, later]
        return True

    def int_send_skip(self, op: int) -> bool:
        """Another producer's open send is appended between the first two of a burst."""
        first = int(self.producing.first[op])
        slot, at = int(self.sends.slot[first]), int(self.sends.append[first]) + BURST_STEP_NS // 2
        for producer in self.run.rng.permutation(PRODUCERS).tolist():
            low = producer * self.sites.rounds
            invokes = self.producing.invoke[low : low + self.sites.rounds]
            other = low + int(np.searchsorted(invokes, at - 50_000, side="right")) - 1
            if other < low or producer == self.producing.slot[op] or not self.sites.usable(other):
                continue
            if self.producing.complete[other] < at + 4 * LAG_NS or not self.sites.claim(slot, at, at):
                continue
            between = int(self.producing.first[other])
            self.sends.slot[between] = slot
            self.sends.append[between] = at
            self.sites.used[other] = True
            self.sites.touched += [first, first + 1, between]
            return True
        return False
