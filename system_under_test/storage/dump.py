"""Print segments, indexes and leader epochs as Kafka's ``DumpLogSegments`` does, line for line.

``--print-data-log`` and ``--deep-iteration`` show the records of each batch. The CRC of every batch is checked; bytes that are no
batch are told of and end the dump of that file. An index is compared with the log beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from system_under_test.protocol.batch import (
    BatchHeader,
    CorruptBatch,
    Record,
    TimestampType,
    check_crc,
    decode,
)
from system_under_test.storage.checkpoints import LEADER_EPOCHS, read_epochs
from system_under_test.storage.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from system_under_test.storage.scan import BadBatch, walk_headers
from system_under_test.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from system_under_test.world import File, Files

_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_MARKERS = {0: "ABORT", 1: "COMMIT"}
_TIME_NAMES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class DumpOptions:
    deep_iteration: bool = False
    """Records, without what they hold."""
    print_data_log: bool = False
    """Records with keys and values."""
    verify_index_only: bool = False
    """Only what is wrong with an index, not its entries."""


def dump(files: Files, paths: Iterable[str], options: DumpOptions | None = None) -> Iterator[str]:
    """Lines, in the order of the paths; what is wrong with the indexes comes last, as in Kafka's tool."""
    options = options or DumpOptions()
    findings: list[str] = []
    for path in paths:
        yield f"Dumping {path}"
        name = path.rpartition("/")[2]
        if name == LEADER_EPOCHS:
            yield from _dump_epochs(files, path)
        elif name.endswith(LOG_SUFFIX):
            yield from _dump_log(files, path, options)
        elif name.endswith(TIME_INDEX_SUFFIX):
            yield from _dump_time_index(files, path, options, findings)
        elif name.endswith(INDEX_SUFFIX):
            yield from _dump_offset_index(files, path, options, findings)
        else:
            yield f"Ignoring unknown file {path}"
    yield from findings


def _base_offset(path: str) -> int:
    """As the name says; Kafka's tool takes it from there too."""
    return int(path.rpartition("/")[2].partition(".")[0])


def _dump_epochs(files: Files, path: str) -> Iterator[str]:
    for entry in read_epochs(files, path):
        yield f"epoch: {entry.epoch} startOffset: {entry.start_offset}"


def _dump_log(files: Files, path: str, options: DumpOptions) -> Iterator[str]:
    yield f"Log starting offset: {_base_offset(path)}"
    file = files.open(path)
    try:
        size = file.size()
        for position, header in walk_headers(file, 0, size):
            data = file.read_at(position, header.size_bytes)
            yield _batch_line(position, header, _is_valid(data, header))
            if options.deep_iteration or options.print_data_log:
                yield from _record_lines(data, header, options.print_data_log)
    except BadBatch as bad:
        yield f"Found {size - bad.position} invalid bytes at the end of {path.rpartition('/')[2]}: {bad}"
    finally:
        file.close()


def _is_valid(data: bytes, header: BatchHeader) -> bool:
    try:
        check_crc(data, 0, header)
    except CorruptBatch:
        return False
    return True


def _batch_line(position: int, header: BatchHeader, is_valid: bool) -> str:
    horizon = header.delete_horizon_ms
    fields = (
        ("baseOffset", header.base_offset),
        ("lastOffset", header.last_offset),
        ("count", header.record_count),
        ("baseSequence", header.base_sequence),
        ("lastSequence", header.last_sequence),
        ("producerId", header.producer_id),
        ("producerEpoch", header.producer_epoch),
        ("partitionLeaderEpoch", header.partition_leader_epoch),
        ("isTransactional", _boolean(header.is_transactional)),
        ("isControl", _boolean(header.is_control)),
        ("deleteHorizonMs", "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"),
        ("position", position),
        (_TIME_NAMES[header.timestamp_type], header.max_timestamp),
        ("size", header.size_bytes),
        ("magic", header.magic),
        ("compresscodec", _codec_name(header)),
        ("crc", header.crc),
        ("isvalid", _boolean(is_valid)),
    )
    return " ".join(f"{name}: {value}" for name, value in fields)


