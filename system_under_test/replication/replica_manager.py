"""All replicas of a broker: who leads, who follows, who waits.

Every method but :meth:`ReplicaManager.run` is synchronous, so that each request is decided and applied in one
step; what has to wait is a future. Events wake exactly those who wait for them:

* the log's end moved: followers' fetches;
* the high watermark moved: acks=all produces and consumers' fetches;
* a follower's log start moved: deletions of records;
* leadership came, changed or went: all of them.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from system_under_test.bugs import Bug, Bugs
from system_under_test.config import BrokerConfig
from system_under_test.failpoints import Failpoints
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.fetch_response import PartitionData
from system_under_test.protocol.messages import Body, Request
from system_under_test.protocol.produce_response import PartitionResult
from system_under_test.replication import appending, fetching
from system_under_test.replication.appending import DelayedProduce
from system_under_test.replication.delayed import Purgatory
from system_under_test.replication.deleting import DelayedDeleteRecords, Deletion
from system_under_test.replication.fetch_session import FetchSessionCache
from system_under_test.replication.fetcher import FetcherContext, Fetchers, PeersLike
from system_under_test.replication.fetching import DelayedFetch, FetchParams, FetchPartition
from system_under_test.replication.isr import LagLimits
from system_under_test.replication.isr_changes import IsrChanges, Propagation
from system_under_test.replication.partition import Partition, StateChange
from system_under_test.replication.ports import IsrStore, Metadata
from system_under_test.replication.state_changes import (
    EPOCH_DURING_DELETE,
    FULL,
    INCREMENTAL,
    NO_EPOCH,
    check,
    leader_and_isr_answer,
    state_changes,
    stop_replica_answer,
    stops,
)
from system_under_test.storage.log_manager import LogManager
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.world import Buffer, World

log = logging.getLogger(__name__)


class ReplicaManager:
    def __init__(
        self,
        world: World,
        broker_id: int,
        config: BrokerConfig,
        logs: LogManager,
        metadata: Metadata,
        peers: PeersLike,
        isr_store: IsrStore,
        failpoints: Failpoints,
        bugs: Bugs,
        topic_config: Callable[[str], Mapping[str, str]],
        propagation: Propagation | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        """Of the present registration; the broker sets it."""
        self.controller_epoch = 0
        self.partitions: dict[TopicPartition, Partition] = {}
        self.metadata = metadata
        self.logs = logs
        self._clock = world.clock
        self._config = config
        self._bugs = bugs
        self._topic_config = topic_config
        self._topic_names: dict[uuid.UUID, str] = {}
        self._limits = LagLimits(config.replica_lag_time_max_ms / 1000, config.replica_lag_max_messages)
        self.produces = Purgatory("produce")
        self.consumer_fetches = Purgatory("consumer fetch")
        self.follower_fetches = Purgatory("follower fetch")
        self.deletions = Purgatory("delete records")
        self.sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, world.random, topic_name=self.topic_name
        )
        self.isr_changes = IsrChanges(
            broker_id, world.clock, isr_store, failpoints, self._isr_settled, propagation or Propagation()
        )
        self.fetchers = Fetchers(
            FetcherContext(broker_id, lambda: self.broker_epoch, config, world.clock, peers, failpoints, bugs)
        )

    # -- looking up --------------------------------------------------------------------------------------------------

    def partition(self, topic_partition: TopicPartition) -> Partition:
        partition = self.partitions.get(topic_partition)
        if partition is None:
            # Metadata may be ahead of LeaderAndIsr: then the client is right to ask again.
            known = self.metadata.contains(topic_partition)
            raise ApiError(ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition)
        return partition

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return self._topic_names.get(topic_id) or self.metadata.topic_name(topic_id)

    def current_leader(self, key: TopicPartition) -> tuple[tuple[int, int] | None, BrokerEndpoint | None]:
        """Leader and epoch as far as this replica knows, and where that broker is (KIP-951)."""
        partition = self.partitions.get(key)
        if partition is None or partition.leader_id < 0:
            return None, None
        return (partition.leader_id, partition.leader_epoch), self.metadata.endpoint(partition.leader_id)

    def leaders(self) -> list[Partition]:
        return [each for each in self.partitions.values() if each.is_leader]

    def under_replicated(self) -> int:
        """Partitions led from here whose ISR is not all of their replicas."""
        return sum(
            len(each.leadership.isr.isr) < len(each.replicas)
            for each in self.partitions.values()
            if each.leadership is not None
        )

    def _is_eligible(self, broker_id: int) -> bool:
        return self.metadata.endpoint(broker_id) is not None

    # -- produce -----------------------------------------------------------------------------------------------------

    def append_records(
        self,
        batches: Sequence[tuple[TopicPartition, Buffer | None]],
        required_acks: int,
        timeout_s: float,
        then: Callable[[list[PartitionResult]], Any] | None = None,
    ) -> list[PartitionResult] | asyncio.Future[Any]:
        """Append to leaders. The results at once; or, when acks=all is satisfied or has timed out, what ``then`` makes of
        them: in the same step, for each turn of the loop makes the client wait longer."""
        now = self._clock.monotonic()
        results: list[PartitionResult] = []
        waiting: dict[TopicPartition, tuple[int, Partition, int]] = {}
        grown: list[tuple[TopicPartition, bool]] = []
        for key, records in batches:
            try:
                if not records:
                    raise ApiError(ErrorCode.invalid_record, "no records")
                partition = self.partition(key)
                info, moved = partition.append_as_leader(records, required_acks, now)
            except (ApiError, OSError) as error:
                results.append(appending.refused(key, error))
                continue
            grown.append((key, moved))
            waiting[key] = (len(results), partition, info.last_offset + 1)
            results.append(appending.appended(key.partition, info))
        # The switch: acks=all is answered as soon as the leader has it.
        must_wait = required_acks == -1 and Bug.ACK_ON_APPEND not in self._bugs
        answer: asyncio.Future[Any] | None = None
        if must_wait and waiting:
            operation = DelayedProduce(results, waiting, then)
            for key in operation.keys:
                operation.try_complete(key)
            if not operation.is_done:
                self.produces.watch(operation, operation.keys, timeout_s)
                answer = operation.answer
        for key, moved in grown:
            self.follower_fetches.check(key)
            if moved:
                self._high_watermark_moved(key)
        return results if answer is None else answer

    # -- fetch -------------------------------------------------------------------------------------------------------

    def fetch_messages(
        self,
        params: FetchParams,
        asked: Sequence[FetchPartition],
        then: Callable[[list[PartitionData]], Any] | None = None,
    ) -> list[PartitionData] | asyncio.Future[Any]:
        """Read, and count followers' fetches. The answers, in order, at once; or, when ``min_bytes`` have come or the time is
        up, what ``then`` makes of them."""
        answers, found, is_urgent = self._read(params, asked, is_first=True)
        readable = sum(len(each.records) for each in answers if each.records)
        if is_urgent or not found or params.max_wait_s <= 0 or readable >= params.min_bytes:
            return answers

        def read_again() -> Any:
            again = self._read(params, asked, is_first=False)[0]
            return again if then is None else then(again)

        operation = DelayedFetch(params, found, readable, read_again)
        purgatory = self.follower_fetches if params.is_follower else self.consumer_fetches
        purgatory.watch(operation, operation.keys, params.max_wait_s)
        return operation.answer

    def _read(
        self, params: FetchParams, asked: Sequence[FetchPartition], *, is_first: bool
    ) -> tuple[list[PartitionData], list[Partition], bool]:
        """Answers; the partitions that were read; whether an answer must not wait. Only the first reading of a
        follower's fetch is its acknowledgement."""
        now = self._clock.monotonic()
        answers: list[PartitionData] = []
        found: list[Partition] = []
        is_urgent = False
        remaining, at_least_one = params.max_bytes, True
        asker, counts = params.asker, params.is_follower and is_first
        for each in asked:
            quiet = each.quiet
            if quiet is not None and quiet.holds(asker) and (not counts or quiet.fetched_again(each, now)):
                answers.append(quiet.answer)
                found.append(quiet.partition)
                continue
            partition: Partition | None = None
            try:
                if each.error is not ErrorCode.none:
                    raise ApiError(each.error)
                partition = self.partition(each.topic_partition)
                answer = fetching.check(partition, params, each)
                if answer is None:
                    if counts:
                        self._follower_fetched(partition, params, each, now)
                    answer = fetching.read(partition, params, each, min(each.max_bytes, remaining), at_least_one)
                    found.append(partition)
                else:
                    is_urgent = True  # the logs diverge
            except ApiError as error:
                answer = fetching.failed(each, error.code, partition)
                is_urgent = True
            except OSError as error:
                log.error("%s: read failed: %s", each.topic_partition, error)
                answer = fetching.failed(each, ErrorCode.kafka_storage_error, partition)
                is_urgent = True
            if answer.records:
                at_least_one = False
                remaining = max(remaining - len(answer.records), 0)
            answers.append(answer)
        return answers, found, is_urgent

    def _follower_fetched(self, partition: Partition, params: FetchParams, asked: FetchPartition, now: float) -> None:
        replica = partition.remote(params.replica_id, asked.current_leader_epoch, params.broker_epoch)
        starts_before = replica.log_start_offset
        is_news = partition.follower_fetched(
            replica, asked.fetch_offset, asked.log_start_offset, params.broker_epoch, now
        )
        if partition.may_join_isr(replica):
            self.isr_changes.expand(partition, replica)
        if is_news and partition.maybe_increment_high_watermark(now):
            self._high_watermark_moved(partition.topic_partition)
        if replica.log_start_offset != starts_before:
            self.deletions.check(partition.topic_partition)

    # -- events ------------------------------------------------------------------------------------------------------

    def _high_watermark_moved(self, key: TopicPartition) -> None:
        self.produces.check(key)
        self.consumer_fetches.check(key)

    def _role_changed(self, key: TopicPartition) -> None:
        for purgatory in (self.produces, self.consumer_fetches, self.follower_fetches, self.deletions):
            purgatory.check(key)

    def _isr_settled(self, partition: Partition, high_watermark_moved: bool) -> None:
        key = partition.topic_partition
        # A smaller ISR can turn a wait into NOT_ENOUGH_REPLICAS_AFTER_APPEND, so produces are asked in any case.
        if high_watermark_moved:
            self._high_watermark_moved(key)
        else:
            self.produces.check(key)

    # -- deleting records --------------------------------------------------------------------------------------------

    def delete_records(
        self, offsets: Sequence[tuple[TopicPartition, int]], timeout_s: float
    ) -> list[Deletion] | asyncio.Future[list[Deletion]]:
        """Move log starts; the low watermarks, when all live replicas have followed or the time is up."""
        results: list[Deletion] = []
        waiting: dict[TopicPartition, tuple[int, Partition, int]] = {}
        for key, offset in offsets:
            try:
                partition = self.partition(key)
                required = partition.log.high_watermark if offset == -1 else offset
                low_watermark = partition.delete_records(required)
            except ApiError as error:
                results.append(Deletion(key, -1, error.code))
                continue
            if low_watermark < required:
                waiting[key] = (len(results), partition, required)
            results.append(Deletion(key, low_watermark, ErrorCode.none))
        if not waiting or timeout_s <= 0:
            return results
        operation = DelayedDeleteRecords(results, waiting)
        self.deletions.watch(operation, operation.keys, timeout_s)
        return operation.answer

    # -- LeaderAndIsr and StopReplica --------------------------------------------------------------------------------

    def _is_stale_controller(self, request: Request) -> bool:
        epoch = request.body.controller_epoch
        # The switch: a deposed controller's requests are obeyed.
        if epoch < self.controller_epoch and Bug.STALE_CONTROLLER_OBEYED not in self._bugs:
            log.warning("%s of a deposed controller: epoch %d < %d", request.api.name, epoch, self.controller_epoch)
            return True
        self.controller_epoch = max(self.controller_epoch, epoch)
        return False

    def unknown_topics(self, request: Request) -> list[str]:
        """Topics of a LeaderAndIsr of which nothing is here yet: their configuration has to be read."""
        topics = {each.topic_partition.topic: None for each in state_changes(request) if not self._has_log(each)}
        return list(topics)

    def _has_log(self, change: StateChange) -> bool:
        return self.logs.get(change.topic_partition) is not None

    def become_leader_or_follower(self, request: Request) -> Body:
        if self._is_stale_controller(request):
            return leader_and_isr_answer(request, ErrorCode.stale_controller_epoch, {})
        results: dict[TopicPartition, ErrorCode] = {}
        now = self._clock.monotonic()
        for change in state_changes(request):
            try:
                results[change.topic_partition] = self._apply(change, now)
            except ApiError as error:
                log.error("%s: %s", change.topic_partition, error)
                results[change.topic_partition] = error.code
            except OSError as error:
                log.error("%s: %s", change.topic_partition, error)
                results[change.topic_partition] = ErrorCode.kafka_storage_error
        self.fetchers.stop_idle()
        if request.get("type_", INCREMENTAL) == FULL:
            for key in self.partitions:
                if key not in results:
                    log.warning("%s is here, and the controller does not know of it", key)
        return leader_and_isr_answer(request, ErrorCode.none, results)

    def _apply(self, change: StateChange, now: float) -> ErrorCode:
        check(change)
        key = change.topic_partition
        partition = self.partitions.get(key)
        if partition is not None:
            if change.topic_id is not None and partition.topic_id not in (None, change.topic_id):
                log.error("%s has topic id %s, not %s", key, partition.topic_id, change.topic_id)
                return ErrorCode.inconsistent_topic_id
            if change.leader_epoch <= partition.leader_epoch:
                return ErrorCode.stale_controller_epoch
        if self.broker_id not in change.replicas:
            return ErrorCode.unknown_topic_or_partition
        if partition is None:
            partition = self.partitions[key] = self._create(change)
        log.info(
            "%s: leader %d epoch %d isr %s version %d",
            key,
            change.leader,
            change.leader_epoch,
            change.isr,
            change.version,
        )
        self.fetchers.unfollow(key)
        if change.leader == self.broker_id:
            partition.make_leader(change, now)
        else:
            partition.make_follower(change)
            if change.leader >= 0:
                self.fetchers.follow(partition)
        self._role_changed(key)
        return ErrorCode.none

    def _create(self, change: StateChange) -> Partition:
        key = change.topic_partition
        replica_log = self.logs.get_or_create(key, self._topic_config(key.topic))
        checkpoint = min(self.logs.high_watermark_checkpoint(key), replica_log.end_offset)
        if checkpoint > replica_log.high_watermark:
            replica_log.update_high_watermark(checkpoint)
        partition = Partition(key, self.broker_id, replica_log, self._limits, self._is_eligible, self._bugs)
        if change.topic_id is not None:
            replica_log.assign_topic_id(change.topic_id)
            self._topic_names[change.topic_id] = key.topic
        partition.topic_id = change.topic_id
        return partition

    def stop_replica(self, request: Request) -> Body:
        if self._is_stale_controller(request):
            return stop_replica_answer(request, ErrorCode.stale_controller_epoch, ())
        results: list[tuple[TopicPartition, ErrorCode]] = []
        for stop in stops(request):
            key = stop.topic_partition
            partition = self.partitions.get(key)
            is_fenced = (
                partition is not None
                and stop.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
                and stop.leader_epoch < partition.leader_epoch
            )
            if is_fenced:
                results.append((key, ErrorCode.fenced_leader_epoch))
                continue
            results.append((key, self._stop(key, stop.delete)))
        self.fetchers.stop_idle()
        return stop_replica_answer(request, ErrorCode.none, results)

    def _stop(self, key: TopicPartition, delete: bool) -> ErrorCode:
        log.info("%s: stopped%s", key, ", to be deleted" if delete else "")
        self.fetchers.unfollow(key)
        if not delete:
            return ErrorCode.none
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.leadership = None
            self._forget_topic(partition)
            self._role_changed(key)
        try:
            if self.logs.get(key) is not None:
                self.logs.delete(key)
        except OSError as error:
            log.error("%s: cannot be deleted: %s", key, error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _forget_topic(self, partition: Partition) -> None:
        topic_id = partition.topic_id
        if topic_id is not None and not any(each.topic_id == topic_id for each in self.partitions.values()):
            self._topic_names.pop(topic_id, None)

    # -- life --------------------------------------------------------------------------------------------------------

    def check_isrs(self) -> None:
        """Drop followers that have fallen behind, from every ISR that is led from here."""
        now = self._clock.monotonic()
        for partition in self.leaders():
            leaving = partition.out_of_sync_replicas(now)
            if leaving:
                self.isr_changes.shrink(partition, leaving)
            # A follower outside of the ISR is waited for only while it keeps up: that it fell behind is no event.
            if partition.maybe_increment_high_watermark(now):
                self._high_watermark_moved(partition.topic_partition)

    async def run(self) -> None:
        """For the broker's life: shrink ISRs, tell the controller, checkpoint high watermarks."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(self._config.replica_lag_time_max_ms / 2000, self.check_isrs))
            interval_s = self._config.replica_high_watermark_checkpoint_interval_ms / 1000
            group.create_task(self._every(interval_s, self._checkpoint))
            group.create_task(self.isr_changes.propagate())

    async def _every(self, interval_s: float, action: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            action()

    def _checkpoint(self) -> None:
        try:
            self.logs.checkpoint_high_watermarks()
        except OSError as error:
            log.error("high watermarks cannot be checkpointed: %s", error)

    def begin_shutdown(self) -> None:
        """No ISR is changed from here any more."""
        self.isr_changes.enabled = False

    async def shutdown(self) -> None:
        self.fetchers.stop()
        await self.isr_changes.close()
        for purgatory in (self.produces, self.consumer_fetches, self.follower_fetches, self.deletions):
            purgatory.cancel_all()
        self._checkpoint()
