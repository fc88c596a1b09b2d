"""Settings of topics and brokers as clients see them: value, where it comes from, what it overrides. No API of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from system_under_test.config import DYNAMIC, SETTINGS, BrokerConfig
from system_under_test.storage.config import TOPIC_CONFIGS, LogConfig, TopicConfig


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class Source(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
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


Layer = tuple[Source, Mapping[str, str]]
"""Texts of settings by name, and where they stand."""


def topic_entries(
    config: BrokerConfig, overrides: Mapping[str, str], own: Mapping[str, str], everybodys: Mapping[str, str]
) -> list[Entry]:
    """Every setting of a topic with these overrides, on a broker with this configuration and these dynamic settings."""
    effective = LogConfig.of_stored(config.effective, overrides)
    layers = _layers(config, own, everybodys)
    return [_topic_entry(each, layers, overrides, getattr(effective, each.field)) for each in TOPIC_CONFIGS]


def _layers(config: BrokerConfig, own: Mapping[str, str], everybodys: Mapping[str, str]) -> list[Layer]:
    """The strongest first."""
    return [
        (Source.DYNAMIC_BROKER, own),
        (Source.DYNAMIC_DEFAULT_BROKER, everybodys),
        (Source.STATIC_BROKER, config.raw),
    ]


def _found(name: str, layers: Iterable[Layer]) -> list[Synonym]:
    return [Synonym(name, texts[name], source) for source, texts in layers if texts.get(name, "").strip()]


def _topic_entry(setting: TopicConfig, layers: list[Layer], overrides: Mapping[str, str], value: object) -> Entry:
    synonyms: list[Synonym] = []
    if setting.name in overrides:
        synonyms.append(Synonym(setting.name, overrides[setting.name], Source.TOPIC))
    for name, _ in setting.synonyms:
        synonyms += _found(name, layers)
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


def broker_entries(config: BrokerConfig, own: Mapping[str, str], everybodys: Mapping[str, str]) -> list[Entry]:
    """Every setting of a broker, whose own dynamic settings and those of all brokers these are."""
    layers = _layers(config, own, everybodys)
    found: list[Entry] = []
    for setting in sorted(SETTINGS, key=lambda each: each.name):
        synonyms = _found(setting.name, layers)
        if setting.default is not None:
            synonyms.append(Synonym(setting.name, setting.default, Source.DEFAULT))
        value = getattr(config, setting.name.replace(".", "_"))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        kind, read_only = _type(setting.name, value), setting.name not in DYNAMIC
        found.append(Entry(setting.name, _text(value), source, read_only, tuple(synonyms), kind, setting.doc))
    return found


def default_entries(everybodys: Mapping[str, str]) -> list[Entry]:
    """What was set for all brokers."""
    source = Source.DYNAMIC_DEFAULT_BROKER
    return [
        Entry(
            each.name,
            text,
            source,
            False,
            (Synonym(each.name, text, source),),
            _type(each.name, each.read(text)),
            each.doc,
        )
        for each in sorted(SETTINGS, key=lambda each: each.name)
        if each.name in DYNAMIC and (text := everybodys.get(each.name)) is not None
    ]


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
