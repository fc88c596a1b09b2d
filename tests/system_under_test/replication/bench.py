"""A few brokers' replication in a simulated world, without a controller: the test elects leaders by hand."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from system_under_test.apis import leader_and_isr, stop_replica
from system_under_test.bugs import NONE, Bugs
from system_under_test.config import BrokerConfig
from system_under_test.failpoints import Failpoints
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.batch import decode, encode, headers
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.fetch_response import PartitionData
from system_under_test.protocol.messages import Body, ConnectionInfo, Request, maker
from system_under_test.protocol.produce_response import PartitionResult
from system_under_test.replication.fetching import NO_TOPIC_ID, FetchParams, FetchPartition
from system_under_test.replication.isr_changes import Propagation
from system_under_test.replication.isr_store import ZooKeeperIsrStore
from system_under_test.replication.partition import Partition
from system_under_test.replication.replica_manager import ReplicaManager
from system_under_test.server.connection import ClientConnection
from system_under_test.server.context import BrokerContext
from system_under_test.server.peer import Peers
from system_under_test.simulation.world import SimulatedWorld, Simulation, until
from system_under_test.storage.log import Log
from system_under_test.storage.log_manager import LogManager
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.world import Connection, Coordination, Create, SetData
from system_under_test.zookeeper.nodes import (
    BROKER_IDS,
    ISR_CHANGE_NOTIFICATION,
    BrokerRegistration,
    Listener,
    PartitionState,
    partition_state_path,
)
from system_under_test.zookeeper.producer_ids import ProducerIds
from system_under_test.zookeeper.registration import register

T = TypeVar("T")

KEY = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=7)
PORT = 9092
NOBODY = ConnectionInfo("test:1", "PLAINTEXT")

SETTINGS = {
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "3000",
}


@dataclass
class FixedMetadata:
    """Who is alive is what the test says."""

    alive: set[int]

    def endpoint(self, broker_id: int) -> BrokerEndpoint | None:
        return BrokerEndpoint(broker_id, f"broker-{broker_id}", PORT) if broker_id in self.alive else None

    def contains(self, topic_partition: TopicPartition) -> bool:
        return topic_partition == KEY

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return KEY.topic if topic_id == TOPIC_ID else None


class NoConfigs:
    async def refresh(self, topics: list[str]) -> None:
        """There are none."""


class TestBroker:
    __test__ = False

    def __init__(self, bench: Bench, broker_id: int, world: SimulatedWorld) -> None:
        self.id = broker_id
        self.world = world
        self.failpoints = Failpoints()
        self.config = BrokerConfig(bench.settings)
        self.metadata = bench.metadata
        self.logs = LogManager(world, ["/data"], broker_id, bench.settings)
        self.peers = Peers(world.network, self.metadata.endpoint, f"broker-{broker_id}")
        self.session: Coordination | None = None
        self.replicas = ReplicaManager(
            world,
            broker_id,
            self.config,
            self.logs,
            self.metadata,
            self.peers,
            ZooKeeperIsrStore(self._coordination),
            self.failpoints,
            bench.bugs,
            lambda _: bench.topic_config,
            Propagation(0.1, 0.2, 1.0),
        )
        self.context = BrokerContext(
            world=world,
            config=self.config,
            broker_id=broker_id,
            broker_epoch=-1,
            cluster_id="bench",
            failpoints=self.failpoints,
            bugs=bench.bugs,
            logs=self.logs,
            metadata=cast(Any, self.metadata),
            replicas=self.replicas,
            topics=cast(Any, None),
            configs=cast(Any, NoConfigs()),
            controller=cast(Any, None),
            producer_ids=ProducerIds(self._coordination, broker_id),
        )

    def _coordination(self) -> Coordination:
        assert self.session is not None
        return self.session

    async def start(self) -> None:
        self.logs.load({})
        await self.world.network.listen(f"broker-{self.id}", PORT, self._serve)
        self.session = await self.world.coordination(3000)
        listener = Listener("PLAINTEXT", f"broker-{self.id}", PORT)
        epoch = await register(self.session, BrokerRegistration(self.id, (listener,), 0), 3000)
        self.context.broker_epoch = self.replicas.broker_epoch = epoch
        self.world.node.start(self.replicas.run())

    async def _serve(self, connection: Connection) -> None:
        await ClientConnection(self.context, connection, "PLAINTEXT").serve()

    @property
    def partition(self) -> Partition:
        return self.replicas.partitions[KEY]

    @property
    def log(self) -> Log:
        return self.partition.log

    def values(self) -> list[tuple[int, bytes]]:
        """Epoch and value of each record in the log."""
        found = []
        log, offset = self.log, self.log.start_offset
        while offset < log.end_offset:
            data = log.read(offset, 1 << 20, log.end_offset, at_least_one=True)
            for position, header in headers(data):
                batch = data[position : position + header.size_bytes]
                for record in decode(batch):
                    assert record.value is not None
                    found.append((header.partition_leader_epoch, record.value))
                offset = header.next_offset
        return found


class Bench:
    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        bugs: Bugs = NONE,
        topic_config: Mapping[str, str] | None = None,
    ) -> None:
        self.simulation = simulation
        self.settings = {**SETTINGS, **(settings or {})}
        self.bugs = bugs
        self.topic_config = topic_config or {}
        self.ids = tuple(range(1, brokers + 1))
        self.replicas = self.ids
        self.metadata = FixedMetadata(set(self.ids))
        self.brokers: dict[int, TestBroker] = {}
        self.controller_epoch = 1
        self.epoch = -1
        state_path = partition_state_path(*KEY)
        parents = [
            "/".join(path.split("/")[: depth + 1])
            for path in (BROKER_IDS, ISR_CHANGE_NOTIFICATION, state_path)
            for depth in range(1, path.count("/") + (path != state_path))
        ]
        changes = [Create(path, b"") for path in dict.fromkeys(parents)]
        state = PartitionState(-1, -1, (), 0)
        simulation.zookeeper.administer([*changes, Create(state_path, state.encode())])

    def __getitem__(self, broker_id: int) -> TestBroker:
        return self.brokers[broker_id]

    def kill(self, broker_id: int) -> None:
        self.simulation.host(f"broker-{broker_id}").kill()

    async def on(self, broker_id: int, work: Coroutine[Any, Any, T]) -> T:
        return await self.brokers[broker_id].world.node.start(work)

    async def start(self, *ids: int, empty: bool = False) -> None:
        for broker_id in ids or self.ids:
            host = self.simulation.host(f"broker-{broker_id}")
            world = host.boot()
            if empty:
                world.files.remove("/data")
            self.brokers[broker_id] = TestBroker(self, broker_id, world)
            await self.on(broker_id, self.brokers[broker_id].start())

    # -- in the controller's place

    def state(self) -> tuple[PartitionState, int]:
        node = self.simulation.zookeeper.tree.node(partition_state_path(*KEY))
        return PartitionState.decode(node.data), node.stat().version

    def isr(self) -> tuple[int, ...]:
        return self.state()[0].isr

    async def elect(
        self, leader: int, isr: tuple[int, ...] | None = None, *, tell: tuple[int, ...] | None = None
    ) -> None:
        """A new leader epoch, in ZooKeeper and then told to brokers (``tell``, by default all that run)."""
        self.epoch += 1
        state = PartitionState(leader, self.epoch, self.isr() if isr is None else isr, self.controller_epoch)
        self.simulation.zookeeper.administer([SetData(partition_state_path(*KEY), state.encode())])
        for broker_id in self.running() if tell is None else tell:
            results = await self.tell(broker_id)
            assert results == ErrorCode.none, results

    def running(self) -> tuple[int, ...]:
        return tuple(each for each in self.ids if self.simulation.host(f"broker-{each}").alive)

    async def tell(self, broker_id: int, **changes: Any) -> ErrorCode:
        """Send the present state; the partition's error, or that of the whole request."""
        body = await self._call(broker_id, leader_and_isr.handle, self.leader_and_isr(broker_id, **changes))
        if body.error_code is not ErrorCode.none:
            return cast(ErrorCode, body.error_code)
        return cast(ErrorCode, body.topics[0].partition_errors[0].error_code)

    def leader_and_isr(self, broker_id: int, **changes: Any) -> Request:
        state, version = self.state()
        make = maker(ApiKey.LEADER_AND_ISR, 7, False)
        fields: dict[str, Any] = {
            "partition_index": KEY.partition,
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
            "partition_epoch": version,
            "replicas": self.replicas,
        }
        root = {
            "controller_id": 0,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.brokers[broker_id].context.broker_epoch,
            "topic_id": TOPIC_ID,
        }
        for name, value in changes.items():
            (root if name in root else fields)[name] = value
        topic_id = root.pop("topic_id")
        part = make("LeaderAndIsrPartitionState", **fields)
        topic = make("LeaderAndIsrTopicState", topic_name=KEY.topic, topic_id=topic_id, partition_states=(part,))
        body = make.root(**root, type_=0, topic_states=(topic,), live_leaders=())
        return Request(ApiKey.LEADER_AND_ISR, 7, 1, "controller", body, NOBODY)

    async def stop_replica(self, broker_id: int, leader_epoch: int, *, delete: bool, **root: Any) -> ErrorCode:
        make = maker(ApiKey.STOP_REPLICA, 4, False)
        part = make(
            "StopReplicaPartitionState",
            partition_index=KEY.partition,
            leader_epoch=leader_epoch,
            delete_partition=delete,
        )
        fields = {
            "controller_id": 0,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.brokers[broker_id].context.broker_epoch,
            **root,
        }
        topic = make("StopReplicaTopicState", topic_name=KEY.topic, partition_states=(part,))
        body = make.root(**fields, topic_states=(topic,))
        request = Request(ApiKey.STOP_REPLICA, 4, 1, "controller", body, NOBODY)
        answer = await self._call(broker_id, stop_replica.handle, request)
        if answer.error_code is not ErrorCode.none:
            return cast(ErrorCode, answer.error_code)
        return cast(ErrorCode, answer.partition_errors[0].error_code)

    async def _call(
        self, broker_id: int, handle: Callable[[BrokerContext, Request], Awaitable[Body]], request: Request
    ) -> Body:
        async def call() -> Body:
            return await handle(self.brokers[broker_id].context, request)

        return await self.on(broker_id, call())

    # -- in a client's place

    async def produce(
        self,
        broker_id: int,
        *values: bytes,
        acks: int = -1,
        timeout_s: float = 5.0,
        producer_id: int = -1,
        sequence: int = -1,
    ) -> PartitionResult:
        """One batch; of an idempotent producer if it has an id."""
        epoch = 0 if producer_id >= 0 else -1

        async def append() -> PartitionResult:
            batch = encode(
                [(None, value) for value in values],
                timestamp_ms=1,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            results = self.brokers[broker_id].replicas.append_records([(KEY, batch)], acks, timeout_s)
            return (results if isinstance(results, list) else await results)[0]

        return await self.on(broker_id, append())

    async def fetch(
        self,
        broker_id: int,
        offset: int,
        *,
        max_wait_s: float = 0.0,
        min_bytes: int = 1,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        replica_id: int = -1,
        broker_epoch: int = -1,
        max_bytes: int = 1 << 20,
    ) -> PartitionData:
        params = FetchParams(replica_id, broker_epoch, max_wait_s, min_bytes, max_bytes, False)
        asked = FetchPartition(
            KEY, NO_TOPIC_ID, offset, 1 << 20, current_leader_epoch, last_fetched_epoch, 0 if replica_id >= 0 else -1
        )

        async def fetch() -> PartitionData:
            answers = self.brokers[broker_id].replicas.fetch_messages(params, [asked])
            return (answers if isinstance(answers, list) else await answers)[0]

        return await self.on(broker_id, fetch())

    # -- waiting

    async def until_equal(self, *ids: int, within_s: float = 5.0) -> None:
        """Until these brokers' logs end at the same offset, and know it to be committed."""

        def equal() -> bool:
            logs = [self.brokers[each].log for each in ids or self.running()]
            return len({each.end_offset for each in logs} | {each.high_watermark for each in logs}) == 1

        await until(equal, within_s, f"logs of {ids or self.running()} are equal")

    async def until_isr(self, *isr: int, within_s: float = 10.0) -> None:
        await until(lambda: set(self.isr()) == set(isr), within_s, f"ISR is {isr}")


def values(records: Any) -> list[bytes]:
    """Of a fetch's records."""
    data = bytes(records)
    return [
        record.value or b""
        for position, header in headers(data)
        for record in decode(data[position : position + header.size_bytes])
    ]
