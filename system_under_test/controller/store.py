"""The controller's reads and writes of ZooKeeper. Every write is fenced.

A write is a transaction that also checks the version of ``/controller_epoch``, which the next controller's election
raises. So a controller that was deposed without knowing it changes nothing: its writes raise :class:`ControllerMoved`.
States of partitions are written conditionally on the version that was read, as leaders write them too.

Failpoint: ``controller.before_state_write`` (topic, partition) before each write of a partition's state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from system_under_test.controller.context import Leadership, LiveBroker, ReplicaAssignment
from system_under_test.failpoints import Failpoints
from system_under_test.types import TopicPartition
from system_under_test.world import (
    BadVersion,
    Change,
    Check,
    Coordination,
    Create,
    Delete,
    NodeExists,
    NodeStat,
    NoNode,
    SetData,
    Watcher,
)
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.configs import read_config
from system_under_test.zookeeper.nodes import BrokerRegistration, MalformedNode, PartitionState, TopicAssignment

log = logging.getLogger(__name__)


class ControllerMoved(Exception):
    """Another broker has become controller."""


class ControllerStore:
    def __init__(self, zookeeper: Coordination, epoch_version: int, failpoints: Failpoints) -> None:
        self._zookeeper = zookeeper
        self._epoch_version = epoch_version
        self._failpoints = failpoints

    # -- reading

    async def live_brokers(self, watch: Watcher) -> dict[int, LiveBroker]:
        names = await self._zookeeper.children(nodes.BROKER_IDS, watch)
        ids = sorted(int(name) for name in names if name.isdecimal())
        found = await asyncio.gather(*(self._live_broker(each) for each in ids))
        return {each: live for each, live in zip(ids, found, strict=True) if live is not None}

    async def _live_broker(self, broker: int) -> LiveBroker | None:
        try:
            data, stat = await self._zookeeper.get(nodes.broker_path(broker))
            return LiveBroker(BrokerRegistration.decode(broker, data), stat.czxid)
        except NoNode:
            return None  # gone since the names were read: the watch tells
        except MalformedNode as error:
            log.error("registration of broker %d is ignored: %s", broker, error)
            return None

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return await self._zookeeper.children(path, watch)

    async def topic(self, topic: str, watch: Watcher | None = None) -> TopicAssignment | None:
        """None: it is gone, or its node holds garbage."""
        try:
            data, _ = await self._zookeeper.get(nodes.topic_path(topic), watch)
            return TopicAssignment.decode(topic, data)
        except NoNode:
            return None
        except MalformedNode as error:
            log.error("topic %s is ignored: %s", topic, error)
            return None

    async def states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leadership]:
        """Of those that have one."""
        wanted = list(partitions)
        found = await asyncio.gather(*(self.state(each) for each in wanted))
        return {each: state for each, state in zip(wanted, found, strict=True) if state is not None}

    async def state(self, partition: TopicPartition, watch: Watcher | None = None) -> Leadership | None:
        try:
            data, stat = await self._zookeeper.get(nodes.partition_state_path(*partition), watch)
            return Leadership(PartitionState.decode(data), stat.version)
        except NoNode:
            return None
        except MalformedNode as error:
            log.error("state of %s is ignored: %s", partition, error)
            return None

    async def data(self, path: str, watch: Watcher | None = None) -> bytes | None:
        """What is in a node that comes and goes; the watch is left in any case."""
        if watch is not None:
            await self._zookeeper.exists(path, watch)
        try:
            return (await self._zookeeper.get(path))[0]
        except NoNode:
            return None

    async def topic_config(self, topic: str) -> Mapping[str, str]:
        return (await read_config(self._zookeeper, f"topics/{topic}"))[0]

    # -- writing

    async def _write(self, *changes: Change) -> list[NodeStat | None]:
        try:
            return (await self._zookeeper.multi([Check(nodes.CONTROLLER_EPOCH, self._epoch_version), *changes]))[1:]
        except BadVersion:
            await self._check_still_controller()
            raise

    async def _check_still_controller(self) -> None:
        stat = await self._zookeeper.exists(nodes.CONTROLLER_EPOCH)
        if stat is None or stat.version != self._epoch_version:
            raise ControllerMoved("another controller has raised the epoch") from None

    async def create_state(self, partition: TopicPartition, state: PartitionState) -> Leadership | None:
        """The first state of a partition. None: it has one already."""
        if self._failpoints.on:
            await self._failpoints.reach(
                "controller.before_state_write", topic=partition.topic, partition=partition.partition
            )
        for parent in (nodes.partitions_path(partition.topic), nodes.partition_path(*partition)):
            await self._make(parent)
        try:
            (stat,) = await self._write(Create(nodes.partition_state_path(*partition), state.encode()))
        except NodeExists:
            return None
        assert stat is not None
        return Leadership(state, stat.version)

    async def _make(self, path: str) -> None:
        if await self._zookeeper.exists(path) is None:
            try:
                await self._write(Create(path, b""))
            except NodeExists:
                return

    async def update_states(
        self, changes: Mapping[TopicPartition, tuple[PartitionState, int]]
    ) -> dict[TopicPartition, Leadership]:
        """Write each state over the version given. Those whose version has changed, or that are gone, are left out."""
        written = await asyncio.gather(*(self._update_state(each, *changes[each]) for each in changes))
        return {each: stored for each, stored in zip(changes, written, strict=True) if stored is not None}

    async def _update_state(self, partition: TopicPartition, state: PartitionState, version: int) -> Leadership | None:
        if self._failpoints.on:
            await self._failpoints.reach(
                "controller.before_state_write", topic=partition.topic, partition=partition.partition
            )
        try:
            (stat,) = await self._write(SetData(nodes.partition_state_path(*partition), state.encode(), version))
        except (BadVersion, NoNode):
            return None
        assert stat is not None
        return Leadership(state, stat.version)

    async def write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Change one partition in its topic's node; others that came in meanwhile stay. Gone topics stay gone."""
        path = nodes.topic_path(partition.topic)
        number = partition.partition
        while True:
            try:
                data, stat = await self._zookeeper.get(path)
                current = TopicAssignment.decode(partition.topic, data)
                changed = TopicAssignment(
                    current.topic_id,
                    {**current.partitions, number: assignment.replicas},
                    {**current.adding_replicas, number: assignment.adding},
                    {**current.removing_replicas, number: assignment.removing},
                )
                await self._write(SetData(path, changed.encode(), stat.version))
            except BadVersion:
                continue
            except NoNode:
                log.warning("%s is gone: its assignment is not written", partition.topic)
            return

    async def restore_assignment(self, topic: str, partitions: Mapping[int, ReplicaAssignment]) -> None:
        """Undo partitions that were added to a doomed topic."""
        try:
            data, stat = await self._zookeeper.get(nodes.topic_path(topic))
            restored = TopicAssignment(
                TopicAssignment.decode(topic, data).topic_id,
                {number: each.replicas for number, each in partitions.items()},
                {number: each.adding for number, each in partitions.items()},
                {number: each.removing for number, each in partitions.items()},
            )
            await self._write(SetData(nodes.topic_path(topic), restored.encode(), stat.version))
        except (BadVersion, NoNode):
            log.info("%s changed again: its watch tells", topic)

    async def delete_topic(self, topic: str) -> None:
        """Remove all of a topic. Its node, its overrides and its mark go in one step: a topic of the same name that
        is made right afterwards loses nothing, and a controller that fails before it finds the mark."""
        await self._delete_below(nodes.topic_path(topic))
        paths = (nodes.topic_path(topic), nodes.topic_config_path(topic), nodes.delete_topic_path(topic))
        while True:
            there = [path for path in paths if await self._zookeeper.exists(path) is not None]
            try:
                await self._write(*(Delete(path) for path in there))
            except NoNode:
                continue
            return

    async def _delete_below(self, path: str) -> None:
        try:
            names = await self._zookeeper.children(path)
        except NoNode:
            return
        for name in names:
            await self._delete_below(f"{path}/{name}")
            await self.delete(f"{path}/{name}")

    async def delete(self, path: str) -> None:
        """Fine when it is gone."""
        try:
            await self._write(Delete(path))
        except NoNode:
            return

    async def delete_all(self, paths: Sequence[str]) -> None:
        await asyncio.gather(*(self.delete(path) for path in paths))

    async def set(self, path: str, data: bytes) -> None:
        """Fine when it is gone."""
        try:
            await self._write(SetData(path, data))
        except NoNode:
            return
