"""Carries out the faults of a schedule on a simulated cluster, and takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from system_under_test.simulation.cluster import SimulatedCluster
from system_under_test.simulation.invariants import Judge
from system_under_test.simulation.schedule import Fault, Kind, Role
from system_under_test.simulation.zookeeper import HOST as ZOOKEEPER
from system_under_test.types import TopicPartition
from system_under_test.world import CoordinationError, Create, Delete
from system_under_test.zookeeper.nodes import (
    CONTROLLER,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TopicAssignment,
    encode_partition_list,
    encode_reassignment,
    topic_path,
)

_SLOWNESS_S = 0.4
_REORDERED_AFTER_S = 0.08
"""By then a controller that is well has put the replicas in their new order."""

Undo = Callable[[], None]


class Nemesis:
    def __init__(self, cluster: SimulatedCluster, judge: Judge) -> None:
        self._cluster = cluster
        self._simulation = cluster.simulation
        self._judge = judge
        self._undo: dict[int, Undo] = {}
        self._next = 0
        self._stopping: list[asyncio.Task[None]] = []

    async def run(self, schedule: list[Fault]) -> None:
        """Returns when the last fault has struck; see :meth:`heal`."""
        loop = self._simulation.loop
        began = loop.time()
        for fault in schedule:
            await asyncio.sleep(max(0.0, began + fault.at_s - loop.time()))
            self._simulation.trace.add("nemesis", str(fault))
            self.strike(fault)

    def strike(self, fault: Fault) -> None:
        undo = self._inject(fault, self._target(fault))
        if undo is not None:
            number, self._next = self._next, self._next + 1
            self._undo[number] = undo
            self._simulation.loop.world_at(self._simulation.loop.time() + fault.for_s, self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    async def heal(self) -> None:
        """Take back everything, and start every broker that does not run."""
        while self._undo:
            self._end(min(self._undo))
        if self._stopping:
            await asyncio.wait(self._stopping)
        for broker_id in self._cluster.ids:
            self._start(broker_id)

    def _target(self, fault: Fault) -> int:
        target = fault.target
        state = self._cluster.state(target.partition)
        found: int | None = target.broker_id
        if target.role is Role.CONTROLLER:
            found = self._cluster.controller()
        elif target.role is Role.LEADER and state is not None:
            found = state.leader
        elif target.role is Role.FOLLOWER and state is not None:
            followers = [each for each in self._cluster.partitions[target.partition] if each != state.leader]
            found = followers[fault.peer % len(followers)] if followers else None
        return found if found in self._cluster.ids else target.broker_id

    def _inject(self, fault: Fault, target: int) -> Undo | None:
        name = f"broker-{target}"
        peer = next(each for each in (*range(fault.peer, len(self._cluster.ids) + 1), 1, 2) if each != target)
        other = f"broker-{peer}"
        match fault.kind:
            case Kind.PAUSE:
                return self._pause(target)
            case Kind.CUT:
                return self._cut([(name, other)], both=True)
            case Kind.CUT_OUT:
                return self._cut([(name, other)], both=False)
            case Kind.CUT_IN:
                return self._cut([(other, name)], both=False)
            case Kind.ISOLATE:
                return self._cut([(name, f"broker-{each}") for each in self._cluster.ids if each != target], both=True)
            case Kind.CUT_FROM_ZOOKEEPER:
                return self._cut([(name, ZOOKEEPER)], both=True)
            case Kind.SLOW:
                return self._slow(name, other)
            case Kind.EXPIRE:
                for session in self._simulation.zookeeper.sessions_of(name):
                    self._simulation.zookeeper.expire(session)
            case Kind.DROP_CONNECTIONS:
                self._simulation.board.drop_connections(name, other)
            case Kind.PREFERRED_ELECTION:
                self._elect_preferred()
            case Kind.MOVE_LEADER:
                self._move_leader(fault.target.partition)
            case Kind.MOVE_CONTROLLER:
                if self._cluster.controller() is not None:
                    self._simulation.zookeeper.administer([Delete(CONTROLLER)])
            case _:
                return self._end_life(fault, target)
        return None

    # Lives.

    def _end_life(self, fault: Fault, target: int) -> Undo | None:
        host = self._cluster.host(target)
        if not host.alive:
            return None
        assert host.node is not None
        match fault.kind:
            case Kind.KILL:
                host.kill()
            case Kind.LOSE_POWER:
                self._lose_power(target)
            case Kind.KILL_AT_STEP:
                host.node.strike_after_steps(max(fault.amount, 1), host.kill)
            case Kind.KILL_AT_WRITE:
                host.disk.strike_after_operations(fault.amount, host.kill)
            case Kind.LOSE_POWER_AT_WRITE:
                host.disk.strike_after_operations(fault.amount, lambda: self._lose_power(target))
            case Kind.STOP:
                self._stopping.append(self._simulation.loop.create_task(self._cluster.stop(target)))
        return lambda: self._start(target)

    def _lose_power(self, broker_id: int) -> None:
        self._judge.lost_power(broker_id)
        self._cluster.host(broker_id).lose_power()

    def _start(self, broker_id: int) -> None:
        host = self._cluster.host(broker_id)
        host.disk.spare()
        if host.node is not None:
            host.node.spare()
        if not host.alive:
            self._cluster.start(broker_id)

    def _pause(self, target: int) -> Undo:
        host = self._cluster.host(target)
        host.pause()
        return host.resume

    # Links.

    def _cut(self, links: list[tuple[str, str]], *, both: bool) -> Undo:
        for source, target in links:
            self._simulation.cut(source, target, both=both)

        def heal() -> None:
            for source, target in links:
                self._simulation.heal(source, target, both=both)

        return heal

    def _slow(self, name: str, other: str) -> Undo:
        for source, target in ((name, other), (other, name)):
            self._simulation.links.slow(source, target, _SLOWNESS_S)

        def heal() -> None:
            for source, target in ((name, other), (other, name)):
                self._simulation.links.slow(source, target, 0.0)

        return heal

    # An administrator's wishes.

    def _elect_preferred(self) -> None:
        partitions: list[TopicPartition] = sorted(self._cluster.partitions)
        self._wish(Create(PREFERRED_REPLICA_ELECTION, encode_partition_list(partitions)))

    def _move_leader(self, partition: TopicPartition) -> None:
        node = self._simulation.zookeeper.tree.nodes[topic_path(partition.topic)]
        replicas = TopicAssignment.decode(partition.topic, node.data).partitions[partition.partition]
        turned = (*replicas[1:], replicas[0])
        self._wish(Create(REASSIGN_PARTITIONS, encode_reassignment({partition: turned})))
        self._simulation.loop.world_at(self._simulation.loop.time() + _REORDERED_AFTER_S, self._elect_preferred)

    def _wish(self, change: Create) -> None:
        with suppress(CoordinationError):  # one is under way
            self._simulation.zookeeper.administer([change])
