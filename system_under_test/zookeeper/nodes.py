"""Paths of every node and what is in it: frozen values that encode to Kafka's JSON and decode from it.

Decoding is strict: whatever is not the JSON that Kafka writes raises :class:`MalformedNode`. Encoding keeps Kafka's
field names and versions. Unknown fields are ignored, as Kafka ignores them, so that a newer writer does no harm.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from system_under_test.types import TopicPartition

NO_LEADER = -1
"""Leader in the state of a partition that nobody can lead."""
LEADER_DURING_DELETE = -2
"""Leader in UpdateMetadata for a partition that is being deleted."""

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
ISR_CHANGE_PREFIX = "isr_change_"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "config_change_"
CLUSTER_ID = "/cluster/id"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"

PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Made by every broker at its start, where they are missing."""


class MalformedNode(ValueError):
    """A node does not hold what Kafka writes there."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_path: str) -> str:
    """``entity_path`` as in a change notification: ``topics/T``, ``brokers/1``, ``brokers/<default>``."""
    return f"{CONFIG}/{entity_path}"


def topic_config_path(topic: str) -> str:
    return config_path(f"topics/{topic}")


def broker_config_path(broker: str) -> str:
    """``broker`` is an id or ``<default>``."""
    return config_path(f"brokers/{broker}")


def sequence_number(name: str) -> int:
    """Of a sequential node: the ten digits at the end of its name."""
    digits = name[-10:]
    if not digits.isdecimal():
        raise MalformedNode(f"{name!r} is not the name of a sequential node")
    return int(digits)


# -- JSON ------------------------------------------------------------------------------------------------------------


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _decode(data: bytes, what: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise MalformedNode(f"{what}: not JSON: {data[:80]!r}") from error
    if not isinstance(content, dict):
        raise MalformedNode(f"{what}: not a JSON object: {data[:80]!r}")
    return content


def _integer(content: Mapping[str, Any], name: str, what: str, default: int | None = None) -> int:
    value = content.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedNode(f"{what}: {name} is {value!r}, not an integer")
    return value


def _integers(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        raise MalformedNode(f"{what}: {value!r} is not a list of integers")
    return tuple(value)


def _string(content: Mapping[str, Any], name: str, what: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise MalformedNode(f"{what}: {name} is {value!r}, not a string")
    return value


def _strings(value: Any, what: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise MalformedNode(f"{what}: {value!r} is not a map of strings")
    return value


def _replicas(value: Any, what: str) -> dict[int, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise MalformedNode(f"{what}: {value!r} is not a map of partitions")
    if not all(partition.isdecimal() for partition in value):
        raise MalformedNode(f"{what}: a partition of {sorted(value)} is not a number")
    return {
        int(partition): _integers(value[partition], what) for partition in sorted(value, key=lambda name: int(name))
    }


def _partitions(content: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
    value = content.get("partitions")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MalformedNode(f"{what}: partitions is {value!r}, not a list of objects")
    return value


def encode_topic_id(topic_id: UUID) -> str:
    """As Kafka writes ids: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error) as error:
        raise MalformedNode(f"{text!r} is not a topic id") from error


