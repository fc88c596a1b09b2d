"""Moving replicas to other brokers (KIP-455).

A reassignment lives in the topic's node: the union of the old and the new replicas, which of them are being added and
which removed. So a controller that fails in the middle leaves all that its successor needs.

* Phase A, until every target replica is in the ISR: the union is written, all replicas learn of it by a new leader
  epoch, the added ones begin to fetch. The state's node is watched.
* Phase B: leadership moves to a target replica if it must; the removed ones leave the ISR, stop and delete
  their data; then the target alone is written. Data is deleted only after somebody else is in the ISR for certain.

A new target for a partition under way replaces the old one: replicas that only the old one wanted are stopped first.
To cancel is to reassign to the original replicas. Requests come by the API or by ``/admin/reassign_partitions``, whose
entries go as they are completed; the API overrides that node. The deletion of the topic ends a move.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from system_under_test.controller.context import PartitionPhase, Replica, ReplicaAssignment, ReplicaPhase
from system_under_test.controller.core import Core
from system_under_test.controller.events import ReassignedIsrChanged, ReassignmentRequested, TermEvent
from system_under_test.controller.partition_states import PartitionStateMachine, Strategy
from system_under_test.controller.replica_states import ReplicaStateMachine
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.types import TopicPartition
from system_under_test.world import Watcher
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import MalformedNode

log = logging.getLogger(__name__)
_R = ReplicaPhase


class Reassignments:
    def __init__(
        self,
        core: Core,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        watch: Callable[[TermEvent], Watcher],
    ) -> None:
        self._core = core
        self._context = core.context
        self._partitions = partitions
        self._replicas = replicas
        self._watch = watch
        self._watched: set[TopicPartition] = set()

    # -- what asks for it

    async def start(self) -> None:
        """Go on with what a predecessor left."""
        await self.requested()
        await self.resume(lambda _: True)

    async def requested(self) -> None:
        """``/admin/reassign_partitions`` may have come or changed."""
        data = await self._core.store.data(nodes.REASSIGN_PARTITIONS, self._watch(ReassignmentRequested()))
        if data is None:
            return
        try:
            wanted = nodes.decode_reassignment(data)
        except MalformedNode as error:
            log.error("%s is deleted: %s", nodes.REASSIGN_PARTITIONS, error)
            await self._core.store.delete(nodes.REASSIGN_PARTITIONS)
            return
        if not wanted:
            await self._core.store.delete(nodes.REASSIGN_PARTITIONS)
        refused: list[TopicPartition] = []
        for partition in sorted(wanted):
            try:
                await self._begin(partition, wanted[partition], by_api=False)
            except ApiError as error:
                log.error("%s is not reassigned to %s: %s", partition, wanted[partition], error)
                refused.append(partition)
        if refused:
            await self._remove_from_request(refused)

    async def alter(
        self, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """By the API; None as a target cancels. The outcome of each."""
        results: dict[TopicPartition, ApiError | None] = {}
        for partition in sorted(wanted):
            try:
                target = wanted[partition]
                if target is None:
                    target = self._original(partition)
                await self._begin(partition, target, by_api=True)
                results[partition] = None
            except ApiError as error:
                results[partition] = error
        # The API has the last word: what the node asks of these partitions would come back with the next controller.
        await self._remove_from_request([each for each, error in results.items() if error is None])
        return results

    def under_way(self) -> dict[TopicPartition, ReplicaAssignment]:
        return {each: self._context.assignment(each) for each in sorted(self._context.reassigning)}

    async def resume(self, concerned: Callable[[ReplicaAssignment], bool]) -> None:
        for partition in sorted(self._context.reassigning):
            if concerned(self._context.assignment(partition)):
                await self._proceed(partition, self._context.assignment(partition))

    async def forget(self, topics: Iterable[str]) -> None:
        """These are deleted, with all replicas that a move has made so far."""
        gone = set(topics)
        moving = sorted(each for each in self._context.reassigning if each.topic in gone)
        self._context.reassigning.difference_update(moving)
        await self._remove_from_request(moving)

    async def isr_changed(self, partition: TopicPartition) -> None:
        self._watched.discard(partition)
        if partition in self._context.reassigning:
            assignment = self._context.assignment(partition)
            if await self._is_complete(partition, assignment):
                await self._proceed(partition, assignment)

    # -- what may be asked for

    def _original(self, partition: TopicPartition) -> tuple[int, ...]:
        self._check_known(partition)
        if partition not in self._context.reassigning:
            raise ApiError(ErrorCode.no_reassignment_in_progress)
        return self._context.assignment(partition).origin

    def _check_known(self, partition: TopicPartition) -> None:
        if not self._context.knows(partition) or self._context.is_doomed(partition):
            raise ApiError(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")

    def _check_target(self, partition: TopicPartition, target: tuple[int, ...], *, by_api: bool) -> None:
        if not target:
            raise ApiError(ErrorCode.invalid_replica_assignment, "The replica assignment cannot be empty.")
        if len(set(target)) != len(target):
            raise ApiError(ErrorCode.invalid_replica_assignment, f"{target} contains a broker twice.")
        if any(each < 0 for each in target):
            raise ApiError(ErrorCode.invalid_replica_assignment, f"{target} contains a negative broker id.")
        if not by_api:
            return  # such a request is not answered: it may wait for a broker, also for one that died meanwhile
        present = self._context.assignment(partition).replicas
        dead = sorted(each for each in target if each not in present and each not in self._context.brokers)
        if dead:
            raise ApiError(ErrorCode.invalid_replica_assignment, f"Brokers {dead} of {target} are not alive.")

    async def _begin(self, partition: TopicPartition, target: tuple[int, ...], *, by_api: bool) -> None:
        self._check_known(partition)
        self._check_target(partition, target, by_api=by_api)
        current = self._context.assignment(partition)
        wanted = current.reassign_to(target)
        if not by_api and partition in self._context.reassigning and wanted == current:
            return  # under way: the node was only read again
        await self._proceed(partition, wanted)

    # -- the phases

    async def _proceed(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Do what can be done now. Every step is one that a successor would do again."""
        await self._adopt(partition, assignment)
        if not await self._is_complete(partition, assignment):
            await self._partitions.raise_leader_epoch(partition)
            fresh = [Replica(partition, each) for each in assignment.adding]
            missing = [each for each in fresh if self._context.replica_phase(each) is _R.NON_EXISTENT]
            await self._replicas.handle(missing, _R.NEW)
        else:
            await self._complete(partition, assignment)

    async def _adopt(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Write the union, and stop what an earlier target added and this one does not want."""
        current = self._context.assignment(partition)
        if current != assignment:
            unwanted = tuple(each for each in current.replicas if each not in assignment.replicas)
            self._context.assign(partition, ReplicaAssignment(current.replicas, current.adding, unwanted))
            retired = await self._retire(partition, unwanted)
            self._context.assign(partition, assignment if retired else current)
            if not retired:
                raise ApiError(
                    ErrorCode.invalid_replica_assignment,
                    f"All that is in sync is on brokers {unwanted}, which an earlier target added: it would be lost.",
                )
            await self._core.store.write_assignment(partition, assignment)
            await self._delete(partition, unwanted)
        self._context.reassigning.add(partition)

    async def _retire(self, partition: TopicPartition, leaving: tuple[int, ...]) -> bool:
        """Take leadership and membership in the ISR from replicas that are to go, while they still have their data.

        False: nobody else has all of it, so they must stay. (Kafka's controller with ZooKeeper does not look.)"""
        stored = await self._core.store.state(partition)
        if stored is None or not leaving:
            return True
        if set(stored.state.isr) <= set(leaving):
            return False
        if stored.state.leader in leaving and await self._partitions.handle(
            [partition], PartitionPhase.ONLINE, Strategy.REASSIGNED
        ):
            return False
        ending = self._existing(partition, leaving)
        await self._replicas.handle(ending, _R.OFFLINE)
        leadership = self._context.leadership.get(partition)
        if leadership is None or not set(leadership.state.isr) & set(leaving):
            return True
        await self._replicas.handle(ending, _R.ONLINE)  # the others left the ISR meanwhile
        return False

    async def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        watch = None
        if partition not in self._watched:
            self._watched.add(partition)
            watch = self._watch(ReassignedIsrChanged(partition))
        stored = await self._core.store.state(partition, watch)
        if stored is None:
            self._watched.discard(partition)  # a read of nothing leaves no watch
        if not assignment.is_being_reassigned:
            return True
        return stored is not None and set(assignment.target) <= set(stored.state.isr)

    async def _complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        await self._replicas.handle([Replica(partition, each) for each in assignment.adding], _R.ONLINE)
        if not await self._retire(partition, assignment.removing):
            log.warning("%s: target %s cannot take over yet", partition, assignment.target)
            return  # the watch tells when the ISR changes
        completed = ReplicaAssignment(assignment.target)
        self._context.assign(partition, completed)
        await self._partitions.raise_leader_epoch(partition)  # by which the others learn who is left
        await self._delete(partition, assignment.removing)
        await self._core.store.write_assignment(partition, completed)
        await self._remove_from_request([partition])
        self._context.reassigning.discard(partition)
        batch = self._core.batch()
        batch.update_metadata(self._context.broker_ids(), [partition])
        self._core.send(batch)
        log.info("%s is reassigned to %s", partition, completed.replicas)

    async def _delete(self, partition: TopicPartition, retired: Iterable[int]) -> None:
        ending = self._existing(partition, retired)
        for phase in (_R.OFFLINE, _R.DELETION_STARTED, _R.DELETION_SUCCESSFUL, _R.NON_EXISTENT):
            await self._replicas.handle(ending, phase)

    def _existing(self, partition: TopicPartition, brokers: Iterable[int]) -> list[Replica]:
        replicas = [Replica(partition, each) for each in brokers]
        return [each for each in replicas if self._context.replica_phase(each) is not _R.NON_EXISTENT]

    async def _remove_from_request(self, partitions: list[TopicPartition]) -> None:
        """Take what is done out of ``/admin/reassign_partitions``; the empty node goes."""
        data = await self._core.store.data(nodes.REASSIGN_PARTITIONS)
        if data is None or not partitions:
            return
        try:
            wanted = nodes.decode_reassignment(data)
        except MalformedNode:
            return  # whoever reads it deletes it
        left = {each: wanted[each] for each in wanted if each not in partitions}
        if len(left) == len(wanted) and wanted:
            return
        if left:
            await self._core.store.set(nodes.REASSIGN_PARTITIONS, nodes.encode_reassignment(left))
        else:
            await self._core.store.delete(nodes.REASSIGN_PARTITIONS)
