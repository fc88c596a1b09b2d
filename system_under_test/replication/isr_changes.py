"""Changes of ISRs: decided by the leader, written to ZooKeeper, settled when it is known what ZooKeeper has.

A proposal stays pending, and the maximal ISR in force, until one of these is certain:

* the write was accepted;
* the node has another version. Then the node is read: with our leader epoch in it, its ISR is adopted; with a newer
  one, this replica does not lead any more, only has not heard of it, and stays as it is until a LeaderAndIsr comes.

When the connection is lost nobody knows whether the write took effect, or still will. A read alone does not tell: the
write could land after it. So the *old* ISR is written on condition of the same version; whichever of the two writes
comes first, the other can never land, and the node's version moves on.

Failpoints: ``isr.change.sent`` (about to write), ``isr.change.written`` (written, and the leader does not know it yet).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from system_under_test.failpoints import Dropped, FailpointError, Failpoints
from system_under_test.replication.isr import NO_BROKER_EPOCH, IsrState, RemoteReplica
from system_under_test.replication.partition import Leadership, Partition
from system_under_test.replication.ports import IsrStore
from system_under_test.types import TopicPartition
from system_under_test.world import BadVersion, Clock, CoordinationError, Disconnected, NoNode, SessionExpired
from system_under_test.zookeeper.nodes import MalformedNode, PartitionState

log = logging.getLogger(__name__)

RETRY_S = 0.1
"""Between attempts to settle, while ZooKeeper does not answer."""


@dataclass(frozen=True, slots=True)
class Propagation:
    """When changed partitions are told to the controller, as Kafka does: looked at every ``check_s``, told when
    nothing changed for ``linger_s``, or when ``longest_s`` have passed since the last time."""

    check_s: float = 2.5
    linger_s: float = 5.0
    longest_s: float = 60.0


class IsrChanges:
    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        store: IsrStore,
        failpoints: Failpoints,
        on_settled: Callable[[Partition, bool], None],
        propagation: Propagation | None = None,
    ) -> None:
        """``on_settled`` is called with the partition and whether its high watermark moved."""
        self._broker_id = broker_id
        self._clock = clock
        self._store = store
        self._failpoints = failpoints
        self._on_settled = on_settled
        self._propagation = propagation or Propagation()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._last_change = self._last_told = clock.monotonic()
        self.enabled = True
        """False while the broker shuts down."""
        self.shrinks = 0
        self.expands = 0

    def expand(self, partition: Partition, joining: RemoteReplica) -> None:
        if self.enabled:
            isr = partition.leading().isr.isr
            pending = partition.propose_isr((*isr, joining.broker_id))
            log.info("%s: expanding ISR from %s to %s", partition.topic_partition, isr, pending.proposed)
            self._start(partition, pending, joining)

    def shrink(self, partition: Partition, leaving: tuple[int, ...]) -> None:
        if self.enabled:
            isr = partition.leading().isr.isr
            pending = partition.propose_isr(tuple(each for each in isr if each not in leaving))
            log.info(
                "%s: shrinking ISR from %s to %s, high watermark %d, end %d",
                partition.topic_partition,
                isr,
                pending.proposed,
                partition.log.high_watermark,
                partition.log.end_offset,
            )
            self._start(partition, pending, None)

    def _start(self, partition: Partition, pending: IsrState, joining: RemoteReplica | None) -> None:
        name = f"isr-change-{partition.topic_partition}"
        change = self._change(partition, partition.leading(), pending, joining)
        task = asyncio.get_running_loop().create_task(change, name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done))

    async def _change(
        self, partition: Partition, leadership: Leadership, pending: IsrState, joining: RemoteReplica | None
    ) -> None:
        assert pending.proposed is not None
        if not partition.is_pending(leadership, pending):
            return  # a LeaderAndIsr came before this task's first step
        try:
            await self._reach("isr.change.sent", partition)
            if joining is not None and not await self._is_same_incarnation(joining):
                # Nothing was written, so this takes no settling: the old ISR is the one in ZooKeeper.
                if partition.is_pending(leadership, pending):
                    leadership.isr = IsrState(pending.isr, pending.version)
                return
            state = self._state(partition, leadership, pending.proposed)
            version = await self._store.update(
                partition.topic_partition, state, pending.version, None if joining is None else joining.broker_id
            )
            await self._reach("isr.change.written", partition)
        except BadVersion:
            await self._refresh(partition, leadership, pending)
        except (NoNode, Disconnected, SessionExpired, Dropped, FailpointError) as error:
            log.warning("%s: ISR change is open: %s", partition.topic_partition, type(error).__name__)
            await self._settle(partition, leadership, pending)
        else:
            self._settled(partition, leadership, pending, pending.proposed, version)

    async def _is_same_incarnation(self, joining: RemoteReplica) -> bool:
        """Whether who is registered now is who has fetched: an empty successor under the same id must not join on
        its predecessor's merits (KIP-903)."""
        if joining.broker_epoch == NO_BROKER_EPOCH:
            return True
        return await self._store.broker_epoch(joining.broker_id) == joining.broker_epoch

    async def _settle(self, partition: Partition, leadership: Leadership, pending: IsrState) -> None:
        """Write the old ISR until ZooKeeper accepts or refuses it: then the proposal has landed or never will."""
        state = self._state(partition, leadership, pending.isr)
        while partition.is_pending(leadership, pending):
            try:
                version = await self._store.update(partition.topic_partition, state, pending.version, None)
            except BadVersion:
                await self._refresh(partition, leadership, pending)
                return
            except NoNode:
                return  # the topic is being deleted: nothing is decided here any more
            except (Disconnected, SessionExpired):
                await asyncio.sleep(RETRY_S)
            else:
                self._settled(partition, leadership, pending, pending.isr, version)
                return

    async def _refresh(self, partition: Partition, leadership: Leadership, pending: IsrState) -> None:
        """Somebody else, or our own lost write, moved the node's version on."""
        while partition.is_pending(leadership, pending):
            try:
                state, version = await self._store.read(partition.topic_partition)
            except (NoNode, MalformedNode) as error:
                log.warning("%s: its state cannot be read: %r", partition.topic_partition, error)
                return
            except (Disconnected, SessionExpired):
                await asyncio.sleep(RETRY_S)
                continue
            is_ours = state.leader == self._broker_id and state.leader_epoch == leadership.epoch
            # A smaller version is that of another topic of the same name, made after this one was deleted.
            if not is_ours or version <= pending.version:
                log.info("%s: no longer leads as of %s; awaiting LeaderAndIsr", partition.topic_partition, state)
                return
            self._settled(partition, leadership, pending, state.isr, version)
            return

    def _settled(
        self, partition: Partition, leadership: Leadership, pending: IsrState, isr: tuple[int, ...], version: int
    ) -> None:
        if not partition.is_pending(leadership, pending):
            return  # a LeaderAndIsr was faster; it knows better
        moved = partition.settle_isr(isr, version, self._clock.monotonic())
        self.expands += len(isr) > len(pending.isr)
        self.shrinks += len(isr) < len(pending.isr)
        if isr != pending.isr:
            self._changed[partition.topic_partition] = None
            self._last_change = self._clock.monotonic()
        self._on_settled(partition, moved)

    def _state(self, partition: Partition, leadership: Leadership, isr: tuple[int, ...]) -> PartitionState:
        return PartitionState(self._broker_id, leadership.epoch, isr, partition.controller_epoch)

    async def _reach(self, point: str, partition: Partition) -> None:
        if self._failpoints.on:
            topic, number = partition.topic_partition
            await self._failpoints.reach(point, topic=topic, partition=number)

    # -- telling the controller --------------------------------------------------------------------------------------

    async def propagate(self) -> None:
        """Run for the broker's life: tell the controller of changed ISRs, many at once."""
        rules = self._propagation
        while True:
            await asyncio.sleep(rules.check_s)
            now = self._clock.monotonic()
            quiet = now - self._last_change >= rules.linger_s or now - self._last_told >= rules.longest_s
            if not self._changed or not quiet:
                continue
            changed, self._changed = self._changed, {}
            try:
                await self._store.notify(list(changed))
            except CoordinationError as error:
                log.warning("ISR changes of %d partitions are told later: %s", len(changed), type(error).__name__)
                self._changed = changed | self._changed
            else:
                self._last_told = now

    async def close(self) -> None:
        self.enabled = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
