"""A broker's configuration: Kafka's names and defaults, from a file in the style of ``server.properties``.

One table (:data:`SETTINGS`) defines every name. Attributes are the names with dots turned into underscores:
``config.replica_lag_time_max_ms``. An unknown name is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from system_under_test.bugs import Bug


class ConfigError(ValueError):
    """What is wrong with a configuration, and what to change."""


def _bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("must be true or false")
    return lowered == "true"


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _text(text: str) -> str:
    return text.strip()


def _optional_int(text: str) -> int | None:
    return int(text) if text.strip() else None


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    read: Callable[[str], Any]
    default: str | None
    """None: it must be given."""
    doc: str
    least: int | None = None


INT_MAX = 2**31 - 1
_ON_THE_WIRE = frozenset(
    {
        "replica.fetch.wait.max.ms",
        "replica.fetch.min.bytes",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "broker.id",
        "zookeeper.session.timeout.ms",
    }
)
"""Sent to others as 32 bits, and so read in Kafka: a larger number is refused here, not by the first request."""

_I = int
SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", _I, "-1", "this broker's number; -1: one is generated and kept in meta.properties", -1),
    Setting("reserved.broker.max.id", _I, "1000", "generated numbers begin above it", 0),
    Setting("listeners", _list, "PLAINTEXT://127.0.0.1:9092", "where to listen, NAME://HOST:PORT"),
    Setting("advertised.listeners", _list, "", "what clients are told; empty: the listeners themselves"),
    Setting("inter.broker.listener.name", _text, "PLAINTEXT", "the listener that brokers use among themselves"),
    Setting("broker.rack", _text, "", "the rack that this broker stands in"),
    Setting("log.dirs", _list, "/tmp/kafka-logs", "folders for data, separated by commas"),
    Setting("zookeeper.connect", _text, "127.0.0.1:2181", "ZooKeeper's HOST:PORT,…, with an optional /chroot"),
    Setting("zookeeper.session.timeout.ms", _I, "18000", "after so much silence ZooKeeper declares the broker dead", 1),
    Setting("zookeeper.connection.timeout.ms", _optional_int, "", "how long to wait for ZooKeeper at the start"),
    Setting("auto.create.topics.enable", _bool, "true", "make a topic that a client asks for"),
    Setting("delete.topic.enable", _bool, "true", "allow the deletion of topics"),
    Setting("num.partitions", _I, "1", "partitions of a topic that does not say", 1),
    Setting("default.replication.factor", _I, "1", "replicas of a partition that does not say", 1),
    Setting("min.insync.replicas", _I, "1", "acks=all needs so many replicas in sync", 1),
    Setting("unclean.leader.election.enable", _bool, "false", "let a replica outside of the ISR lead"),
    Setting("auto.leader.rebalance.enable", _bool, "true", "give leadership back to preferred replicas"),
    Setting("leader.imbalance.per.broker.percentage", _I, "10", "how much imbalance is left alone", 0),
    Setting("leader.imbalance.check.interval.seconds", _I, "300", "how often balance is looked at", 1),
    Setting("replica.lag.time.max.ms", _I, "30000", "a follower that was not caught up for so long leaves the ISR", 1),
    Setting("replica.lag.max.messages", _optional_int, "", "a follower further behind leaves the ISR (the older rule)"),
    Setting("replica.fetch.wait.max.ms", _I, "500", "how long a follower's fetch waits for data", 0),
    Setting("replica.fetch.min.bytes", _I, "1", "a follower's fetch waits for so many bytes", 0),
    Setting("replica.fetch.max.bytes", _I, "1048576", "bytes per partition in a follower's fetch", 1),
    Setting("replica.fetch.response.max.bytes", _I, "10485760", "bytes in all of a follower's fetch", 1),
    Setting("replica.fetch.backoff.ms", _I, "1000", "pause after a failed fetch", 0),
    Setting("replica.socket.timeout.ms", _I, "30000", "how long an answer of another broker is waited for", 1),
    Setting("replica.high.watermark.checkpoint.interval.ms", _I, "5000", "how often high watermarks go to disk", 1),
    Setting("controller.socket.timeout.ms", _I, "30000", "how long the controller waits for a broker's answer", 1),
    Setting("controlled.shutdown.enable", _bool, "true", "hand leadership over before stopping"),
    Setting("controlled.shutdown.max.retries", _I, "3", "how often that is tried", 0),
    Setting("controlled.shutdown.retry.backoff.ms", _I, "5000", "pause between tries", 0),
    Setting("socket.request.max.bytes", _I, "104857600", "a larger request closes its connection", 1),
    Setting("fetch.max.bytes", _I, "57671680", "bytes in all of a consumer's fetch", 1024),
    Setting("max.incremental.fetch.session.cache.slots", _I, "1000", "fetch sessions kept", 0),
    Setting("message.max.bytes", _I, "1048588", "a larger batch is refused", 0),
    Setting("log.segment.bytes", _I, "1073741824", "a segment's size", 14),
    Setting("log.roll.ms", _optional_int, "", "a segment's age; empty: log.roll.hours"),
    Setting("log.roll.hours", _I, "168", "a segment's age", 1),
    Setting("log.roll.jitter.ms", _optional_int, "", "random part of the age"),
    Setting("log.roll.jitter.hours", _I, "0", "random part of the age", 0),
    Setting("log.index.interval.bytes", _I, "4096", "bytes between entries of an index", 0),
    Setting("log.index.size.max.bytes", _I, "10485760", "an index's size", 4),
    Setting("log.flush.interval.messages", _I, "9223372036854775807", "sync after so many records", 1),
    Setting("log.flush.interval.ms", _optional_int, "", "sync after so long"),
    Setting("log.flush.scheduler.interval.ms", _I, "9223372036854775807", "how often that is looked at", 1),
    Setting("log.flush.offset.checkpoint.interval.ms", _I, "60000", "how often recovery points go to disk", 1),
    Setting("log.flush.start.offset.checkpoint.interval.ms", _I, "60000", "how often log starts go to disk", 1),
    Setting("log.retention.bytes", _I, "-1", "size above which old segments go", -1),
    Setting("log.retention.ms", _optional_int, "", "age above which old segments go; empty: minutes, then hours"),
    Setting("log.retention.minutes", _optional_int, "", "age above which old segments go"),
    Setting("log.retention.hours", _I, "168", "age above which old segments go", -1),
    Setting("log.retention.check.interval.ms", _I, "300000", "how often that is looked at", 1),
    Setting("log.segment.delete.delay.ms", _I, "60000", "how long a deleted segment's file stays", 0),
    Setting("log.cleanup.policy", _list, "delete", "delete, compact"),
    Setting("log.cleaner.delete.retention.ms", _I, "86400000", "how long tombstones stay", 0),
    Setting("log.preallocate", _bool, "false", "give a segment its whole size at once"),
    Setting("log.message.timestamp.type", _text, "CreateTime", "CreateTime or LogAppendTime"),
    Setting("log.message.timestamp.before.max.ms", _I, "9223372036854775807", "how old a timestamp may be", 0),
    Setting("log.message.timestamp.after.max.ms", _I, "9223372036854775807", "how far ahead a timestamp may be", 0),
    Setting("compression.type", _text, "producer", "producer: as it comes"),
    Setting("offsets.topic.num.partitions", _I, "50", "partitions of __consumer_offsets", 1),
    Setting("offsets.topic.replication.factor", _I, "3", "its replicas", 1),
    Setting("producer.id.expiration.ms", _I, "86400000", "a producer silent for so long is forgotten", 1),
    Setting("producer.id.expiration.check.interval.ms", _I, "600000", "how often that is looked at", 1),
    Setting("queued.max.requests", _I, "500", "unanswered requests of one connection", 1),
    Setting("connections.max.idle.ms", _I, "600000", "an idle connection is closed after so long"),
    Setting("metrics.port", _I, "-1", "port for Prometheus on the listeners' host; -1: none, 0: any", -1),
    Setting("bugs", _list, "", "bug switches; refused without --unsafe-bugs"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}

DYNAMIC = frozenset(
    {
        "compression.type",
        "log.cleaner.delete.retention.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "message.max.bytes",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""What can be changed while a broker runs, as in Kafka: the defaults of topics' configurations. (Kafka can also change
listeners, threads and security, which are not here or not changeable.)"""


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    name: str
    host: str
    port: int


