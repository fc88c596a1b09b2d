"""A topic's configuration: Kafka's names, the broker's defaults beneath, the topic's own values above.

One table (:data:`TOPIC_CONFIGS`) defines every name, the broker settings that give its default, and its limits.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from system_under_test.config import ConfigError

__all__ = ["TOPIC_CONFIGS", "ConfigError", "LogConfig", "TopicConfig"]

_log = logging.getLogger(__name__)

LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_HOUR_MS = 3_600_000


def _int(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return read


def _long(low: int) -> Callable[[str], int]:
    return _int(low, LONG_MAX)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _ratio(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError("must be between 0 and 1")
    return value


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text.strip()

    return read


def _policies(text: str) -> tuple[str, ...]:
    values = tuple(each.strip() for each in text.split(",") if each.strip())
    if not values or any(each not in ("delete", "compact") for each in values):
        raise ValueError("must be delete, compact, or both")
    return values


def _text(text: str) -> str:
    return text.strip()


@dataclass(frozen=True, slots=True)
class TopicConfig:
    name: str
    read: Callable[[str], Any]
    default: str
    synonyms: tuple[tuple[str, int], ...]
    """Broker settings that give the default, strongest first, each with the factor to this one's unit."""
    doc: str

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")


def _row(name: str, read: Callable[[str], Any], default: int | str, synonyms: str, doc: str) -> TopicConfig:
    units = tuple(
        (each, _HOUR_MS if each.endswith(".hours") else 60_000 if each.endswith(".minutes") else 1)
        for each in synonyms.split()
    )
    return TopicConfig(name, read, str(default), units, doc)


TOPIC_CONFIGS: tuple[TopicConfig, ...] = (
    _row("cleanup.policy", _policies, "delete", "log.cleanup.policy", "delete old segments, compact, or both"),
    _row(
        "compression.type",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        "compression.type",
        "codec on disk; producer: as it comes",
    ),
    _row(
        "delete.retention.ms",
        _long(0),
        86_400_000,
        "log.cleaner.delete.retention.ms",
        "how long compaction keeps tombstones",
    ),
    _row(
        "file.delete.delay.ms",
        _long(0),
        60_000,
        "log.segment.delete.delay.ms",
        "how long a deleted segment's file stays",
    ),
    _row("flush.messages", _long(1), LONG_MAX, "log.flush.interval.messages", "sync after so many records"),
    _row(
        "flush.ms",
        _long(0),
        LONG_MAX,
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
        "sync what is older than this",
    ),
    _row("follower.replication.throttled.replicas", _text, "", "", "replicas whose fetching is throttled as followers"),
    _row("index.interval.bytes", _int(0, _INT_MAX), 4096, "log.index.interval.bytes", "bytes between index entries"),
    _row("leader.replication.throttled.replicas", _text, "", "", "replicas whose fetching is throttled at the leader"),
    _row(
        "max.compaction.lag.ms",
        _long(1),
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "how long a record may stay uncompacted",
    ),
    _row("max.message.bytes", _int(0, _INT_MAX), 1_048_588, "message.max.bytes", "a larger batch is refused"),
    _row(
        "message.timestamp.after.max.ms",
        _long(0),
        LONG_MAX,
        "log.message.timestamp.after.max.ms",
        "how far ahead of the broker a timestamp may be",
    ),
    _row(
        "message.timestamp.before.max.ms",
        _long(0),
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "how far behind the broker a timestamp may be",
    ),
    _row(
        "message.timestamp.type",
        _one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "log.message.timestamp.type",
        "whose time a record carries",
    ),
    _row(
        "min.cleanable.dirty.ratio",
        _ratio,
        "0.5",
        "log.cleaner.min.cleanable.ratio",
        "uncompacted share that makes compaction worth it",
    ),
    _row(
        "min.compaction.lag.ms",
        _long(0),
        0,
        "log.cleaner.min.compaction.lag.ms",
        "how long a record stays uncompacted at least",
    ),
    _row("min.insync.replicas", _int(1, _INT_MAX), 1, "min.insync.replicas", "acks=all needs so many in sync"),
    _row("preallocate", _boolean, "false", "log.preallocate", "give a segment its whole size at once"),
    _row("retention.bytes", _long(-1), -1, "log.retention.bytes", "size above which old segments go; -1: any size"),
    _row(
        "retention.ms",
        _long(-1),
        7 * 24 * _HOUR_MS,
        "log.retention.ms log.retention.minutes log.retention.hours",
        "age above which old segments go; -1: any age",
    ),
    _row("segment.bytes", _int(14, _INT_MAX), 2**30, "log.segment.bytes", "a segment's size"),
    _row("segment.index.bytes", _int(4, _INT_MAX), 10 * 2**20, "log.index.size.max.bytes", "an index's size"),
    _row(
        "segment.jitter.ms",
        _long(0),
        0,
        "log.roll.jitter.ms log.roll.jitter.hours",
        "random part of a segment's age, so that not all roll at once",
    ),
    _row("segment.ms", _long(1), 7 * 24 * _HOUR_MS, "log.roll.ms log.roll.hours", "a segment's age"),
    _row(
        "unclean.leader.election.enable",
        _boolean,
        "false",
        "unclean.leader.election.enable",
        "let a replica outside of the ISR lead",
    ),
)
_BY_NAME = {each.name: each for each in TOPIC_CONFIGS}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Every topic config, read; the fields are the names with dots turned into underscores."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: str
    index_interval_bytes: int
    leader_replication_throttled_replicas: str
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old_segments(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def takes_batches_as_they_are(self) -> bool:
        """A leader has nothing to look for, or to change, in the records themselves."""
        return (
            self.compression_type == "producer"
            and self.message_timestamp_type == "CreateTime"
            and "compact" not in self.cleanup_policy
        )

    @staticmethod
    def of(broker: Mapping[str, str], overrides: Mapping[str, str]) -> LogConfig:
        """``broker``: the texts of a broker's own settings; names that no topic config follows are left alone."""
        for name in overrides:
            if name not in _BY_NAME:
                raise ConfigError(_unknown(name))
        values = {each.field: _value(each, broker, overrides) for each in TOPIC_CONFIGS}
        return LogConfig(**values)

    @staticmethod
    def of_stored(broker: Mapping[str, str], overrides: Mapping[str, str]) -> LogConfig:
        """Of overrides as they stand in ZooKeeper. What is not valid is left out, loudly: whoever wrote it did not ask a
        broker, and no broker may stop for it."""
        valid: dict[str, str] = {}
        for name, text in overrides.items():
            try:
                LogConfig.of(broker, {name: text})
            except ConfigError as problem:
                _log.error("%s=%s is left out: %s", name, text, problem)
            else:
                valid[name] = text
        return LogConfig.of(broker, valid)


def _value(config: TopicConfig, broker: Mapping[str, str], overrides: Mapping[str, str]) -> Any:
    if config.name in overrides:
        return _read(config, config.name, overrides[config.name])
    for synonym, factor in config.synonyms:
        text = broker.get(synonym, "").strip()
        if text:
            # -1 (no limit) has no unit.
            scaled = text if factor == 1 or text == "-1" else str(int(text) * factor)
            return _read(config, synonym, scaled)
    return config.read(config.default)


def _read(config: TopicConfig, name: str, text: str) -> Any:
    try:
        return config.read(text)
    except ValueError as problem:
        raise ConfigError(f"Invalid value {text} for configuration {name}: {problem}") from None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.0)
    return f"Unknown topic config name: {name}; the nearest known one is {near[0]}"
