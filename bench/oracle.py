"""What Apache Kafka itself says: ``python -m bench.oracle`` asks a managed Kafka 3.9 (ZooKeeper mode) and keeps the answers.

Each question is bytes on a connection of its own: requests at the edge of the protocol (an unknown version, an array
of a negative or an impossible size, a truncated body, …). What comes back, and whether the connection is closed, is
written to ``tests/fixtures/kafka-3.9.1/edges.json``; the shipped broker is held to it by ``tests/system_under_test/server/test_edges.py``.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from bench.entry import enter
from harness.fleet.loopback import LoopbackFleet
from harness.plan import TargetPlan, TopicPlan
from harness.targets import TargetError, make_target
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.batch import encode
from system_under_test.protocol.messages import Body, Maker, encode_request, maker

FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "kafka-3.9.1" / "edges.json"
TOPIC = "edges"
_PATIENCE_S = 2.0
_SECOND = timedelta(seconds=1)
_CLIENT = b"\x00\x01e"
_I32_MAX = 2**31 - 1
_HUGE_VARINT = b"\xff\xff\xff\xff\x07"


def frame(
    api: int, version: int, body: bytes, *, flexible: bool = False, client: bytes = _CLIENT, number: int = 7
) -> bytes:
    """A request with its size. ``flexible``: its header ends with (no) tagged fields."""
    content = struct.pack(">hhi", api, version, number) + client + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(content)) + content


def _i32(value: int) -> bytes:
    return struct.pack(">i", value)


def _name(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _compact(text: bytes) -> bytes:
    return bytes((len(text) + 1,)) + text


def _produce(acks: int, records: bytes, topic: bytes = TOPIC.encode()) -> bytes:
    """Version 3."""
    partition = _i32(0) + _i32(len(records)) + records
    return b"\xff\xff" + struct.pack(">hi", acks, 1000) + _i32(1) + _name(topic) + _i32(1) + partition


def _fetch(session_id: int, session_epoch: int, partition: int = 0) -> bytes:
    """Version 7."""
    wanted = struct.pack(">iqqi", partition, 0, -1, 1000)
    head = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, session_id, session_epoch)
    return head + _i32(1) + _name(TOPIC.encode()) + _i32(1) + wanted + _i32(0)


def _list_offsets(*partitions: int) -> bytes:
    """Version 1."""
    wanted = b"".join(struct.pack(">iq", each, -1) for each in partitions)
    return _i32(-1) + _i32(1) + _name(TOPIC.encode()) + _i32(len(partitions)) + wanted


_BATCH = encode([(b"k", b"v")], timestamp_ms=1_700_000_000_000)
API_VERSIONS_0 = frame(18, 0, b"")
QUESTIONS: dict[str, bytes] = {
    "ApiVersions 0": API_VERSIONS_0,
    "ApiVersions of an unknown version": frame(18, 99, b"", flexible=True),
    "ApiVersions of a negative version": frame(18, -1, b""),
    "ApiVersions 3 without software": frame(18, 3, b"\x01\x01\x00", flexible=True),
    "ApiVersions 3 with strange software": frame(18, 3, _compact(b"a b") + _compact(b"1") + b"\x00", flexible=True),
    "ApiVersions 3 with a null name": frame(18, 3, b"\x00\x00\x00", flexible=True),
    "ApiVersions 3 with an unknown tag": frame(
        18, 3, _compact(b"e") + _compact(b"1") + b"\x01\x63\x02ab", flexible=True
    ),
    "ApiVersions 0 with bytes behind it": frame(18, 0, b"behind"),
    "an unknown API": frame(999, 0, b""),
    "a negative API": frame(-3, 0, b""),
    "an API of KRaft": frame(55, 0, b"", flexible=True),
    "an unknown version of Metadata": frame(3, 99, b"", flexible=True),
    "a negative version of Metadata": frame(3, -1, b""),
    "a size of 0": _i32(0),
    "a size of 4": _i32(4) + bytes(4),
    "a negative size": _i32(-1),
    "a size beyond the limit": _i32(104_857_601),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a client id of negative length": frame(3, 1, _i32(0), client=b"\xff\xfe"),
    "a client id longer than the request": frame(3, 1, _i32(0), client=b"\x7f\xff"),
    "no client id": frame(3, 1, _i32(0), client=b"\xff\xff"),
    "Metadata 1 with -2 topics": frame(3, 1, _i32(-2)),
    "Metadata 1 with impossibly many topics": frame(3, 1, _i32(_I32_MAX)),
    "Metadata 1 with fewer topics than said": frame(3, 1, _i32(2) + _name(b"a")),
    "Metadata 1 with a name of negative length": frame(3, 1, _i32(1) + b"\xff\xff"),
    "Metadata 1 with an invalid name": frame(3, 1, _i32(1) + _name(b"a b")),
    "Metadata 1 with an empty name": frame(3, 1, _i32(1) + _name(b"")),
    "Metadata 1 with a name that is not UTF-8": frame(3, 1, _i32(1) + _name(b"\xff\xfe")),
    "Metadata 9 with impossibly many topics": frame(3, 9, _HUGE_VARINT, flexible=True),
    "Metadata 9 with a varint that does not end": frame(3, 9, b"\xff" * 12, flexible=True),
    "Metadata 9 with an impossible tag": frame(3, 9, b"\x01\x00\x00\x00" + b"\x01\x00" + _HUGE_VARINT, flexible=True),
    "Metadata 12 without name and id": frame(3, 12, b"\x02" + bytes(16) + b"\x00\x00" + b"\x00\x00\x00", flexible=True),
    "Produce 3 with acks 5": frame(0, 3, _produce(5, _BATCH)),
    "Produce 3 with an older message": frame(0, 3, _produce(1, bytes(8) + _i32(60) + bytes(64))),
    "Produce 3 with no records": frame(0, 3, _produce(1, b"")),
    "Produce 3 with garbage for records": frame(0, 3, _produce(1, b"g" * 80)),
    "Produce 3 with half a batch": frame(0, 3, _produce(1, b"\x00" * 30)),
    "Produce 3 with acks 0 and garbage": frame(0, 3, _produce(0, b"g" * 80)),
    "Produce 3 with acks 0 to an unknown topic": frame(0, 3, _produce(0, b"", b"unknown")),
    "Produce 3 of records of a negative size": frame(
        0, 3, b"\xff\xff" + struct.pack(">hi", 1, 1000) + _i32(1) + _name(TOPIC.encode()) + _i32(1) + _i32(0) + _i32(-2)
    ),
    "Fetch 7 of an unknown session": frame(1, 7, _fetch(4711, 3)),
    "Fetch 7 of an unknown partition": frame(1, 7, _fetch(0, -1, 99)),
    "Fetch 7 of a negative partition": frame(1, 7, _fetch(0, -1, -5)),
    "ListOffsets 1 of one partition twice": frame(2, 1, _list_offsets(0, 0)),
    "ListOffsets 1 of a negative partition": frame(2, 1, _list_offsets(-1)),
}


def _made(api: ApiKey, version: int, build: Callable[[Maker], Body]) -> bytes:
    body = build(maker(api, version, False))
    return b"".join(bytes(each) for each in encode_request(api, version, 7, "e", body))


def _create(*names: str, partitions: int = 1, factor: int = 1) -> bytes:
    def build(make: Maker) -> Body:
        topics = tuple(
            make(
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=factor,
                assignments=(),
                configs=(),
            )
            for name in names
        )
        return make.root(topics=topics, timeout=_SECOND, validate_only=True)

    return _made(ApiKey.CREATE_TOPICS, 4, build)


def _list_one(timestamp: int, version: int) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("ListOffsetsPartition", partition_index=0, timestamp=timestamp)
        topic = make("ListOffsetsTopic", name=TOPIC, partitions=(wanted,))
        return make.root(replica_id=-1, isolation_level=0, topics=(topic,))

    return _made(ApiKey.LIST_OFFSETS, version, build)


def _delete_records(offset: int, partition: int = 0) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("DeleteRecordsPartition", partition_index=partition, offset=offset)
        return make.root(topics=(make("DeleteRecordsTopic", name=TOPIC, partitions=(wanted,)),), timeout=_SECOND)

    return _made(ApiKey.DELETE_RECORDS, 1, build)


def _epoch_end(epoch: int, current: int) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("OffsetForLeaderPartition", partition=0, current_leader_epoch=current, leader_epoch=epoch)
        topic = make("OffsetForLeaderTopic", topic=TOPIC, partitions=(wanted,))
        return make.root(replica_id=-2, topics=(topic,))

    return _made(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, build)


def _fetch_id(topic_id: uuid.UUID | None) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = make("FetchTopic", topic_id=topic_id, partitions=(wanted,))
        return make.root(
            max_wait=_SECOND * 0, min_bytes=0, topics=(topic,), forgotten_topics_data=(), rack_id="", isolation_level=0
        )

    return _made(ApiKey.FETCH, 13, build)


def _describe(resource_type: int, name: str) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make(
            "DescribeConfigsResource", resource_type=resource_type, resource_name=name, configuration_keys=("x",)
        )
        return make.root(resources=(wanted,))

    return _made(ApiKey.DESCRIBE_CONFIGS, 1, build)


def _alter(resource_type: int, name: str, config: str, operation: int) -> bytes:
    def build(make: Maker) -> Body:
        change = make("AlterableConfig", name=config, config_operation=operation, value="1")
        wanted = make("AlterConfigsResource", resource_type=resource_type, resource_name=name, configs=(change,))
        return make.root(resources=(wanted,), validate_only=True)

    return _made(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, build)


def _grow(name: str, count: int) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("CreatePartitionsTopic", name=name, count=count, assignments=None)
        return make.root(topics=(wanted,), timeout=_SECOND, validate_only=True)

    return _made(ApiKey.CREATE_PARTITIONS, 1, build)


def _delete(*names: str) -> bytes:
    return _made(ApiKey.DELETE_TOPICS, 4, lambda make: make.root(topic_names=names, timeout=_SECOND))


def _elect(kind: int, partition: int) -> bytes:
    def build(make: Maker) -> Body:
        wanted = make("TopicPartitions", topic=TOPIC, partitions=(partition,))
        return make.root(election_type=kind, topic_partitions=(wanted,), timeout=_SECOND)

    return _made(ApiKey.ELECT_LEADERS, 1, build)


QUESTIONS |= {
    "Metadata 9 with an unknown tag in its header": frame(
        3, 9, b"\x01\x00\x00\x00\x00", client=_CLIENT + b"\x01\x63\x01a"
    ),
    "Metadata 9 with unknown tags in a topic": frame(
        3, 9, b"\x02" + _compact(TOPIC.encode()) + b"\x02\x62\x00\x63\x01a" + b"\x00\x00\x00\x00", flexible=True
    ),
    "CreateTopics 4 with 0 partitions": _create("n", partitions=0),
    "CreateTopics 4 with -2 partitions": _create("n", partitions=-2),
    "CreateTopics 4 with 0 replicas": _create("n", factor=0),
    "CreateTopics 4 with too many replicas": _create("n", factor=99),
    "CreateTopics 4 of one topic twice": _create("n", "n"),
    "CreateTopics 4 of what is there": _create(TOPIC),
    "CreateTopics 4 with an invalid name": _create("a b"),
    "CreateTopics 4 with an empty name": _create(""),
    "CreateTopics 4 of no topic": _create(),
    "ListOffsets 7 at time -7": _list_one(-7, 7),
    "ListOffsets 7 of the largest timestamp": _list_one(-3, 7),
    "ListOffsets 6 of the largest timestamp": _list_one(-3, 6),
    "ListOffsets 8 of the earliest local": _list_one(-4, 8),
    "ListOffsets 9 of the latest tiered": _list_one(-5, 9),
    "DeleteRecords 1 up to -5": _delete_records(-5),
    "DeleteRecords 1 up to what is not there": _delete_records(99),
    "DeleteRecords 1 of an unknown partition": _delete_records(0, 99),
    "OffsetForLeaderEpoch 3 of an epoch to come": _epoch_end(99, -1),
    "OffsetForLeaderEpoch 3 of epoch -1": _epoch_end(-1, -1),
    "OffsetForLeaderEpoch 3 from an epoch to come": _epoch_end(0, 99),
    "OffsetForLeaderEpoch 3 from a negative epoch": _epoch_end(0, -5),
    "Fetch 13 of an unknown topic id": _fetch_id(uuid.UUID(int=5)),
    "Fetch 13 without a topic id": _fetch_id(None),
    "DescribeConfigs 1 of an unknown type": _describe(77, TOPIC),
    "DescribeConfigs 1 of an unknown topic": _describe(2, "unknown"),
    "DescribeConfigs 1 of an invalid topic": _describe(2, "a b"),
    "DescribeConfigs 1 of another broker": _describe(4, "99"),
    "DescribeConfigs 1 of a broker that is no number": _describe(4, "x"),
    "IncrementalAlterConfigs 1 of an unknown type": _alter(77, TOPIC, "retention.ms", 0),
    "IncrementalAlterConfigs 1 by an unknown operation": _alter(2, TOPIC, "retention.ms", 9),
    "IncrementalAlterConfigs 1 of an unknown config": _alter(2, TOPIC, "x", 0),
    "IncrementalAlterConfigs 1 of an unknown topic": _alter(2, "unknown", "retention.ms", 0),
    "IncrementalAlterConfigs 1 that appends to a number": _alter(2, TOPIC, "retention.ms", 2),
    "CreatePartitions 1 of an unknown topic": _grow("unknown", 3),
    "CreatePartitions 1 to fewer": _grow(TOPIC, 0),
    "CreatePartitions 1 to as many": _grow(TOPIC, 1),
    "DeleteTopics 4 of an unknown topic": _delete("unknown"),
    "DeleteTopics 4 of one topic twice": _delete("unknown", "unknown"),
    "ElectLeaders 1 of an unknown type": _elect(7, 0),
    "ElectLeaders 1 of an unknown partition": _elect(0, 99),
    "ElectLeaders 1 that is not needed": _elect(0, 0),
}


def ask(address: tuple[str, int], question: bytes) -> dict[str, object]:
    """Its answers (each frame in hexadecimal), and whether the connection still serves a next request."""
    answers: list[str] = []
    with socket.create_connection(address, _PATIENCE_S) as connection:
        connection.settimeout(_PATIENCE_S)
        try:
            connection.sendall(question)
            # A correlation id of its own tells its answer from the question's.
            connection.sendall(frame(18, 0, b"", number=8))
            while True:
                answer = _read(connection, int.from_bytes(_read(connection, 4), "big"))
                if answer[:4] == _i32(8):
                    return {"answers": answers, "goes_on": True}
                answers.append(answer.hex())
        except TimeoutError:
            return {"answers": answers, "goes_on": None}
        except ConnectionError:
            return {"answers": answers, "goes_on": False}


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.oracle", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FIXTURE)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oracle-") as work, LoopbackFleet(Path(work) / "registry") as fleet:
        try:
            target = make_target(
                TargetPlan(kind="kafka", brokers=1), logs=Path(work) / "logs", data=Path(work) / "data", fleet=fleet
            )
        except TargetError as error:
            print(error, file=sys.stderr)
            return 70
        target.start()
        try:
            target.create_topic(TOPIC, TopicPlan(partitions=1, replication_factor=1, min_insync_replicas=1))
            host, _, port = target.bootstrap.partition(":")
            found = {name: ask((host, int(port)), question) for name, question in QUESTIONS.items()}
        finally:
            target.stop()
    for name, answer in found.items():
        print(f"{name}: {answer['answers']} goes on: {answer['goes_on']}"[:160])
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    enter(main)
