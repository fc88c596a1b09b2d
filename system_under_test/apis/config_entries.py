"""Settings of topics and brokers as clients see them: value, where it comes from, what it overrides. No API of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from system_under_test.config import SETTINGS, BrokerConfig
from system_under_test.storage.config import TOPIC_CONFIGS, LogConfig, TopicConfig


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class Source(IntEnum):
    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    value: str | None
    source: Source
    read_only: bool
    synonyms: tuple[Synonym, ...]
    """Every place that sets it, the strongest first."""
    type: ConfigType
    doc: str


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Entry]:
    """Every setting of a topic with these overrides, on a broker with this configuration."""
    effective = LogConfig.of(config.raw, overrides)
    return [_topic_entry(each, config.raw, overrides, getattr(effective, each.field)) for each in TOPIC_CONFIGS]


def _topic_entry(setting: TopicConfig, broker: Mapping[str, str], overrides: Mapping[str, str], value: object) -> Entry:
    synonyms: list[Synonym] = []
    if setting.name in overrides:
        synonyms.append(Synonym(setting.name, overrides[setting.name], Source.TOPIC))
    for name, _ in setting.synonyms:
        if broker.get(name, "").strip():
            synonyms.append(Synonym(name, broker[name], Source.STATIC_BROKER))
    default_name = setting.synonyms[-1][0] if setting.synonyms else setting.name
    synonyms.append(Synonym(default_name, setting.default, Source.DEFAULT))
    return Entry(
        setting.name,
        _text(value),
        synonyms[0].source,
        False,
        tuple(synonyms),
        _type(setting.name, value),
        setting.doc,
    )


def broker_entries(config: BrokerConfig) -> list[Entry]:
    """Every setting of a broker. None of them can be changed while it runs."""
    found: list[Entry] = []
    for setting in sorted(SETTINGS, key=lambda each: each.name):
        synonyms = []
        if setting.name in config.raw:
            synonyms.append(Synonym(setting.name, config.raw[setting.name], Source.STATIC_BROKER))
        if setting.default is not None:
            synonyms.append(Synonym(setting.name, setting.default, Source.DEFAULT))
        value = getattr(config, setting.name.replace(".", "_"))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        kind = _type(setting.name, value)
        found.append(Entry(setting.name, _text(value), source, True, tuple(synonyms), kind, setting.doc))
    return found


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


_LONG_ENDINGS = (".ms", "retention.bytes", "flush.messages", "interval.messages")
"""Numbers that Kafka reads as 64 bits: times, and limits that may be absent."""


def _type(name: str, value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    if isinstance(value, int) or (value is None and name.endswith(_LONG_ENDINGS)):
        return ConfigType.LONG if name.endswith(_LONG_ENDINGS) else ConfigType.INT
    if isinstance(value, float):
        return ConfigType.DOUBLE
    return ConfigType.LIST if isinstance(value, tuple) else ConfigType.STRING
