"""Injected cases that are done to acknowledgements and reads, after offsets were handed out."""

from __future__ import annotations

import numpy as np

from histories.synth.plant import Planter
from histories.synth.sites import neighbourhood
from histories.synth.stretch import Stretch
from histories.synth.timeline import FAIL, OK, Bools, Ints

MISREADS = ("int-poll-skip", "int-nonmonotonic-poll", "poll-skip", "nonmonotonic-poll")


def misplace(stretch: Stretch, planter: Planter) -> None:
    """Acknowledgements that tell a wrong offset, and polls that show another value at one."""
    placed, reads, sends = stretch.placed, stretch.reads, stretch.producing.sends
    assert placed is not None
    assert reads is not None
    assert stretch.acknowledged is not None
    for send in planter.misplaced:
        stretch.acknowledged[send] = placed.offset[send] + 1
    place = np.empty(sends.slot.size, np.int64)
    place[placed.records] = np.arange(placed.records.size)
    for number, send in enumerate(planter.inconsistent):
        before = int(placed.records[place[send] - 1])
        planter.sites.touched.append(before)
        if number % 2 == 0:
            stretch.acknowledged[send] = placed.offset[before]
        else:
            shown = np.flatnonzero(reads.record == before)
            mine = shown[reads.consumer[shown] == reads.consumer[shown[0]]]
            reads.value[mine] = sends.value[send]


class Misreader:
    """Makes consumers skip records and go back, each time at a place where nothing else was done."""

    def __init__(self, stretch: Stretch, touched: list[int], rng: np.random.Generator) -> None:
        placed, reads, consuming = stretch.placed, stretch.reads, stretch.consuming
        assert placed is not None
        assert reads is not None
        self.stretch = stretch
        self.reads = reads
        self.rng = rng
        rank = np.empty(placed.order.size, np.int64)
        rank[placed.order] = np.arange(placed.order.size)
        self._near = neighbourhood(rank[np.array(touched, np.int64)], rank.size)
        self._dropped: list[int] = []
        self._repeated: list[tuple[int, int]] = []
        # Entries by consumer, key and time: neighbours here are neighbours of one reader in one key.
        key = placed.key[reads.record]
        self._order = np.lexsort((reads.rank, reads.round, key, reads.consumer))
        order = self._order
        position = consuming.position[reads.consumer, reads.round]
        type_ = consuming.type[reads.consumer, reads.round]
        again = (reads.round > 0) & (consuming.type[reads.consumer, np.maximum(reads.round - 1, 0)] == FAIL)
        sound = ((type_ == OK) & ~again)[order]
        same_reader = _same(reads.consumer[order]) & _same(key[order]) & _same(position[order])
        same_poll = same_reader & _same(reads.round[order])
        followed = np.append(same_poll[1:], False)
        self._sites: dict[str, Ints] = {
            "int-poll-skip": np.flatnonzero(sound & same_poll & followed),
            "int-nonmonotonic-poll": np.flatnonzero(sound),
            "poll-skip": np.flatnonzero(sound & same_reader & ~same_poll & followed),
            "nonmonotonic-poll": np.flatnonzero(sound & same_reader & ~same_poll),
        }
        for name, sites in self._sites.items():
            self._sites[name] = rng.permutation(sites)

    def plant(self, name: str, count: int) -> int:
        """Makes up to ``count`` cases and says how many."""
        done = 0
        for site in self._sites[name].tolist():
            if done == count:
                break
            entry = int(self._order[site])
            rank = int(self.reads.rank[entry])
            if self._near[max(0, rank - 2) : rank + 3].any():
                continue
            self._near[max(0, rank - 4) : rank + 5] = True
            if name in ("int-poll-skip", "poll-skip"):
                self._dropped.append(entry)
            else:
                shown = entry if name == "int-nonmonotonic-poll" else int(self._order[site - 1])
                self._repeated.append((shown, int(self.reads.round[entry])))
            done += 1
        return done

    def finish(self) -> None:
        reads = self.reads
        if self._repeated:
            entries, rounds = (np.array(column, np.int64) for column in zip(*self._repeated, strict=True))
            reads = reads.added(entries, rounds)
        if self._dropped:
            reads = reads.without(np.array(self._dropped, np.int64))
        self.stretch.reads = reads.sorted() if reads is not self.reads else reads


def _same(column: Ints) -> Bools:
    """Whether each is as the one before it."""
    same: Bools = np.diff(column, prepend=column[:1] - 1) == 0
    return same
