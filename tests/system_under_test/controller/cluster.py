"""Controllers on the simulated ZooKeeper, and brokers that record what they are told.

A fake broker registers, obeys LeaderAndIsr and StopReplica as a broker without data would (every replica is in sync at once,
if it is told to be), and writes ISRs to ZooKeeper like a leader. No bytes are moved: what counts is who was told what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from system_under_test.config import BrokerConfig
from system_under_test.controller import Controller
from system_under_test.failpoints import Failpoints
from system_under_test.metadata.cache import FULL, MetadataCache
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, maker
from system_under_test.server.peer import Resolve
from system_under_test.simulation.world import Host, SimulatedWorld, Simulation
from system_under_test.types import TopicPartition
from system_under_test.world import BadVersion, ConnectionLost, Coordination, NoNode
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import BrokerRegistration, Listener, PartitionState, TopicAssignment
from system_under_test.zookeeper.registration import make_persistent_paths, register
from system_under_test.zookeeper.session import Retrying, Sessions
from system_under_test.zookeeper.topics import TopicStore

SESSION_TIMEOUT_MS = 6000
nodes_gone = (NoNode, BadVersion)


@dataclass(slots=True)
class Hosted:
    """A replica as its broker sees it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    version: int


@dataclass
class FakeBroker:
    """What a broker's peers and controller see of it. ``disk`` outlives a crash, ``hosted`` does not."""

    cluster: Cluster
    id: int
    epoch: int = -1
    up: bool = False
    hosted: dict[TopicPartition, Hosted] = field(default_factory=dict)
    disk: set[TopicPartition] = field(default_factory=set)
    metadata: MetadataCache = field(default_factory=MetadataCache)
    told: list[tuple[ApiKey, Body]] = field(default_factory=list)
    failing: set[TopicPartition] = field(default_factory=set)
    """Replicas in a folder that failed."""

    def serve(self, api: ApiKey, body: Body) -> Body:
        if body.broker_epoch < self.epoch:
            return self._refused(api, ErrorCode.stale_broker_epoch)
        if body.controller_epoch < self.metadata.controller_epoch:
            return self._refused(api, ErrorCode.stale_controller_epoch)
        self.told.append((api, body))
        if api is ApiKey.UPDATE_METADATA:
            self.metadata.apply_update(body)
            if body.type_ == FULL:
                for each in self.metadata.strays(list(self.hosted), self.id):
                    del self.hosted[each]
                    self.disk.discard(each)
            return maker(api, 8).root(error_code=ErrorCode.none)
        if api is ApiKey.LEADER_AND_ISR:
            return self._become(body)
        return self._stop(body)

    def _refused(self, api: ApiKey, code: ErrorCode) -> Body:
        if api is ApiKey.UPDATE_METADATA:
            return maker(api, 8).root(error_code=code)
        if api is ApiKey.LEADER_AND_ISR:
            return maker(api, 7).root(error_code=code, topics=())
        return maker(api, 4).root(error_code=code, partition_errors=())

    def _become(self, body: Body) -> Body:
        make = maker(ApiKey.LEADER_AND_ISR, 7)
        topics = []
        for topic in body.topic_states:
            errors = []
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.none
                known = self.hosted.get(each)
                if each in self.failing:
                    code = ErrorCode.kafka_storage_error
                elif known is not None and state.leader_epoch < known.leader_epoch:
                    code = ErrorCode.stale_controller_epoch
                else:
                    self.hosted[each] = Hosted(
                        state.leader, state.leader_epoch, state.isr, state.replicas, state.partition_epoch
                    )
                    self.disk.add(each)
                errors.append(make("LeaderAndIsrPartitionError", partition_index=each.partition, error_code=code))
            topics.append(make("LeaderAndIsrTopicError", topic_id=topic.topic_id, partition_errors=tuple(errors)))
        self.cluster.roles_changed()
        return make.root(error_code=ErrorCode.none, topics=tuple(topics))

    def _stop(self, body: Body) -> Body:
        make = maker(ApiKey.STOP_REPLICA, 4)
        errors = []
        for topic in body.topic_states:
            for state in topic.partition_states:
                each = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.kafka_storage_error if each in self.failing else ErrorCode.none
                if code is ErrorCode.none:
                    self.hosted.pop(each, None)
                    if state.delete_partition:
                        self.disk.discard(each)
                errors.append(
                    make(
                        "StopReplicaPartitionError",
                        topic_name=each.topic,
                        partition_index=each.partition,
                        error_code=code,
                    )
                )
        return make.root(error_code=ErrorCode.none, partition_errors=tuple(errors))