# -- brokers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listener:
    """One address of a broker: ``PLAINTEXT://host:port``."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def uri(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """``/brokers/ids/N``, version 5. Its creation's transaction is the broker epoch and not part of the data."""

    id: int
    listeners: tuple[Listener, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)

    def encode(self) -> bytes:
        plain = next((listener for listener in self.listeners if listener.security_protocol == "PLAINTEXT"), None)
        content: dict[str, Any] = {
            "features": {},
            "listener_security_protocol_map": {each.name: each.security_protocol for each in self.listeners},
            "endpoints": [each.uri() for each in self.listeners],
            "jmx_port": self.jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            content["rack"] = self.rack
        return _encode(content)

    @staticmethod
    def decode(broker_id: int, data: bytes) -> BrokerRegistration:
        what = f"broker {broker_id}"
        content = _decode(data, what)
        protocols = _strings(content.get("listener_security_protocol_map", {}), what)
        endpoints = content.get("endpoints")
        if not isinstance(endpoints, list) or not all(isinstance(item, str) for item in endpoints):
            raise MalformedNode(f"{what}: endpoints is {endpoints!r}")
        rack = content.get("rack")
        timestamp = str(content.get("timestamp", "-1"))
        if (rack is not None and not isinstance(rack, str)) or not timestamp.lstrip("-").isdecimal():
            raise MalformedNode(f"{what}: rack {rack!r}, timestamp {timestamp!r}")
        return BrokerRegistration(
            id=broker_id,
            listeners=tuple(_listener(endpoint, protocols, what) for endpoint in endpoints),
            timestamp_ms=int(timestamp),
            rack=rack,
            jmx_port=_integer(content, "jmx_port", what, -1),
        )


def _listener(endpoint: str, protocols: Mapping[str, str], what: str) -> Listener:
    name, separator, address = endpoint.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isdecimal():
        raise MalformedNode(f"{what}: {endpoint!r} is not an endpoint")
    return Listener(name, host.strip("[]"), int(port), protocols.get(name, name))


# -- topics ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """``/brokers/topics/T``, version 3: where its replicas are, and which of them come and go (KIP-455)."""

    topic_id: UUID | None
    partitions: Mapping[int, tuple[int, ...]]
    adding_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def encode(self) -> bytes:
        content: dict[str, Any] = {
            "removing_replicas": _encoded_replicas(self.removing_replicas),
            "partitions": _encoded_replicas(self.partitions),
        }
        if self.topic_id is not None:
            content["topic_id"] = encode_topic_id(self.topic_id)
        content["adding_replicas"] = _encoded_replicas(self.adding_replicas)
        content["version"] = 3
        return _encode(content)

    @staticmethod
    def decode(topic: str, data: bytes) -> TopicAssignment:
        what = f"topic {topic}"
        content = _decode(data, what)
        topic_id = content.get("topic_id")
        if topic_id is not None and not isinstance(topic_id, str):
            raise MalformedNode(f"{what}: topic_id is {topic_id!r}")
        return TopicAssignment(
            topic_id=None if topic_id is None else decode_topic_id(topic_id),
            partitions=_replicas(content.get("partitions"), what),
            adding_replicas=_replicas(content.get("adding_replicas", {}), what),
            removing_replicas=_replicas(content.get("removing_replicas", {}), what),
        )


def _encoded_replicas(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(replicas[partition]) for partition in sorted(replicas) if replicas[partition]}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """``/brokers/topics/T/partitions/P/state``: who leads, in which epoch, and who is in sync."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int

    def encode(self) -> bytes:
        return _encode(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
            }
        )

    @staticmethod
    def decode(data: bytes) -> PartitionState:
        what = "partition state"
        content = _decode(data, what)
        return PartitionState(
            leader=_integer(content, "leader", what),
            leader_epoch=_integer(content, "leader_epoch", what),
            isr=_integers(content.get("isr"), what),
            controller_epoch=_integer(content, "controller_epoch", what),
        )


def isr_change_notification(partitions: Iterable[TopicPartition]) -> tuple[str, bytes]:
    """Path prefix of a sequential node and its data: a leader tells the controller whose ISR it changed."""
    content = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return f"{ISR_CHANGE_NOTIFICATION}/{ISR_CHANGE_PREFIX}", _encode({"version": 1, "partitions": content})


def decode_partition_list(data: bytes, what: str) -> tuple[TopicPartition, ...]:
    """Content of an ISR change notification and of ``/admin/preferred_replica_election``."""
    return tuple(
        TopicPartition(_string(item, "topic", what), _integer(item, "partition", what))
        for item in _partitions(_decode(data, what), what)
    )


def encode_partition_list(partitions: Iterable[TopicPartition]) -> bytes:
    return isr_change_notification(partitions)[1]


def encode_reassignment(reassignment: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """``/admin/reassign_partitions``: the replicas that partitions are to have."""
    content = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(reassignment.items())
    ]
    return _encode({"version": 1, "partitions": content})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    what = "partition reassignment"
    return {
        TopicPartition(_string(item, "topic", what), _integer(item, "partition", what)): _integers(
            item.get("replicas"), what
        )
        for item in _partitions(_decode(data, what), what)
    }


def log_dir_event(broker_id: int) -> tuple[str, bytes]:
    """Path prefix and data: a broker tells the controller that one of its log folders failed."""
    return (
        f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}",
        _encode({"version": 1, "broker": broker_id, "event": 1}),
    )


def decode_log_dir_event(data: bytes) -> int:
    """Id of the broker."""
    return _integer(_decode(data, "log dir event"), "broker", "log dir event")


# -- controller ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """``/controller``, version 2: who is the controller. Ephemeral."""

    broker_id: int
    timestamp_ms: int

    def encode(self) -> bytes:
        return _encode(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": -1,
            }
        )

    @staticmethod
    def decode(data: bytes) -> ControllerNode:
        content = _decode(data, "controller")
        timestamp = str(content.get("timestamp", "-1"))
        if not timestamp.lstrip("-").isdecimal():
            raise MalformedNode(f"controller: timestamp {timestamp!r}")
        return ControllerNode(_integer(content, "brokerid", "controller"), int(timestamp))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    if not data.isdigit():
        raise MalformedNode(f"controller epoch {data!r}")
    return int(data)


# -- configuration and cluster ---------------------------------------------------------------------------------------


def encode_config(overrides: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(sorted(overrides.items()))})


def decode_config(data: bytes) -> dict[str, str]:
    return _strings(_decode(data, "config").get("config"), "config")


def config_change(entity_path: str) -> tuple[str, bytes]:
    """Path prefix of a sequential node and its data: tells every broker to read this configuration again."""
    return f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}", _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """The entity path."""
    return _string(_decode(data, "config change"), "entity_path", "config change")


PRODUCER_IDS_PER_BLOCK = 1000
_LARGEST_PRODUCER_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """``/latest_producer_id_block``, version 1: the last block of producer ids that was taken, and by whom."""

    broker_id: int
    start: int
    end: int
    """The last one of the block."""

    @staticmethod
    def after(data: bytes, broker_id: int) -> ProducerIdBlock:
        """The next block for this broker, given what the node holds; nothing before the first."""
        start = ProducerIdBlock.decode(data).end + 1 if data else 0
        if start > _LARGEST_PRODUCER_ID - PRODUCER_IDS_PER_BLOCK:
            raise MalformedNode(f"producer ids: all are used up, the last block ends at {start - 1}")
        return ProducerIdBlock(broker_id, start, start + PRODUCER_IDS_PER_BLOCK - 1)

    def encode(self) -> bytes:
        return _encode(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.start), "block_end": str(self.end)}
        )

    @staticmethod
    def decode(data: bytes) -> ProducerIdBlock:
        content = _decode(data, "producer ids")
        start, end = (_string(content, name, "producer ids") for name in ("block_start", "block_end"))
        if not (start.isdecimal() and end.isdecimal()):
            raise MalformedNode(f"producer ids: a block from {start!r} to {end!r}")
        return ProducerIdBlock(_integer(content, "broker", "producer ids"), int(start), int(end))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return _string(_decode(data, "cluster id"), "id", "cluster id")
