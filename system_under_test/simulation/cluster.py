"""A whole cluster in one simulation: brokers that can be started, stopped and struck, and what they are made of."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from system_under_test.broker import Broker
from system_under_test.bugs import NONE, Bugs
from system_under_test.config import BrokerConfig
from system_under_test.metadata.cache import PartitionInfo
from system_under_test.replication.partition import Partition
from system_under_test.simulation.client import SimpleClient
from system_under_test.simulation.loop import Node
from system_under_test.simulation.world import Host, SimulatedWorld, Simulation
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.world import CoordinationError, Create
from system_under_test.zookeeper.nodes import (
    CONTROLLER,
    PERSISTENT_PATHS,
    TOPICS,
    ControllerNode,
    PartitionState,
    TopicAssignment,
    encode_config,
    partition_state_path,
    topic_config_path,
    topic_path,
)
from system_under_test.zookeeper.registration import BrokerIdTaken

PORT = 9092
_SUPERVISOR_S = 0.5
_PROCESS_ENDS = (CoordinationError, BrokerIdTaken)
"""Reasons for which a broker's process may end at its start."""

SETTINGS: Mapping[str, str] = {
    # Short, so that half a minute of virtual time holds many elections.
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "1500",
    "log.flush.offset.checkpoint.interval.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "2",
    # A few batches each, so that rolling and recovery of several segments happen.
    "log.segment.bytes": "2048",
    "log.index.interval.bytes": "256",
    "log.index.size.max.bytes": "4096",
}


class SimulatedBroker(Protocol):
    """What this package asks of a broker."""

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """Its replicas."""
        ...

    def told(self, partition: TopicPartition) -> PartitionInfo | None:
        """What its metadata has of a partition."""
        ...

    @property
    def controller_epoch(self) -> int:
        """Of the newest controller that its metadata came from."""
        ...

    async def live(self) -> None:
        """Start and serve until the end of the process."""
        ...

    async def shutdown(self) -> None:
        """Controlled."""
        ...


class WholeBroker:
    """A real :class:`~system_under_test.broker.Broker`."""

    def __init__(self, world: SimulatedWorld, config: BrokerConfig, bugs: Bugs) -> None:
        self.broker = Broker(world, config, bugs=bugs)

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        context = self.broker._context
        return {} if context is None else context.replicas.partitions

    def told(self, partition: TopicPartition) -> PartitionInfo | None:
        return self.broker.metadata.partition(partition)

    @property
    def controller_epoch(self) -> int:
        return self.broker.metadata.controller_epoch

    async def live(self) -> None:
        await self.broker.start()
        await self.broker.wait()

    async def shutdown(self) -> None:
        await self.broker.shutdown()


MakeBroker = Callable[[SimulatedWorld, BrokerConfig, Bugs], SimulatedBroker]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    assignment: tuple[tuple[int, ...], ...]
    """The replicas of each partition, the preferred leader first."""

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in range(len(self.assignment))]