class FakePeer:
    def __init__(self, source: FakeBroker, target: FakeBroker) -> None:
        self._source = source
        self._target = target

    async def request(self, api: ApiKey, version: int, body: Body, timeout_s: float) -> Body:
        assert timeout_s > 0
        assert type(body).__version__ == version
        await asyncio.sleep(0.001)
        cluster = self._source.cluster
        if not self._target.up or (self._source.id, self._target.id) in cluster.cut:
            raise ConnectionLost(f"broker {self._target.id} does not answer")
        answer = self._target.serve(api, body)
        await asyncio.sleep(0.001)
        return answer


class FakePeers:
    def __init__(self, source: FakeBroker, resolve: Resolve) -> None:
        self._source = source
        self._resolve = resolve

    def get(self, broker_id: int) -> FakePeer:
        if self._resolve(broker_id) is None:
            raise ConnectionLost(f"nobody knows broker {broker_id}")
        return FakePeer(self._source, self._source.cluster.brokers[broker_id])

    def forget(self, broker_id: int) -> None: ...

    def close(self) -> None: ...


@dataclass
class Running:
    """One life of a broker process."""

    world: SimulatedWorld
    sessions: Sessions
    controller: Controller
    failpoints: Failpoints


class Cluster:
    def __init__(self, seed: int = 1, settings: dict[str, str] | None = None) -> None:
        self.simulation = Simulation(seed)
        self.settings = settings or {}
        self.brokers: dict[int, FakeBroker] = {}
        self.running: dict[int, Running] = {}
        self.cut: set[tuple[int, int]] = set()
        self.in_sync = True
        """Whether followers catch up by themselves: then leaders put them into the ISR."""
        self._look = asyncio.Event()

    def run(self, scenario: Callable[[Cluster], Coroutine[Any, Any, None]], within_s: float = 600.0) -> None:
        """Play a scenario; whatever a controller's task died of fails it."""
        with self.simulation:
            self.simulation.run(self._play(scenario), within_s)
            assert not self.simulation.loop.failures, self.simulation.loop.failures

    async def _play(self, scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        self.admin = Retrying(await self._host("admin").boot().coordination(SESSION_TIMEOUT_MS))
        await make_persistent_paths(self.admin)
        self.topics = TopicStore(lambda: self.admin, self.simulation.fork("topics"))
        leaders = asyncio.get_running_loop().create_task(self._expand_isrs())
        await scenario(self)
        leaders.cancel()

    def _host(self, name: str) -> Host:
        return self.simulation.host(name)

    # -- brokers

    async def start(self, *ids: int) -> None:
        """Boot brokers and wait until each has registered."""
        for each in ids:
            await self._start(each)

    async def _start(self, broker_id: int) -> None:
        broker = self.brokers.setdefault(broker_id, FakeBroker(self, broker_id))
        world = self._host(f"broker-{broker_id}").boot()
        broker.hosted, broker.metadata, broker.up = {}, MetadataCache(), True
        config = BrokerConfig({"broker.id": str(broker_id), **self.settings})
        started = world.node.start(self._life(broker, world, config))
        await started

    async def _life(self, broker: FakeBroker, world: SimulatedWorld, config: BrokerConfig) -> None:
        sessions = Sessions(world, SESSION_TIMEOUT_MS)
        failpoints = Failpoints()
        controller = Controller(
            world, broker.id, config, sessions, failpoints, lambda resolve: FakePeers(broker, resolve)
        )

        async def registered(zookeeper: Coordination) -> None:
            listener = Listener("PLAINTEXT", f"host-{broker.id}", 9092)
            info = BrokerRegistration(broker.id, (listener,), world.clock.time_ms())
            broker.epoch = await register(zookeeper, info, SESSION_TIMEOUT_MS)
            controller.session_established()

        sessions.on_established(registered)
        await registered(await sessions.start())
        await controller.start()
        self.running[broker.id] = Running(world, sessions, controller, failpoints)

    def kill(self, *ids: int) -> None:
        """kill -9."""
        for each in ids:
            self.brokers[each].up = False
            self.running.pop(each)
            self._host(f"broker-{each}").kill()

    async def expire_dead(self) -> None:
        """Let ZooKeeper find out about the dead now."""
        alive = {running.sessions.current.session_id for running in self.running.values()} | {self.admin.session_id}
        for session in list(self.simulation.zookeeper.sessions):
            if session not in alive:
                self.simulation.zookeeper.expire(session)

    async def kill_now(self, *ids: int) -> None:
        self.kill(*ids)
        await self.expire_dead()

    # -- what is there

    def controller(self) -> int | None:
        active = [each for each, running in self.running.items() if running.controller.is_active]
        return active[0] if active else None

    def active(self) -> Controller:
        broker = self.controller()
        assert broker is not None, "nobody is controller"
        return self.running[broker].controller

    async def state(self, topic: str, partition: int = 0) -> PartitionState:
        data, _ = await self.admin.get(nodes.partition_state_path(topic, partition))
        return PartitionState.decode(data)

    async def assignment(self, topic: str) -> TopicAssignment:
        data, _ = await self.admin.get(nodes.topic_path(topic))
        return TopicAssignment.decode(topic, data)

    async def until(self, what: str, condition: Callable[[], Coroutine[Any, Any, bool]], within_s: float = 60) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not await condition():
            assert loop.time() < deadline, f"not within {within_s} s: {what}"
            await asyncio.sleep(0.05)

    async def settled_leader(self, partition: TopicPartition, leader: int | None = None) -> None:
        """Wait until a partition's leader and ISR are alive, whatever else is under way."""

        async def good() -> bool:
            state = await self.state(*partition)
            alive = {broker.id for broker in self._up()}
            return state.leader in alive and set(state.isr) <= alive and leader in (None, state.leader)

        await self.until(f"{partition} has a live leader", good)

    async def elected(self) -> None:
        await self.until("a controller", lambda: _true(self.controller() is not None))

    # -- the good state

    async def settled(self, *, offline: frozenset[TopicPartition] = frozenset(), pending: bool = False) -> None:
        """Wait until ZooKeeper, replicas and everybody's metadata agree, and nothing is left to do.

        ``offline``: partitions that cannot have a leader now. ``pending``: a request waits for a dead broker."""
        found: list[str] = ["nothing was looked at"]

        async def good() -> bool:
            found[:] = await self._problems(offline, pending)
            return not found

        try:
            await self.until("the good state", good, 120)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}") from None

    async def _problems(self, offline: frozenset[TopicPartition], pending: bool) -> list[str]:
        found = [] if self.controller() is not None else ["nobody is controller"]
        for path in () if pending else (nodes.REASSIGN_PARTITIONS, nodes.PREFERRED_REPLICA_ELECTION):
            if await self.admin.exists(path) is not None:
                found.append(f"{path} is there")
        doomed = await self.admin.children(nodes.DELETE_TOPICS)
        if doomed and not pending:
            found.append(f"{doomed} wait for their deletion")
        for folder in (nodes.ISR_CHANGE_NOTIFICATION, nodes.LOG_DIR_EVENT_NOTIFICATION):
            if await self.admin.children(folder):
                found.append(f"{folder} is not empty")
        named = [each for each in await self.admin.children(nodes.TOPICS) if each not in doomed]
        for topic in named:
            stored = await self.assignment(topic)
            if not pending and (stored.adding_replicas or stored.removing_replicas):
                found.append(f"{topic} is being reassigned")
            for number, replicas in stored.partitions.items():
                found.extend(await self._partition_problems(TopicPartition(topic, number), replicas, offline))
        for broker in self._up():
            unknown = [each for each in broker.metadata.topics() if each not in named]
            if unknown:
                found.append(f"broker {broker.id} still knows {unknown}")
            if broker.metadata.controller_id != self.controller():
                found.append(f"broker {broker.id} knows another controller")
            if sorted(each.id for each in broker.metadata.brokers()) != [each.id for each in self._up()]:
                found.append(f"broker {broker.id} knows {broker.metadata.brokers()}")
        return found

    async def _partition_problems(
        self, each: TopicPartition, replicas: tuple[int, ...], offline: frozenset[TopicPartition]
    ) -> list[str]:
        try:
            state = await self.state(*each)
        except NoNode:
            return [] if each in offline else [f"{each} has no state"]
        found = []
        live = [broker for broker in self._up() if broker.id in replicas and each not in broker.failing]
        if each in offline:
            return [] if state.leader == -1 else [f"{each} is led by {state.leader}"]
        if state.leader not in {broker.id for broker in live} or state.leader not in state.isr:
            found.append(f"{each} is led by {state.leader}, isr {state.isr}, alive {[each.id for each in live]}")
        if self.in_sync and set(state.isr) != {broker.id for broker in live}:
            found.append(f"{each} has isr {state.isr}")
        for broker in live:
            hosted = broker.hosted.get(each)
            if hosted is None or (hosted.leader, hosted.leader_epoch) != (state.leader, state.leader_epoch):
                found.append(f"{each} on {broker.id} is {hosted}, not {state}")
            elif hosted.replicas != replicas:
                found.append(f"{each} on {broker.id} has replicas {hosted.replicas}, not {replicas}")
        for broker in self._up():
            info = broker.metadata.partition(each)
            if info is None or (info.leader, info.isr, info.replicas) != (state.leader, state.isr, replicas):
                found.append(f"{each} in the metadata of {broker.id} is {info}, not {state}")
            if broker.id not in replicas and each in broker.hosted:
                found.append(f"{each} is still on {broker.id}")
        return found

    def _up(self) -> list[FakeBroker]:
        return [self.brokers[each] for each in sorted(self.brokers) if self.brokers[each].up]

    # -- leaders that change ISRs

    def roles_changed(self) -> None:
        self._look.set()

    async def _expand_isrs(self) -> None:
        """Every leader puts its live followers into the ISR, by a conditional write, and notifies the controller."""
        while True:
            await self._look.wait()
            await asyncio.sleep(0.2)
            self._look.clear()
            for broker in sorted(self.brokers.values(), key=lambda each: each.id):
                for each in sorted(broker.hosted):
                    if self.in_sync and broker.up and self._leads(broker, each):
                        await self._expand(broker, each)

    async def _expand(self, leader: FakeBroker, each: TopicPartition) -> None:
        try:
            data, stat = await self.admin.get(nodes.partition_state_path(*each))
        except nodes_gone:
            return
        state = PartitionState.decode(data)
        if state.leader != leader.id or each not in leader.hosted:
            return
        fetching = [
            broker
            for broker in leader.hosted[each].replicas
            if self._follows(broker, each, leader.id) and (leader.id, broker) not in self.cut
        ]
        isr = (*state.isr, *(broker for broker in fetching if broker not in state.isr))
        if isr != state.isr:
            changed = PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch)
            try:
                await self.admin.set(nodes.partition_state_path(*each), changed.encode(), stat.version)
            except nodes_gone:
                self._look.set()
                return
            await self.admin.create(*nodes.isr_change_notification([each]), sequential=True)

    def _leads(self, broker: FakeBroker, each: TopicPartition) -> bool:
        hosted = broker.hosted.get(each)
        return hosted is not None and hosted.leader == broker.id

    def _follows(self, broker: int, each: TopicPartition, leader: int) -> bool:
        fake = self.brokers.get(broker)
        if fake is None or not fake.up or each not in fake.hosted:
            return False
        return fake.hosted[each].leader == leader


async def _true(value: bool) -> bool:
    return value
