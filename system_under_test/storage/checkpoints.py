"""The small text files beside the logs, in Kafka's formats. Each is replaced as a whole: old or new, never a mixture.

Per log dir: ``replication-offset-checkpoint`` (high watermarks), ``recovery-point-offset-checkpoint`` (what has been
synced), ``log-start-offset-checkpoint`` (where it differs from the first segment), ``meta.properties`` (whose data
this is) and ``.kafka_cleanshutdown``. Per partition: ``leader-epoch-checkpoint`` and ``partition.metadata`` (topic id).
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from system_under_test.storage.epochs import EpochEntry
from system_under_test.types import TopicPartition
from system_under_test.world import Files

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_VERSION = "0"


class CheckpointError(ValueError):
    """A file that is not what its name says."""


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not a text") from None


def _rows(files: Files, path: str, columns: int) -> list[list[str]]:
    """The rows below version and count; [] when there is no such file."""
    if not files.exists(path):
        return []
    lines = _text(files, path).splitlines()
    if len(lines) < 2:
        raise CheckpointError(f"{path}: version and count are missing")
    if lines[0].strip() != _VERSION:
        raise CheckpointError(f"{path}: version {lines[0].strip()!r} is not known, only {_VERSION} is")
    rows = [line.split() for line in lines[2:]]
    if not lines[1].strip().isdecimal() or int(lines[1]) != len(rows):
        raise CheckpointError(f"{path}: {len(rows)} entries, the count says {lines[1].strip()!r}")
    for row in rows:
        if len(row) != columns:
            raise CheckpointError(f"{path}: {' '.join(row)!r} has not {columns} columns")
    return rows


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointError(f"{path}: {text!r} is not a number") from None


def _write(files: Files, path: str, rows: Sequence[str]) -> None:
    files.write_atomically(path, "\n".join([_VERSION, str(len(rows)), *rows, ""]).encode())


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _number(path, partition)): _number(path, offset)
        for topic, partition, offset in _rows(files, path, 3)
    }


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    _write(files, path, [f"{each.topic} {each.partition} {offset}" for each, offset in sorted(offsets.items())])


def read_epochs(files: Files, path: str) -> list[EpochEntry]:
    return [EpochEntry(_number(path, epoch), _number(path, start)) for epoch, start in _rows(files, path, 2)]


def write_epochs(files: Files, path: str, entries: Sequence[EpochEntry]) -> None:
    _write(files, path, [f"{each.epoch} {each.start_offset}" for each in entries])


def encode_topic_id(topic_id: uuid.UUID) -> str:
    """Kafka's text of a topic id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def decode_topic_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise CheckpointError(f"{text!r} is not a topic id") from None


def read_partition_metadata(files: Files, path: str) -> uuid.UUID | None:
    if not files.exists(path):
        return None
    fields = dict(line.split(": ", 1) for line in _text(files, path).splitlines() if ": " in line)
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise CheckpointError(f"{path}: version {_VERSION} and a topic_id should be there")
    return decode_topic_id(fields["topic_id"].strip())


def write_partition_metadata(files: Files, path: str, topic_id: uuid.UUID) -> None:
    files.write_atomically(path, f"version: {_VERSION}\ntopic_id: {encode_topic_id(topic_id)}".encode())


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose data a log dir holds. A broker refuses a dir of another broker or another cluster."""

    broker_id: int
    cluster_id: str | None


def read_meta_properties(files: Files, log_dir: str) -> MetaProperties | None:
    path = f"{log_dir}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    fields = {}
    for line in _text(files, path).splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            fields[name.strip()] = value.strip().replace("\\", "")  # Java escapes : and = in values
    if fields.get("version") != _VERSION:
        raise CheckpointError(f"{path}: version {fields.get('version')!r} is not known, only {_VERSION} is")
    if "broker.id" not in fields:
        raise CheckpointError(f"{path}: broker.id is missing")
    return MetaProperties(_number(path, fields["broker.id"]), fields.get("cluster.id"))


def write_meta_properties(files: Files, log_dir: str, meta: MetaProperties) -> None:
    lines = ["#", f"broker.id={meta.broker_id}"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    lines += [f"version={_VERSION}", ""]
    files.write_atomically(f"{log_dir}/{META_PROPERTIES}", "\n".join(lines).encode())


def write_clean_shutdown(files: Files, log_dir: str, broker_epoch: int) -> None:
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_atomically(f"{log_dir}/{CLEAN_SHUTDOWN}", content.encode())


def take_clean_shutdown(files: Files, log_dir: str) -> bool:
    """Whether the last shutdown was clean. The file is gone for good when this returns: it must never speak for a
    log that has been written to since."""
    path = f"{log_dir}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return False
    files.remove(path)
    files.sync_folder(log_dir)
    return True
