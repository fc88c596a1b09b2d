"""Who is in sync, and how far the high watermark may go: pure rules over what a leader knows of its followers.

A follower is *caught up* when it has fetched up to the leader's end. Because the end moves while a fetch is under
way, being at the end that the leader had at the *previous* fetch counts as having been caught up at the time of that
fetch. A follower that was not caught up for ``replica.lag.time.max.ms`` is out of sync, however often it fetches.

The ISR lives in ZooKeeper; the leader proposes changes. While a proposal is pending nobody knows which of the two
sets a controller would elect from, so a record is committed only when it is in all replicas of both: the *maximal* ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

UNKNOWN_OFFSET = -1
NEVER = float("-inf")
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class LagLimits:
    """``replica.lag.time.max.ms`` and, where set, the older ``replica.lag.max.messages``."""

    time_s: float
    messages: int | None = None


@dataclass(slots=True)
class RemoteReplica:
    """What a leader knows of one follower, by that follower's fetches. Times are of the monotonic clock."""

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    """Where the leader's log ended when this follower fetched last."""
    last_fetch_time: float = NEVER
    last_caught_up_time: float = NEVER
    broker_epoch: int = NO_BROKER_EPOCH
    """Which incarnation of the broker fetched (KIP-903)."""

    def fetched(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now: float, broker_epoch: int
    ) -> None:
        """The follower asked for ``fetch_offset``: it has everything before it."""
        caught_up = self.last_caught_up_time
        if fetch_offset >= leader_end_offset:
            caught_up = now
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            caught_up = self.last_fetch_time
        if caught_up > self.last_caught_up_time:
            self.last_caught_up_time = caught_up
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_time = now
        self.broker_epoch = broker_epoch


@dataclass(frozen=True, slots=True)
class IsrState:
    """The ISR as ZooKeeper has it, and the one proposed, if a write is pending."""

    isr: tuple[int, ...]
    version: int
    """Of the ZooKeeper node that holds it."""
    proposed: tuple[int, ...] | None = None

    @property
    def is_pending(self) -> bool:
        return self.proposed is not None

    @property
    def maximal(self) -> tuple[int, ...]:
        """Everybody who is in sync if either set is the one in force."""
        if self.proposed is None:
            return self.isr
        return self.isr + tuple(each for each in self.proposed if each not in self.isr)

    def propose(self, proposed: tuple[int, ...]) -> IsrState:
        assert self.proposed is None, "one change of the ISR at a time"
        return IsrState(self.isr, self.version, proposed)


def is_caught_up(replica: RemoteReplica, leader_end_offset: int, now: float, limits: LagLimits) -> bool:
    if replica.log_end_offset == leader_end_offset:
        return True
    if limits.messages is not None and leader_end_offset - replica.log_end_offset > limits.messages:
        return False
    return now - replica.last_caught_up_time <= limits.time_s


def out_of_sync(
    replicas: Iterable[RemoteReplica], state: IsrState, leader_end_offset: int, now: float, limits: LagLimits
) -> tuple[int, ...]:
    """Whom to drop from the ISR. Nobody while a change is pending."""
    if state.is_pending:
        return ()
    return tuple(
        each.broker_id
        for each in replicas
        if each.broker_id in state.isr and not is_caught_up(each, leader_end_offset, now, limits)
    )


def may_join(replica: RemoteReplica, state: IsrState, high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether the follower has everything that is committed, by this leader or by those before it.

    The high watermark of a new leader may lag behind what its predecessor committed; all of that lies before the
    start of the leader's epoch, so a follower must have reached that as well.
    """
    return (
        not state.is_pending
        and replica.broker_id not in state.isr
        and replica.log_end_offset >= high_watermark
        and replica.log_end_offset >= epoch_start_offset
    )


def high_watermark_allowed(
    leader_end_offset: int,
    replicas: Iterable[RemoteReplica],
    maximal_isr: tuple[int, ...],
    now: float,
    limits: LagLimits,
    is_eligible: Callable[[int], bool],
) -> int:
    """The smallest end over the maximal ISR, and over those that are about to join it.

    Waiting for a follower that keeps up but is not yet a member lets it join at all: with the leader alone in the ISR
    the high watermark would run away from it with each append.
    """
    allowed = leader_end_offset
    for each in replicas:
        if each.log_end_offset < allowed and (
            each.broker_id in maximal_isr
            or (is_caught_up(each, leader_end_offset, now, limits) and is_eligible(each.broker_id))
        ):
            allowed = each.log_end_offset
    return allowed
