"""Nodes hold the JSON that Apache Kafka writes, and nothing else is taken for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.types import TopicPartition
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.nodes import (
    BrokerRegistration,
    ControllerNode,
    Listener,
    PartitionState,
    TopicAssignment,
)

ids = st.integers(0, 2**31 - 1)
replica_lists = st.lists(ids, min_size=1, max_size=5, unique=True).map(tuple)
topics = st.text("abc._-09", min_size=1, max_size=8)
partitions = st.builds(TopicPartition, topics, ids)


def test_partition_state_as_kafka_writes_it() -> None:
    data = b'{"controller_epoch":17,"leader":0,"version":1,"leader_epoch":1,"isr":[0,1]}'
    state = PartitionState(leader=0, leader_epoch=1, isr=(0, 1), controller_epoch=17)
    assert PartitionState.decode(data) == state
    assert state.encode() == data


def test_registration_as_kafka_writes_it() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://198.18.0.2:9092"],"jmx_port":-1,"port":9092,"host":"198.18.0.2","version":5,'
        b'"timestamp":"1492054322225"}'
    )
    registration = BrokerRegistration(2, (Listener("PLAINTEXT", "198.18.0.2", 9092),), 1492054322225)
    assert BrokerRegistration.decode(2, data) == registration
    assert registration.encode() == data


def test_an_older_registration_is_understood() -> None:
    data = (
        b'{"jmx_port":-1,"timestamp":"1492054322225","endpoints":["PLAINTEXT://192.168.192.147:9092"],'
        b'"host":"192.168.192.147","version":3,"port":9092}'
    )
    assert BrokerRegistration.decode(2, data).listeners == (Listener("PLAINTEXT", "192.168.192.147", 9092),)


def test_topic_as_kafka_writes_it() -> None:
    data = (
        b'{"removing_replicas":{},"partitions":{"0":[0,1],"10":[1,0],"2":[1,2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAKg",'
        b'"adding_replicas":{"2":[2]},"version":3}'
    )
    assignment = TopicAssignment.decode("t", data)
    assert assignment.topic_id == UUID(int=42)
    assert list(assignment.partitions) == [0, 2, 10]
    assert assignment.adding_replicas == {2: (2,)}
    assert json.loads(assignment.encode()) == json.loads(data)


@given(
    st.dictionaries(ids, replica_lists),
    st.dictionaries(ids, replica_lists),
    st.dictionaries(ids, replica_lists),
    st.uuids() | st.none(),
)
def test_topics_come_back(
    assigned: dict[int, tuple[int, ...]],
    adding: dict[int, tuple[int, ...]],
    removing: dict[int, tuple[int, ...]],
    topic_id: UUID | None,
) -> None:
    value = TopicAssignment(topic_id, assigned, adding, removing)
    assert TopicAssignment.decode("t", value.encode()) == value


@given(st.lists(partitions), st.dictionaries(partitions, replica_lists))
def test_lists_of_partitions_come_back(
    listed: list[TopicPartition], reassigned: dict[TopicPartition, tuple[int, ...]]
) -> None:
    assert nodes.decode_partition_list(nodes.encode_partition_list(listed), "test") == tuple(listed)
    assert nodes.decode_reassignment(nodes.encode_reassignment(reassigned)) == reassigned


@given(st.uuids())
def test_topic_ids_come_back(topic_id: UUID) -> None:
    text = nodes.encode_topic_id(topic_id)
    assert len(text) == 22
    assert nodes.decode_topic_id(text) == topic_id


def test_small_nodes() -> None:
    assert nodes.decode_controller_epoch(nodes.encode_controller_epoch(7)) == 7
    assert nodes.decode_config(nodes.encode_config({"retention.ms": "1"})) == {"retention.ms": "1"}
    assert nodes.config_change("topics/t") == (
        "/config/changes/config_change_",
        b'{"version":2,"entity_path":"topics/t"}',
    )
    assert nodes.decode_config_change(nodes.config_change("topics/t")[1]) == "topics/t"
    assert nodes.decode_cluster_id(nodes.encode_cluster_id("abc")) == "abc"
    assert nodes.decode_log_dir_event(nodes.log_dir_event(3)[1]) == 3
    assert nodes.sequence_number("isr_change_0000000012") == 12
    assert ControllerNode.decode(ControllerNode(3, 99).encode()) == ControllerNode(3, 99)
    assert ControllerNode.decode(b'{"version":1,"brokerid":1,"timestamp":"5"}') == ControllerNode(1, 5)


decoders: list[Callable[[bytes], object]] = [
    ControllerNode.decode,
    PartitionState.decode,
    lambda data: TopicAssignment.decode("t", data),
    lambda data: BrokerRegistration.decode(1, data),
    nodes.decode_config,
    nodes.decode_config_change,
    nodes.decode_cluster_id,
    nodes.decode_controller_epoch,
    nodes.decode_log_dir_event,
    nodes.decode_reassignment,
    lambda data: nodes.decode_partition_list(data, "test"),
]


@pytest.mark.parametrize("decode", decoders)
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"brokerid":"1"}',
        b'{"partitions":1,"isr":"x","endpoints":[7]}',
        b"-1",
        b"null",
    ],
)
def test_garbage_is_named(decode: Callable[[bytes], object], garbage: bytes) -> None:
    with pytest.raises(nodes.MalformedNode):
        decode(garbage)