class SimulatedCluster:
    """Brokers are 1 to n, on hosts ``broker-1`` to ``broker-n``. Topics are there before the first broker starts."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: int,
        topics: tuple[Topic, ...],
        *,
        make_broker: MakeBroker = WholeBroker,
        settings: Mapping[str, str] = SETTINGS,
        bugs: Bugs = NONE,
    ) -> None:
        self.simulation = simulation
        self.settings = dict(settings)
        self._make_broker = make_broker
        self.bugs = bugs
        self.topics = topics
        self.ids = tuple(range(1, brokers + 1))
        self.brokers: dict[int, SimulatedBroker] = {}
        """The latest life of each; see :meth:`running`."""
        self.lives: dict[int, asyncio.Task[None]] = {}
        self.partitions = {
            partition: topic.assignment[partition.partition] for topic in topics for partition in topic.partitions()
        }
        self._write_topics()

    def _write_topics(self) -> None:
        paths = dict.fromkeys(
            "/".join(path.split("/")[: depth + 1])
            for path in (*PERSISTENT_PATHS, TOPICS, "/config/topics")
            for depth in range(1, path.count("/") + 1)
        )
        changes = [Create(path, b"") for path in paths]
        chance = self.simulation.fork("topic ids")
        for topic in self.topics:
            topic_id = uuid.UUID(int=chance.getrandbits(128), version=4)
            replicas = dict(enumerate(topic.assignment))
            changes.append(Create(topic_path(topic.name), TopicAssignment(topic_id, replicas).encode()))
            changes.append(Create(topic_config_path(topic.name), encode_config({})))
        self.simulation.zookeeper.administer(changes)

    # Brokers.

    def host(self, broker_id: int) -> Host:
        return self.simulation.host(f"broker-{broker_id}")

    def config(self, broker_id: int) -> BrokerConfig:
        listener = f"PLAINTEXT://broker-{broker_id}:{PORT}"
        own = {"broker.id": str(broker_id), "listeners": listener, "log.dirs": "/data"}
        return BrokerConfig({**self.settings, **own})

    def start(self, broker_id: int) -> None:
        world = self.host(broker_id).boot()
        broker = self._make_broker(world, self.config(broker_id), self.bugs)
        self.brokers[broker_id] = broker
        life = world.node.start(broker.live(), f"broker {broker_id}")
        life.add_done_callback(lambda life: self._ended(broker_id, world.node, life))
        self.lives[broker_id] = life

    def _ended(self, broker_id: int, node: Node, life: asyncio.Task[None]) -> None:
        """A process that ends by itself: a supervisor starts it again, unless that must never happen."""
        error = life.exception()
        if error is not None and not isinstance(error, _PROCESS_ENDS):
            self.simulation.loop.call_exception_handler({"message": f"broker {broker_id} died", "exception": error})
        if error is not None and node.alive:
            self.simulation.trace.add(node.name, "ends", repr(error))
            self.host(broker_id).kill()
            self.simulation.loop.world_at(self.simulation.loop.time() + _SUPERVISOR_S, self._start_again, broker_id)

    def _start_again(self, broker_id: int) -> None:
        if not self.is_running(broker_id):
            self.start(broker_id)

    def start_all(self) -> None:
        for broker_id in self.ids:
            self.start(broker_id)

    def is_running(self, broker_id: int) -> bool:
        return self.host(broker_id).alive

    def running(self) -> list[int]:
        return [each for each in self.ids if self.is_running(each)]

    async def stop(self, broker_id: int) -> None:
        """Controlled shutdown, and the end of the process."""
        host = self.host(broker_id)
        assert host.node is not None
        node = host.node
        stopping = node.start(self.brokers[broker_id].shutdown(), f"broker {broker_id} stops")
        while node.alive and not stopping.done():  # it may be killed meanwhile, and then never ends
            await asyncio.sleep(0.02)
        if node.alive:
            stopping.result()
            host.kill()

    # What is known without asking a broker.

    def state(self, partition: TopicPartition) -> PartitionState | None:
        node = self.simulation.zookeeper.tree.nodes.get(partition_state_path(*partition))
        return None if node is None else PartitionState.decode(node.data)

    def controller(self) -> int | None:
        node = self.simulation.zookeeper.tree.nodes.get(CONTROLLER)
        return None if node is None else ControllerNode.decode(node.data).broker_id

    def replica(self, broker_id: int, partition: TopicPartition) -> Partition | None:
        """Of a running broker."""
        if not self.is_running(broker_id):
            return None
        return self.brokers[broker_id].partitions.get(partition)

    def is_whole(self, partition: TopicPartition) -> bool:
        """Led by a running broker that knows it, with every replica in sync."""
        state = self.state(partition)
        if state is None or set(state.isr) != set(self.partitions[partition]):
            return False
        leader = self.replica(state.leader, partition)
        return leader is not None and leader.is_leader and leader.leader_epoch == state.leader_epoch

    def client(self, name: str) -> SimpleClient:
        world = self.simulation.host(name).boot()
        bootstrap = {each: BrokerEndpoint(each, f"broker-{each}", PORT) for each in self.ids}
        return SimpleClient(world, bootstrap, name)
