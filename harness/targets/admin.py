"""Topics, and a cluster's own account of itself, through Kafka's admin protocol."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    NewTopic,
)

from harness.plan import TopicPlan
from harness.targets.base import PartitionState, Snapshot, TargetError, node_name

_PATIENCE_S = 5.0
_PAUSE_S = 0.2
# Refused because of the cluster's present state, which may be better in a moment.
_PASSING = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,  # too few brokers are up
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
    }
)


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        # Broken connections are what a chaos run is made of: nothing that librdkafka should print.
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 5000})

    def metadata(self) -> ClusterMetadata | None:
        try:
            return self._client.list_topics(timeout=_PATIENCE_S)
        except KafkaException:
            return None

    def create_topic(self, name: str, plan: TopicPlan, timeout_s: float) -> None:
        topic = NewTopic(
            name,
            num_partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            config={
                "min.insync.replicas": str(plan.min_insync_replicas),
                "unclean.leader.election.enable": str(plan.unclean_leader_election).lower(),
            },
        )

        def attempt(first: bool) -> None:
            try:
                self._client.create_topics([topic], operation_timeout=_PATIENCE_S)[name].result(2 * _PATIENCE_S)
            except KafkaException as error:
                # After a time-out, "exists" is our own earlier attempt.
                if first or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        deadline = time.monotonic() + timeout_s
        _persist(attempt, deadline, f"topic {name} cannot be created")
        while not self._all_led(name, plan.partitions):
            if time.monotonic() >= deadline:
                raise TargetError(f"topic {name} was created but has no leaders after {timeout_s:.0f} s")
            time.sleep(_PAUSE_S)

    def _all_led(self, name: str, partitions: int) -> bool:
        metadata = self.metadata()
        topic = metadata.topics.get(name) if metadata else None
        if topic is None or topic.error is not None or len(topic.partitions) != partitions:
            return False
        return all(each.leader >= 0 for each in topic.partitions.values())

    def delete_topic(self, name: str, timeout_s: float) -> None:
        def attempt(first: bool) -> None:  # noqa: ARG001
            try:
                self._client.delete_topics([name], operation_timeout=_PATIENCE_S)[name].result(2 * _PATIENCE_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

        _persist(attempt, time.monotonic() + timeout_s, f"topic {name} cannot be deleted")


def _persist(attempt: Callable[[bool], None], deadline: float, failed: str) -> None:
    first = True
    while True:
        try:
            attempt(first)
            return
        except (KafkaException, TimeoutError) as error:
            reason = error.args[0] if isinstance(error, KafkaException) else None
            passing = reason is None or reason.code() in _PASSING
            if not passing or time.monotonic() >= deadline:
                raise TargetError(f"{failed}: {reason.str() if reason else 'no answer'}") from error
        first = False
        time.sleep(_PAUSE_S)


class AdminView:
    """What any broker's metadata says; see :class:`harness.targets.base.TargetView`. It knows no epochs."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        metadata = admin.metadata()
        if metadata is None:
            raise TargetError(f"no broker answers at {admin.bootstrap}: is the cluster running, is the address right?")
        self.brokers = tuple(sorted(metadata.brokers))

    def controller(self) -> int | None:
        metadata = self._admin.metadata()
        return _known(metadata.controller_id) if metadata else None

    def controller_epoch(self) -> int | None:
        return None

    def leader(self, topic: str, partition: int) -> int | None:
        state = self._state(topic, partition)
        return state.leader if state else None

    def in_sync_replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:
        state = self._state(topic, partition)
        return state.isr if state else None

    def registered(self, broker: int) -> bool | None:
        metadata = self._admin.metadata()
        return broker in metadata.brokers if metadata else None

    def snapshot(self, wanted: Callable[[str], bool]) -> Snapshot | None:
        metadata = self._admin.metadata()
        if metadata is None:
            return None
        return Snapshot(
            brokers=dict.fromkeys(sorted(metadata.brokers), 0),
            controller=_known(metadata.controller_id),
            partitions={
                (name, number): PartitionState(_known(partition.leader), None, tuple(sorted(partition.isrs)))
                for name, topic in sorted(metadata.topics.items())
                if wanted(name)
                for number, partition in sorted(topic.partitions.items())
            },
        )

    def unhealthy(self) -> list[str]:
        metadata = self._admin.metadata()
        if metadata is None:
            return ["no broker answers"]
        wrong = [f"{node_name(each)} is not registered" for each in self.brokers if each not in metadata.brokers]
        for name, topic in sorted(metadata.topics.items()):
            for number, partition in sorted(topic.partitions.items()):
                if _known(partition.leader) is None:
                    wrong.append(f"{name}-{number} has no leader")
                elif missing := sorted(set(partition.replicas) - set(partition.isrs)):
                    wrong.append(f"{name}-{number} has {', '.join(map(node_name, missing))} outside its ISR")
        return wrong

    def close(self) -> None:
        """Nothing is held."""

    def _state(self, topic: str, partition: int) -> PartitionState | None:
        snapshot = self.snapshot(lambda name: name == topic)
        return snapshot.partitions.get((topic, partition)) if snapshot else None


def _known(broker: int) -> int | None:
    return broker if broker >= 0 else None
