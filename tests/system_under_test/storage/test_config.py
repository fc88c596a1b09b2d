"""Topic configs: the broker's defaults beneath, the topic's own values above, mistakes named."""

from __future__ import annotations

from dataclasses import fields

import pytest

from system_under_test.config import SETTINGS
from system_under_test.storage.config import TOPIC_CONFIGS, ConfigError, LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig.of({}, {})
    assert config.segment_bytes == 1073741824
    assert config.retention_ms == 604800000
    assert config.segment_ms == 604800000
    assert config.max_message_bytes == 1048588
    assert config.flush_messages == config.flush_ms == 2**63 - 1
    assert config.cleanup_policy == ("delete",)
    assert not config.unclean_leader_election_enable


def test_the_table_and_the_fields_are_the_same() -> None:
    assert [each.field for each in TOPIC_CONFIGS] == [each.name for each in fields(LogConfig)]


def test_the_brokers_own_defaults_agree_with_the_table() -> None:
    defaults = {each.name: each.default for each in SETTINGS if each.default is not None}
    assert LogConfig.of(defaults, {}) == LogConfig.of({}, {})


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": ""}, 604_800_000),
    ],
)
def test_the_finest_unit_wins(broker: dict[str, str], expected: int) -> None:
    assert LogConfig.of(broker, {}).retention_ms == expected
    assert LogConfig.of(broker, {"retention.ms": "77"}).retention_ms == 77


def test_flush_ms_falls_back_to_the_scheduler() -> None:
    assert LogConfig.of({"log.flush.scheduler.interval.ms": "500"}, {}).flush_ms == 500


def test_both_policies() -> None:
    config = LogConfig.of({}, {"cleanup.policy": "compact, delete"})
    assert config.is_compacted
    assert config.deletes_old_segments


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"retention\.mss.*nearest known one is retention\.ms"):
        LogConfig.of({}, {"retention.mss": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "many"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("preallocate", "yes"),
        ("compression.type", "brotli"),
        ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.5"),
    ],
)
def test_invalid_values_name_their_config(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {value} for configuration {name}"):
        LogConfig.of({}, {name: value})