class BrokerConfig:
    """Settings by attribute, as read; :attr:`raw` has the texts that were given.

    Whoever holds it sees dynamic settings change: :meth:`set_dynamic` is the broker's alone.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        unknown = sorted(name for name in given if name not in _BY_NAME)
        if unknown:
            raise ConfigError(unknown_setting(unknown[0]))
        self.raw: Mapping[str, str] = dict(given)
        self.effective: Mapping[str, str] = self.raw
        """With the dynamic settings above them."""
        self._values: dict[str, Any] = {}
        for setting in SETTINGS:
            self._values[setting.name.replace(".", "_")] = _read(setting, given.get(setting.name, setting.default))
        self.bug_switches = frozenset(_bug(name) for name in self.bugs)
        self.listener_addresses = tuple(_address("listeners", each) for each in self.listeners)
        advertised = self.advertised_listeners or self.listeners
        self.advertised = tuple(_address("advertised.listeners", each) for each in advertised)
        if not self.listener_addresses:
            raise ConfigError("listeners: at least one is needed, such as PLAINTEXT://127.0.0.1:9092")
        if self.inter_broker_listener_name not in {each.name for each in self.advertised}:
            raise ConfigError(
                f"inter.broker.listener.name: no listener is called {self.inter_broker_listener_name}; "
                f"there are {', '.join(each.name for each in self.advertised)}"
            )
        if not self.log_dirs:
            raise ConfigError("log.dirs: at least one folder is needed")

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"there is no setting {name.replace('_', '.')!r}") from None

    def set_dynamic(self, given: Mapping[str, str]) -> None:
        """Replace all dynamic settings; ``given`` has been checked."""
        assert given.keys() <= DYNAMIC, given
        effective = {**self.raw, **given}
        read = {name: _read(_BY_NAME[name], effective.get(name, _BY_NAME[name].default)) for name in DYNAMIC}
        self.effective = effective
        self._values.update({name.replace(".", "_"): value for name, value in read.items()})

    def with_changes(self, changes: Mapping[str, str]) -> BrokerConfig:
        return BrokerConfig({**self.raw, **changes})


def parse_properties(text: str, source: str) -> dict[str, str]:
    """``name=value`` lines; ``#`` and ``!`` begin comments."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = stripped.partition("=")
        if not equals:
            raise ConfigError(f"{source}:{number}: expected name=value, got {stripped!r}")
        name = name.strip()
        if name not in _BY_NAME:
            raise ConfigError(f"{source}:{number}: {unknown_setting(name)}")
        found[name] = value.strip()
    return found


def is_setting(name: str) -> bool:
    return name in _BY_NAME


def unknown_setting(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.5)
    return f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _read(setting: Setting, text: str | None) -> Any:
    if text is None:
        raise ConfigError(f"{setting.name}: {setting.doc}; it must be given")
    try:
        value = setting.read(text)
    except ValueError as error:
        raise ConfigError(f"{setting.name}={text}: {error}") from None
    if setting.least is not None and value is not None and value < setting.least:
        raise ConfigError(f"{setting.name}={text}: must be at least {setting.least}")
    if setting.name in _ON_THE_WIRE and value > INT_MAX:
        raise ConfigError(f"{setting.name}={text}: must be at most {INT_MAX}")
    return value


def _bug(name: str) -> Bug:
    try:
        return Bug(name)
    except ValueError:
        raise ConfigError(f"bugs: no switch {name!r}; there are {', '.join(bug.value for bug in Bug)}") from None


def _address(setting: str, text: str) -> ListenerAddress:
    name, separator, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    if not separator or not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{setting}: expected NAME://HOST:PORT, got {text!r}")
    return ListenerAddress(name, host.strip("[]"), int(port))
