"""The small text files, byte for byte as Apache Kafka 3.9 writes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from system_under_test.realworld.files import RealFiles
from system_under_test.simulation.world import Host
from system_under_test.storage.checkpoints import (
    CheckpointError,
    MetaProperties,
    encode_topic_id,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_epochs,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from system_under_test.storage.epochs import EpochEntry
from system_under_test.types import TopicPartition
from system_under_test.world import Files
from tests.system_under_test.storage.support import simulated_host

KAFKA = Path(__file__).parents[2] / "fixtures" / "kafka-3.9.1" / "fixture-0"


@pytest.fixture
def host() -> Iterator[Host]:
    with simulated_host() as host:
        yield host


@pytest.fixture
def files(host: Host) -> Files:
    files = host.boot().files
    files.make_folder("/data")
    return files


def write(files: Files, text: str) -> str:
    files.write_atomically("/data/file", text.encode())
    return "/data/file"


def test_offsets(files: Files) -> None:
    offsets = {TopicPartition("b", 10): 2**40, TopicPartition("b", 9): 0, TopicPartition("a-1", 0): 7}
    write_offsets(files, "/data/file", offsets)
    assert files.read("/data/file") == b"0\n3\na-1 0 7\nb 9 0\nb 10 1099511627776\n"
    assert read_offsets(files, "/data/file") == offsets


def test_no_file_is_no_entry(files: Files) -> None:
    assert read_offsets(files, "/data/file") == {}
    assert read_epochs(files, "/data/file") == []


def test_epochs(files: Files) -> None:
    entries = [EpochEntry(0, 0), EpochEntry(4, 250)]
    write_epochs(files, "/data/file", entries)
    assert files.read("/data/file") == b"0\n2\n0 0\n4 250\n"
    assert read_epochs(files, "/data/file") == entries


def test_kafkas_own_epochs_and_topic_id() -> None:
    files = RealFiles()
    assert read_epochs(files, str(KAFKA / "leader-epoch-checkpoint")) == [EpochEntry(0, 0)]
    topic_id = read_partition_metadata(files, str(KAFKA / "partition.metadata"))
    assert topic_id is not None
    assert encode_topic_id(topic_id) == "t3_xiyDkRzODlyG4kkYY3A"


def test_kafkas_partition_metadata_is_written_the_same(files: Files) -> None:
    topic_id = read_partition_metadata(RealFiles(), str(KAFKA / "partition.metadata"))
    assert topic_id is not None
    write_partition_metadata(files, "/data/file", topic_id)
    assert files.read("/data/file") == (KAFKA / "partition.metadata").read_bytes()


def test_topic_ids_round_trip(files: Files) -> None:
    for number in range(20):
        topic_id = uuid.UUID(int=number * 2**121 + number)
        write_partition_metadata(files, "/data/file", topic_id)
        assert read_partition_metadata(files, "/data/file") == topic_id


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "missing"),
        ("0\n", "missing"),
        ("1\n0\n", "version '1'"),
        ("0\n2\na 0 1\n", "1 entries, the count says '2'"),
        ("0\nx\na 0 1\n", "count"),
        ("0\n1\na 0\n", "3 columns"),
        ("0\n1\na 0 z\n", "'z' is not a number"),
        ("\0\0\0\0\n\n", "version"),
    ],
)
def test_damage_is_named(files: Files, text: str, complaint: str) -> None:
    path = write(files, text)
    with pytest.raises(CheckpointError, match=complaint):
        read_offsets(files, path)


def test_bytes_that_are_no_text(files: Files) -> None:
    files.write_atomically("/data/file", b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match="not a text"):
        read_epochs(files, "/data/file")


def test_meta_properties(files: Files) -> None:
    assert read_meta_properties(files, "/data") is None
    write_meta_properties(files, "/data", MetaProperties(3, "Gwf3LbRNQYusNZNegnOabA"))
    assert files.read("/data/meta.properties") == b"#\nbroker.id=3\ncluster.id=Gwf3LbRNQYusNZNegnOabA\nversion=0\n"
    assert read_meta_properties(files, "/data") == MetaProperties(3, "Gwf3LbRNQYusNZNegnOabA")


def test_meta_properties_as_java_writes_them(files: Files) -> None:
    text = "#\n#Wed Nov 18 16:57:10 UTC 2026\nbroker.id=0\nversion=0\ncluster.id=Gwf3LbRNQYusNZNegnOabA\n"
    files.write_atomically("/data/meta.properties", text.encode())
    assert read_meta_properties(files, "/data") == MetaProperties(0, "Gwf3LbRNQYusNZNegnOabA")


def test_clean_shutdown_is_believed_once(files: Files) -> None:
    assert not take_clean_shutdown(files, "/data")
    write_clean_shutdown(files, "/data", -1)
    assert files.read("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert take_clean_shutdown(files, "/data")
    assert not take_clean_shutdown(files, "/data")


def test_a_loss_of_power_does_not_bring_a_clean_shutdown_back() -> None:
    for seed in range(30):
        with simulated_host(seed) as host:
            files = host.boot().files
            files.make_folder("/data")
            files.sync_folder("/")
            write_clean_shutdown(files, "/data", -1)
            assert take_clean_shutdown(files, "/data")
            host.lose_power()
            assert not take_clean_shutdown(host.boot().files, "/data")
