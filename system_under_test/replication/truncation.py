"""Where a follower's log parts ways with its leader's, found by leader epochs (KIP-101, KIP-279, KIP-595).

A follower names, with each fetch, the epoch of the last record that it has. A leader whose log has another history at
that place answers with the largest epoch that it has in common with the question, and where that epoch ends in its
log; the follower truncates, and asks again. Checking with each fetch, rather than once with an OffsetsForLeaderEpoch
request when a replica becomes follower, was chosen because it leaves no window between asking and fetching, costs no
round trip, and keeps checking: a follower can never append after records that its leader does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of an epoch in one log: the offset after its last record."""

    epoch: int
    end_offset: int

    @property
    def is_undefined(self) -> bool:
        return self.epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_OFFSET


def diverges(leader: EpochEnd, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """Whether a follower that has ``last_fetched_epoch`` just before ``fetch_offset`` has what the leader lacks.

    ``leader`` is the leader's answer for that epoch: its own largest epoch that is not larger, and its end.
    """
    return leader.epoch < last_fetched_epoch or leader.end_offset < fetch_offset


def truncation_offset(leader: EpochEnd, end_offset: int, end_of: Callable[[int], EpochEnd]) -> int:
    """Where the follower must truncate to, given the leader's answer.

    ``end_of`` is the follower's own answer to the same question. If it does not know the leader's epoch either, it
    truncates to the end of its largest smaller one, and the next fetch asks about that: one epoch per round.
    """
    own = end_of(leader.epoch)
    if own.is_undefined:
        return min(leader.end_offset, end_offset)
    if own.epoch != leader.epoch:
        return min(own.end_offset, end_offset)
    return min(own.end_offset, leader.end_offset, end_offset)
