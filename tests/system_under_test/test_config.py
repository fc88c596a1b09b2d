"""Configuration by Kafka's names: wrong ones are refused with what to change."""

from __future__ import annotations

import pytest

from system_under_test.bugs import Bug
from system_under_test.config import SETTINGS, BrokerConfig, ConfigError, parse_properties


def test_defaults_are_kafkas() -> None:
    config = BrokerConfig({})
    assert config.replica_lag_time_max_ms == 30000
    assert config.min_insync_replicas == 1
    assert config.unclean_leader_election_enable is False
    assert config.log_segment_bytes == 2**30
    assert config.advertised == config.listener_addresses


def test_every_setting_can_be_read_back_from_its_default() -> None:
    config = BrokerConfig({setting.name: setting.default or "" for setting in SETTINGS})
    for setting in SETTINGS:
        getattr(config, setting.name.replace(".", "_"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"min.insync.replica": "2"}, "did you mean 'min.insync.replicas'"),
        ({"min.insync.replicas": "two"}, "min.insync.replicas=two"),
        ({"min.insync.replicas": "0"}, "at least 1"),
        ({"unclean.leader.election.enable": "yes"}, "true or false"),
        ({"listeners": "localhost:9092"}, "NAME://HOST:PORT"),
        ({"listeners": ""}, "at least one"),
        ({"inter.broker.listener.name": "INTERNAL"}, "no listener is called INTERNAL"),
        ({"bugs": "ack-on-appendd"}, "no switch 'ack-on-appendd'"),
        ({"log.dirs": ","}, "at least one folder"),
    ],
)
def test_wrong_settings_say_what_to_change(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig(given)


@pytest.mark.parametrize(
    "name", ["replica.fetch.max.bytes", "replica.fetch.wait.max.ms", "zookeeper.session.timeout.ms"]
)
def test_what_is_sent_as_32_bits_fits_into_them(name: str) -> None:
    """A fetcher ended with its first request, and nothing was replicated."""
    BrokerConfig({name: str(2**31 - 1)})
    with pytest.raises(ConfigError, match=f"{name}=2147483648: must be at most 2147483647"):
        BrokerConfig({name: str(2**31)})


def test_a_file_with_a_wrong_line_is_named_with_its_line() -> None:
    assert parse_properties("# comment\n\nbroker.id = 3\n", "f") == {"broker.id": "3"}
    with pytest.raises(ConfigError, match=r"server.properties:2: unknown setting 'brokerid'; did you mean 'broker.id'"):
        parse_properties("broker.id=1\nbrokerid=1\n", "server.properties")
    with pytest.raises(ConfigError, match=r"f:1: expected name=value"):
        parse_properties("broker.id\n", "f")


def test_bug_switches_are_read() -> None:
    assert BrokerConfig({"bugs": "ack-on-append"}).bug_switches == {Bug.ACK_ON_APPEND}
