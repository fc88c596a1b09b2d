"""One replica of a partition, as leader or as follower. Synchronous: whoever calls in sees a consistent state, and
effects on other brokers and on ZooKeeper are somebody else's.

Invariants, asserted where they could break: the high watermark never passes the log's end and never goes back while
this replica leads; the leader is in its own ISR; a leader's epoch is in the log's epoch cache before any record of it.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from system_under_test.bugs import Bug, Bugs
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.replication.isr import (
    NO_BROKER_EPOCH,
    IsrState,
    LagLimits,
    RemoteReplica,
    high_watermark_allowed,
    may_join,
    out_of_sync,
)
from system_under_test.replication.truncation import EpochEnd
from system_under_test.storage.log import AppendInfo, Log
from system_under_test.types import TopicPartition
from system_under_test.world import Buffer

NO_EPOCH = -1
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class StateChange:
    """One partition of a LeaderAndIsr request."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    """Of the ZooKeeper node that holds the state."""
    replicas: tuple[int, ...]
    is_new: bool


@dataclass(slots=True)
class Leadership:
    """What only a leader has. A new one for each leader epoch: nothing that followers did before counts in it."""

    epoch: int
    epoch_start_offset: int
    isr: IsrState
    remotes: dict[int, RemoteReplica]
    appended_bytes: int = 0
    committed_bytes: int = 0
    """Grow with the log's end and with the high watermark: how much a waiting fetch has gained."""
    uncommitted: deque[tuple[int, int]] = field(default_factory=deque)
    """(end offset, appended bytes up to it) of appends that the high watermark has not passed yet."""


