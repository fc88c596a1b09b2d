"""Brokers, topics and leaders, as the controller last told them.

The cache is only as new as the last UpdateMetadata: clients that act on it may be told that a broker no longer leads,
and ask again. Requests of a controller with an older epoch than the newest seen are refused, for a deposed
controller would bring back leaders that are no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from system_under_test.bugs import NONE, Bug, Bugs
from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.protocol.messages import Body
from system_under_test.types import BrokerEndpoint, TopicPartition
from system_under_test.zookeeper.nodes import LEADER_DURING_DELETE, NO_LEADER, Listener

NO_CONTROLLER = -1
FULL = 2
"""Type of an UpdateMetadata that names everything that exists."""
_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    leader: int
    """-1: nobody leads."""
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...]
    """Replicas on brokers that are dead, or whose folder failed."""
    controller_epoch: int
    partition_epoch: int
    """Version of the state in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    id: int
    listeners: tuple[Listener, ...]
    rack: str | None

    def endpoint(self, listener_name: str) -> BrokerEndpoint | None:
        found = next((each for each in self.listeners if each.name == listener_name), None)
        return None if found is None else BrokerEndpoint(self.id, found.host, found.port, self.rack)


_NOTHING: Mapping[int, PartitionInfo] = MappingProxyType({})


class MetadataCache:
    def __init__(self, inter_broker_listener: str = "PLAINTEXT", bugs: Bugs = NONE) -> None:
        self._inter_broker_listener = inter_broker_listener
        self._bugs = bugs
        self.controller_id = NO_CONTROLLER
        self.controller_epoch = 0
        self._brokers: dict[int, BrokerInfo] = {}
        self._topics: dict[str, dict[int, PartitionInfo]] = {}
        self._ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._changed: list[asyncio.Future[None]] = []

    # -- looking up

    def brokers(self) -> list[BrokerInfo]:
        """Those that are alive, by id."""
        return [self._brokers[each] for each in sorted(self._brokers)]

    def broker(self, broker_id: int) -> BrokerInfo | None:
        return self._brokers.get(broker_id)

    def endpoint(self, broker_id: int, listener_name: str | None = None) -> BrokerEndpoint | None:
        """Where a live broker is; None for one that is not alive, or has no such listener."""
        info = self._brokers.get(broker_id)
        return None if info is None else info.endpoint(listener_name or self._inter_broker_listener)

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def partitions(self, topic: str) -> Mapping[int, PartitionInfo]:
        """By number; empty for a topic that is not known."""
        return self._topics.get(topic, _NOTHING)

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        return self._topics.get(topic_partition.topic, _NOTHING).get(topic_partition.partition)

    def contains(self, topic_partition: TopicPartition) -> bool:
        return self.partition(topic_partition) is not None

    def topic_id(self, topic: str) -> UUID | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def strays(self, hosted: Iterable[TopicPartition], broker_id: int) -> dict[TopicPartition, int]:
        """Of the replicas that a broker hosts, those that are assigned to others; with the leader epoch that says so."""
        found: dict[TopicPartition, int] = {}
        for each in hosted:
            info = self.partition(each)
            if info is not None and broker_id not in info.replicas:
                found[each] = info.leader_epoch
        return found

    # -- waiting

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for an update after which the condition holds; whether it came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._changed.append(future)
                    await future
        except TimeoutError:
            return condition()
        return True

    # -- updating

    def check_controller_epoch(self, epoch: int) -> None:
        """Raise STALE_CONTROLLER_EPOCH for a request of a controller that has a successor."""
        if epoch < self.controller_epoch and Bug.STALE_CONTROLLER_OBEYED not in self._bugs:
            # With the bug a controller that was paused while another was elected overwrites the newer leaders.
            raise ApiError(
                ErrorCode.stale_controller_epoch,
                f"controller epoch {epoch} is older than {self.controller_epoch}, the newest that was seen",
            )

    def apply_update(self, body: Body) -> list[TopicPartition]:
        """Apply an UpdateMetadata request; the partitions that ended. Raises STALE_CONTROLLER_EPOCH."""
        self.check_controller_epoch(body.controller_epoch)
        self.controller_epoch = max(self.controller_epoch, body.controller_epoch)
        self.controller_id = body.controller_id
        self._brokers = {each.id_: _broker(each) for each in body.live_brokers}
        ended: list[TopicPartition] = []
        if getattr(body, "type_", 0) == FULL:
            ended.extend(self._forget_all_but(body))
        for topic in body.topic_states:
            ended.extend(self._apply_topic(topic))
        self._wake()
        return ended

    def _apply_topic(self, topic: Body) -> list[TopicPartition]:
        ended: list[TopicPartition] = []
        name: str = topic.topic_name
        topic_id: UUID | None = getattr(topic, "topic_id", None)
        before = self._ids.get(name)
        if topic_id is not None and before is not None and before != topic_id:
            # Another topic of the same name: nothing of the old one stays.
            ended.extend(TopicPartition(name, number) for number in sorted(self._topics.get(name, {})))
            self._forget(name)
        for state in topic.partition_states:
            if state.leader == LEADER_DURING_DELETE:
                if self._topics.get(name, {}).pop(state.partition_index, None) is not None:
                    ended.append(TopicPartition(name, state.partition_index))
            else:
                self._topics.setdefault(name, {})[state.partition_index] = _partition(state)
        if not self._topics.get(name):
            self._forget(name)
        elif topic_id is not None:
            self._ids[name] = topic_id
            self._names[topic_id] = name
        return ended

    def _forget_all_but(self, body: Body) -> list[TopicPartition]:
        told = {
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in body.topic_states
            for state in topic.partition_states
        }
        ended = [
            TopicPartition(topic, number)
            for topic in self.topics()
            for number in sorted(self._topics[topic])
            if TopicPartition(topic, number) not in told
        ]
        for topic, number in ended:
            del self._topics[topic][number]
            if not self._topics[topic]:
                self._forget(topic)
        return ended

    def _forget(self, topic: str) -> None:
        self._topics.pop(topic, None)
        topic_id = self._ids.pop(topic, None)
        if topic_id is not None:
            self._names.pop(topic_id, None)

    def _wake(self) -> None:
        waiting, self._changed = self._changed, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def _partition(state: Body) -> PartitionInfo:
    return PartitionInfo(
        leader=state.leader if state.leader >= 0 else NO_LEADER,
        leader_epoch=state.leader_epoch,
        isr=tuple(state.isr),
        replicas=tuple(state.replicas),
        offline=tuple(state.offline_replicas),
        controller_epoch=state.controller_epoch,
        partition_epoch=state.zk_version,
    )


def _broker(broker: Body) -> BrokerInfo:
    listeners = tuple(
        Listener(each.listener, each.host, each.port, _PROTOCOLS.get(each.security_protocol, "PLAINTEXT"))
        for each in broker.endpoints
    )
    return BrokerInfo(broker.id_, listeners, broker.rack)