def _codec_name(header: BatchHeader) -> str:
    try:
        return header.compression.config_name
    except CorruptBatch:
        return f"unknown ({header.attributes & 0x07})"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _record_lines(data: bytes, header: BatchHeader, with_data: bool) -> Iterator[str]:
    try:
        records = decode(data)
    except CorruptBatch as problem:
        yield f"| the records cannot be read: {problem}"
        return
    for number, record in enumerate(records):
        yield _record_line(number, record, header, with_data)


def _record_line(number: int, record: Record, header: BatchHeader, with_data: bool) -> str:
    sequence = (header.base_sequence + number) & 0x7FFFFFFF if header.base_sequence >= 0 else -1
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_TIME_NAMES[header.timestamp_type]}: {record.timestamp} keySize: {key_size} "
        f"valueSize: {value_size} sequence: {sequence} headerKeys: [{names}]"
    )
    if header.is_control:
        return f"{line} {_marker(record)}"
    if with_data:
        if record.key is not None:
            line += f" key: {_shown(record.key)}"
        if record.value is not None:
            line += f" payload: {_shown(record.value)}"
    return line


def _marker(record: Record) -> str:
    key, value = record.key or b"", record.value or b""
    if len(key) < _MARKER_KEY.size or len(value) < _MARKER_VALUE.size:
        return "controlType: UNKNOWN(-1)"
    kind = _MARKER_KEY.unpack_from(key)[1]
    if kind not in _MARKERS:
        return f"controlType: UNKNOWN({kind})"
    return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {_MARKER_VALUE.unpack_from(value)[1]}"


def _shown(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _dump_offset_index(files: Files, path: str, options: DumpOptions, findings: list[str]) -> Iterator[str]:
    index = OffsetIndex(files, path, _base_offset(path), _whole(files, path, OFFSET_ENTRY))
    log = files.open(_log_beside(path, INDEX_SUFFIX))
    wrong: list[str] = []
    try:
        if not index.count():
            yield f"{path} is empty."
        for entry in index.entries():
            found = _last_offset_at(log, entry.position)
            if found != entry.offset:
                shown = "nothing" if found is None else str(found)
                wrong.append(f"  Index offset: {entry.offset}, log offset: {shown}")
            if not options.verify_index_only:
                yield f"offset: {entry.offset} position: {entry.position}"
    finally:
        index.close()
        log.close()
    if wrong:
        findings += [f"Mismatches in :{path}", *wrong]


def _last_offset_at(log: File, position: int) -> int | None:
    try:
        for _, header in walk_headers(log, position, log.size()):
            return header.last_offset
    except BadBatch:
        pass
    return None


def _dump_time_index(files: Files, path: str, options: DumpOptions, findings: list[str]) -> Iterator[str]:
    index = TimeIndex(files, path, _base_offset(path), _whole(files, path, TIME_ENTRY))
    log = files.open(_log_beside(path, TIME_INDEX_SUFFIX))
    newest: dict[int, int] = {}
    """Of each batch, by its last offset, the largest timestamp up to there."""
    wrong: list[str] = []
    try:
        _load_newest(log, newest)
        previous = -1
        for entry in index.entries():
            found = newest.get(entry.offset)
            if found != entry.timestamp:
                shown = "nothing" if found is None else str(found)
                wrong.append(f"  Index timestamp: {entry.timestamp}, log timestamp: {shown}")
            elif entry.timestamp <= previous:
                wrong.append(f"  Index timestamp: {entry.timestamp}, not above the previous {previous}")
            previous = entry.timestamp
            if not options.verify_index_only:
                yield f"timestamp: {entry.timestamp} offset: {entry.offset}"
    finally:
        index.close()
        log.close()
    if wrong:
        findings += [f"Found timestamp mismatch in :{path}", *wrong]


def _load_newest(log: File, newest: dict[int, int]) -> None:
    largest = -1
    try:
        for _, header in walk_headers(log, 0, log.size()):
            largest = max(largest, header.max_timestamp)
            newest[header.last_offset] = largest
    except BadBatch:
        pass  # told where the log itself is dumped


def _log_beside(path: str, suffix: str) -> str:
    return path[: -len(suffix)] + LOG_SUFFIX


def _whole(files: Files, path: str, entry: struct.Struct) -> int:
    """An index is opened by its path; a missing one must not be made."""
    file = files.open(path)
    try:
        return max(file.size(), entry.size)
    finally:
        file.close()