class Partition:
    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        log: Log,
        limits: LagLimits,
        is_eligible: Callable[[int], bool],
        bugs: Bugs,
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.log = log
        self.limits = limits
        self.bugs = bugs
        self.topic_id: uuid.UUID | None = None
        self.controller_epoch = -1
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.leadership: Leadership | None = None
        self._is_eligible = is_eligible

    # -- roles -------------------------------------------------------------------------------------------------------

    def make_leader(self, change: StateChange, now: float) -> bool:
        """Lead in a new epoch; whether the high watermark moved. The high watermark stays where it was: what a
        predecessor committed beyond it is in the log, and is committed again by the followers' fetches."""
        assert change.leader == self.broker_id
        assert change.leader_epoch > self.leader_epoch, "a leader epoch is entered once"
        assert self.broker_id in change.isr, f"{self.topic_partition}: leader outside of its ISR {change.isr}"
        self._assign(change)
        end = self.log.end_offset
        # Before any record of this epoch, so that followers with a later history than ours find where to truncate.
        self.log.epochs.assign(change.leader_epoch, end)
        remotes = {
            each: RemoteReplica(each, last_caught_up_time=now if each in change.isr else float("-inf"))
            for each in change.replicas
            if each != self.broker_id
        }
        self.leadership = Leadership(change.leader_epoch, end, IsrState(change.isr, change.version), remotes)
        return self.maybe_increment_high_watermark(now)

    def make_follower(self, change: StateChange) -> None:
        assert change.leader != self.broker_id
        assert change.leader_epoch > self.leader_epoch
        self._assign(change)
        self.leadership = None

    def _assign(self, change: StateChange) -> None:
        self.controller_epoch = change.controller_epoch
        self.leader_id = change.leader
        self.leader_epoch = change.leader_epoch
        self.replicas = change.replicas

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    def leading(self, current_leader_epoch: int = NO_EPOCH) -> Leadership:
        """The leadership, if this replica leads in the epoch that the asker believes in (KIP-320)."""
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.fenced_leader_epoch)
            raise ApiError(ErrorCode.unknown_leader_epoch)
        leadership = self.leadership
        if leadership is None:
            raise ApiError(ErrorCode.not_leader_or_follower)
        return leadership

    # -- appending ---------------------------------------------------------------------------------------------------

    @property
    def effective_min_isr(self) -> int:
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def append_as_leader(self, records: Buffer, required_acks: int, now: float) -> tuple[AppendInfo, bool]:
        """Append; whether the high watermark moved with it."""
        leadership = self.leading()
        if required_acks == -1 and len(leadership.isr.isr) < self.effective_min_isr:
            raise ApiError(
                ErrorCode.not_enough_replicas,
                f"{len(leadership.isr.isr)} in sync, min.insync.replicas is {self.effective_min_isr}",
            )
        info = self.log.append_as_leader(records, leadership.epoch)
        if info.is_duplicate:
            return info, False
        leadership.appended_bytes += info.size_bytes
        leadership.uncommitted.append((self.log.end_offset, leadership.appended_bytes))
        return info, self.maybe_increment_high_watermark(now)

    def ack_state(self, required_offset: int) -> ErrorCode | None:
        """Whether acks=all is satisfied up to ``required_offset``: none, an error, or None for not yet."""
        leadership = self.leadership
        if leadership is None:
            return ErrorCode.not_leader_or_follower
        if self.log.high_watermark < required_offset:
            return None
        # The high watermark waited for the whole maximal ISR, so that is how many have it.
        if len(leadership.isr.maximal) < self.effective_min_isr:
            return ErrorCode.not_enough_replicas_after_append
        return ErrorCode.none

    # -- followers' fetches ------------------------------------------------------------------------------------------

    def remote(self, replica_id: int, current_leader_epoch: int, broker_epoch: int) -> RemoteReplica:
        """The follower that fetches. It must name its leader epoch: an unfenced zombie's offsets would count."""
        leadership = self.leading(current_leader_epoch)
        if current_leader_epoch == NO_EPOCH:
            raise ApiError(ErrorCode.fenced_leader_epoch, "a follower's fetch must carry its leader epoch")
        replica = leadership.remotes.get(replica_id)
        if replica is None:
            # The leader has not heard of this replica yet, or not any more.
            raise ApiError(ErrorCode.unknown_leader_epoch)
        if NO_BROKER_EPOCH != broker_epoch < replica.broker_epoch:
            # Sent by an earlier incarnation of the broker: what that one had says nothing of this one (KIP-903).
            raise ApiError(ErrorCode.not_leader_or_follower, "a fetch of an earlier incarnation")
        return replica

    def follower_fetched(
        self, replica: RemoteReplica, fetch_offset: int, log_start_offset: int, broker_epoch: int, now: float
    ) -> bool:
        """Count the fetch as an acknowledgement of everything before its offset; whether that is news. The caller
        looks whether the follower may join the ISR, and only then for the high watermark."""
        before = replica.log_end_offset
        replica.fetched(fetch_offset, log_start_offset, self.log.end_offset, now, broker_epoch)
        return replica.log_end_offset != before

    def may_join_isr(self, replica: RemoteReplica) -> bool:
        leadership = self.leadership
        return (
            leadership is not None
            and may_join(replica, leadership.isr, self.log.high_watermark, leadership.epoch_start_offset)
            and self._is_eligible(replica.broker_id)
        )

    # -- in-sync replicas and the high watermark ---------------------------------------------------------------------

    def out_of_sync_replicas(self, now: float) -> tuple[int, ...]:
        leadership = self.leadership
        if leadership is None:
            return ()
        return out_of_sync(leadership.remotes.values(), leadership.isr, self.log.end_offset, now, self.limits)

    def propose_isr(self, proposed: tuple[int, ...]) -> IsrState:
        """From now on the maximal ISR counts, until somebody knows what ZooKeeper has."""
        leadership = self.leading()
        assert self.broker_id in proposed
        leadership.isr = leadership.isr.propose(proposed)
        return leadership.isr

    def is_pending(self, leadership: Leadership, pending: IsrState) -> bool:
        """Whether this proposal still waits: not when a newer LeaderAndIsr has overtaken it."""
        return self.leadership is leadership and leadership.isr is pending

    def settle_isr(self, isr: tuple[int, ...], version: int, now: float) -> bool:
        """ZooKeeper has this ISR; whether the high watermark moved."""
        leadership = self.leading()
        assert self.broker_id in isr, f"{self.topic_partition}: leader outside of its ISR {isr}"
        assert version > leadership.isr.version
        leadership.isr = IsrState(isr, version)
        return self.maybe_increment_high_watermark(now)

    def maybe_increment_high_watermark(self, now: float) -> bool:
        leadership = self.leadership
        if leadership is None:
            return False
        isr = leadership.isr
        if len(isr.isr) < self.effective_min_isr:
            return False  # as of Kafka 3.7 nothing is committed below min.insync.replicas (KIP-966)
        log = self.log
        current, end = log.high_watermark, log.end_offset
        if current == end:
            return False
        remotes = leadership.remotes.values()
        allowed = high_watermark_allowed(end, remotes, isr.maximal, now, self.limits, self._is_eligible)
        if allowed <= current:
            return False
        assert allowed <= end
        log.update_high_watermark(allowed)
        committed = leadership.committed_bytes + 1  # at least something: also what predecessors appended
        uncommitted = leadership.uncommitted
        while uncommitted and uncommitted[0][0] <= allowed:
            committed = max(committed, uncommitted.popleft()[1])
        leadership.committed_bytes = committed
        return True

    # -- reading -----------------------------------------------------------------------------------------------------

    def readable_end(self, is_follower: bool) -> int:
        """Followers read to the end of the log, consumers what is committed."""
        if is_follower or Bug.SERVE_BEYOND_HIGH_WATERMARK in self.bugs:
            return self.log.end_offset
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.high_watermark

    def check_range(self, offset: int) -> None:
        """Beyond the high watermark, but not beyond the log's end, is no error: there is nothing to read yet."""
        if not self.log.start_offset <= offset <= self.log.end_offset:
            raise ApiError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} of {self.topic_partition}, there are {self.log.start_offset} to {self.log.end_offset}",
            )

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch in this log that is not larger than ``epoch``, and where it ends (KIP-279)."""
        # The switch answers as KIP-101 did: the start of the next larger epoch, told as the end of the one asked for.
        claim = Bug.EPOCH_END_OF_NEXT_LARGER in self.bugs
        return EpochEnd(*self.log.epochs.end_offset_for(epoch, self.log.end_offset, claim_requested_epoch=claim))

    def last_offset_for_leader_epoch(self, current_leader_epoch: int, epoch: int) -> EpochEnd:
        self.leading(current_leader_epoch)
        return self.end_of_epoch(epoch)

    # -- deleting records --------------------------------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Move the log's start on the leader; the low watermark."""
        self.leading()
        if offset == -1:
            offset = self.log.high_watermark
        if not 0 <= offset <= self.log.high_watermark:
            raise ApiError(ErrorCode.offset_out_of_range)
        if "delete" not in self.log.config.cleanup_policy:
            raise ApiError(ErrorCode.policy_violation, "cleanup.policy does not include delete")
        self.log.increment_start_offset(offset)
        return self.low_watermark

    @property
    def low_watermark(self) -> int:
        """The smallest log start over all live replicas."""
        leadership = self.leading()
        starts = [each.log_start_offset for each in leadership.remotes.values() if self._is_eligible(each.broker_id)]
        return min([self.log.start_offset, *starts])

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"Partition({self.topic_partition}, {role}, epoch {self.leader_epoch})"
