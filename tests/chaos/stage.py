"""Three real brokers and a ZooKeeper on loopback, and the steps that scenarios are made of.

Every step ends when its effect can be observed: by ZooKeeper, by the answer of a broker, or by a failpoint's hits.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from harness.cluster.admin import Admin
from harness.cluster.failpoints import FailpointControl
from harness.cluster.wire import WireClient
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan
from harness.replicas import replica_logs
from harness.targets.base import node_name
from harness.targets.shipped import ShippedTarget
from harness.targets.waiting import wait_until
from histories.recorded import ReplicaLog
from system_under_test.protocol import batch
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.types import TopicPartition as Place
from system_under_test.zookeeper.nodes import (
    PREFERRED_REPLICA_ELECTION,
    TopicAssignment,
    encode_partition_list,
    topic_path,
)

DEADLINE_S = 20.0
IDS = (0, 1, 2)
_NOT_YET = (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition)
"""Refused before anything was appended: the broker has not heard yet that it leads."""


class Stage:
    def __init__(self, target: ShippedTarget, data: Path) -> None:
        self.target = target
        self._data = data
        self._admin = Admin(target.bootstrap)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="producer")
        self._addresses = dict(zip(IDS, target.bootstrap.split(","), strict=True))

        self._zookeeper = KazooClient(hosts=target.zookeeper_connect)
        self._zookeeper.start(timeout=DEADLINE_S)

    def close(self) -> None:
        self._background.shutdown(cancel_futures=True)
        self._zookeeper.stop()
        self._zookeeper.close()

    # -- looking

    def controller(self) -> int:
        found = self.target.view.controller()
        assert found is not None, "there is no controller"
        return found

    def failpoints(self, broker: int) -> FailpointControl:
        return FailpointControl(self._data / node_name(broker) / "control.sock")

    def await_hit(self, broker: int, number: int, what: str) -> None:
        control = self.failpoints(broker)
        wait_until(lambda: control.hits(number) > 0, DEADLINE_S, lambda: what)

    def await_leader(self, topic: str, broker: int) -> None:
        view = self.target.view
        wait_until(
            lambda: view.leader(topic, 0) == broker,
            DEADLINE_S,
            lambda: f"broker {broker} should lead {topic}-0, and {view.leader(topic, 0)} does",
        )

    def await_isr(self, topic: str, brokers: set[int]) -> None:
        view = self.target.view
        wait_until(
            lambda: set(view.in_sync_replicas(topic, 0) or ()) == brokers,
            DEADLINE_S,
            lambda: f"the ISR of {topic}-0 should be {brokers}, and is {view.in_sync_replicas(topic, 0)}",
        )

    def read(self, topic: str, until: bytes) -> list[bytes]:
        """All values up to this one, as a consumer gets them."""
        settings = {"bootstrap.servers": self.target.bootstrap, "group.id": "none", "enable.auto.commit": False}
        consumer = Consumer(settings)
        found: list[bytes] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            deadline = time.monotonic() + DEADLINE_S
            while until not in found:
                assert time.monotonic() < deadline, f"{until!r} awaited in {topic}, there are {found}"
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(bytes(message.value() or b""))
        finally:
            consumer.close()
        return found

    def replicas(self, topic: str) -> dict[int, ReplicaLog]:
        """What each broker has on disk, once its checkpoint says that all of it is committed."""
        dirs = self.target.log_dirs()
        return {log.broker: log for log in replica_logs(dirs, [(0, topic, 0)])}

    # -- doing

    def create(self, topic: str, replicas: tuple[int, ...], leader: int) -> None:
        """A topic of one partition that ``leader`` leads, whatever stands first in ``replicas``."""
        first = (leader, *(each for each in replicas if each != leader))
        client = self._client(self.controller())
        try:
            api = ApiKey.CREATE_TOPICS
            assignment = client.make(api, "CreatableReplicaAssignment", partition_index=0, broker_ids=first)
            wanted = client.make(
                api,
                "CreatableTopic",
                name=topic,
                num_partitions=-1,
                replication_factor=-1,
                assignments=(assignment,),
                configs=(client.make(api, "CreatableTopicConfig", name="min.insync.replicas", value="1"),),
            )
            answer = client.request(
                api, topics=(wanted,), timeout=datetime.timedelta(seconds=DEADLINE_S), validate_only=False
            )
        finally:
            client.close()
        assert answer.topics[0].error_code is ErrorCode.none, answer.topics[0]
        if first != replicas:
            self._admin.reassign({topic: {0: replicas}})
            wait_until(
                lambda: self._assigned(topic) == replicas,
                DEADLINE_S,
                lambda: f"the replicas of {topic} should be {replicas}, and are {self._assigned(topic)}",
            )
        self.await_leader(topic, leader)
        self.await_isr(topic, set(replicas))

    def _assigned(self, topic: str) -> tuple[int, ...]:
        """As ZooKeeper has it: brokers hear of a topic one after the other."""
        return TopicAssignment.decode(topic, self._zookeeper.get(topic_path(topic))[0]).partitions[0]

    def append(self, broker: int, topic: str, *values: bytes, acks: int = -1) -> list[int]:
        """Produce each value by itself at this broker, which leads or is about to; their offsets."""
        client = self._client(broker)
        try:
            return [self._append(client, topic, value, acks) for value in values]
        finally:
            client.close()

    def appending(self, broker: int, topic: str, value: bytes) -> Future[list[int]]:
        """The same under acks=all, in the background: the scenario goes on before it is acknowledged."""
        return self._background.submit(self.append, broker, topic, value)

    def _append(self, client: WireClient, topic: str, value: bytes, acks: int) -> int:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            result = _produce(client, topic, value, acks)
            if result.error_code is ErrorCode.none:
                return int(result.base_offset)
            assert result.error_code in _NOT_YET, result.error_code
            assert time.monotonic() < deadline, f"{client.address} still does not lead {topic}"

    def elect_preferred(self, topic: str, leader: int) -> None:
        self._zookeeper.create(PREFERRED_REPLICA_ELECTION, encode_partition_list([Place(topic, 0)]))
        self.await_leader(topic, leader)

    def kill(self, broker: int) -> None:
        self.target.kill_node(node_name(broker))

    def restart(self, broker: int) -> None:
        self.target.start_node(node_name(broker))

    def _client(self, broker: int) -> WireClient:
        host, _, port = self._addresses[broker].rpartition(":")
        return WireClient(host, int(port), DEADLINE_S)


def _produce(client: WireClient, topic: str, value: bytes, acks: int) -> Any:
    api = ApiKey.PRODUCE
    records = batch.encode([(None, value)], timestamp_ms=int(time.time() * 1000))
    data = client.make(api, "PartitionProduceData", index=0, records=records)
    answer = client.request(
        api,
        transactional_id=None,
        acks=acks,
        timeout=datetime.timedelta(seconds=DEADLINE_S),
        topic_data=(client.make(api, "TopicProduceData", name=topic, partition_data=(data,)),),
    )
    return answer.responses[0].partition_responses[0]


@contextmanager
def staged(folder: Path, bugs: Sequence[str]) -> Iterator[Stage]:
    plan = TargetPlan(
        kind="shipped",
        brokers=len(IDS),
        session_timeout_ms=2000,
        # Nobody leaves the ISR for being slow here: followers are held for as long as a scenario wants.
        replica_lag_time_max_ms=60_000,
        settings={
            "auto.leader.rebalance.enable": "false",
            "replica.high.watermark.checkpoint.interval.ms": "500",
            "bugs": ",".join(bugs),
        },
    )
    with LoopbackFleet(folder / "registry") as fleet:
        target = ShippedTarget(plan, logs=folder / "logs", data=folder / "data", fleet=fleet)
        try:
            target.start()
            stage = Stage(target, folder / "data")
            try:
                yield stage
            finally:
                stage.close()
        finally:
            target.stop()
