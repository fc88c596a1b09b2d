"""Settings of brokers that change while they run. The codes are those of Apache Kafka 3.9.1, asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from system_under_test.apis import alter_configs
from system_under_test.apis.config_entries import ResourceType
from system_under_test.apis.incremental_alter_configs import Operation
from system_under_test.config import DYNAMIC, SETTINGS
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode
from system_under_test.protocol.messages import Body, Maker
from system_under_test.simulation.cluster import SETTINGS as SETTINGS_FILE
from system_under_test.simulation.world import until
from system_under_test.storage.config import TOPIC_CONFIGS, LogConfig
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.nodes import config_change, config_path, encode_config
from tests.system_under_test.apis.cluster import Brokers, play

T0 = TopicPartition("t", 0)
SEGMENT = int(SETTINGS_FILE["log.segment.bytes"])
SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND
Change = tuple[str, Operation, str | None]


async def change(brokers: Brokers, name: str, *changes: Change, at: int = 2, validate: bool = False) -> ErrorCode:
    """``name`` is a broker's id, or empty for all."""

    def build(make: Maker) -> Body:
        given = tuple(
            make("AlterableConfig", name=each, config_operation=int(operation), value=value)
            for each, operation, value in changes
        )
        resource = make("AlterConfigsResource", resource_type=ResourceType.BROKER, resource_name=name, configs=given)
        return make.root(resources=(resource,), validate_only=validate)

    (answer,) = (await brokers.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, build, at)).responses
    found: ErrorCode = answer.error_code
    return found


async def described(brokers: Brokers, name: str, kind: int = ResourceType.BROKER, at: int = 2) -> dict[str, Body]:
    def build(make: Maker) -> Body:
        resource = make("DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=None)
        return make.root(resources=(resource,), include_synonyms=True, include_documentation=False)

    (answer,) = (await brokers.ask(ApiKey.DESCRIBE_CONFIGS, 4, build, at)).results
    assert answer.error_code is ErrorCode.none
    return {each.name: each for each in answer.configs}


def sources(entry: Body) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def log_config(brokers: Brokers, broker_id: int) -> LogConfig:
    found = brokers.broker(broker_id).context.logs.get(T0)
    assert found is not None
    return found.config


def in_sync(brokers: Brokers) -> tuple[int, ...]:
    state = brokers.cluster.state(T0)
    assert state is not None
    return state.isr


async def reaches(brokers: Brokers, wanted: dict[int, int], of: Callable[[LogConfig], int]) -> None:
    """Until the logs of these brokers have this."""
    await until(
        lambda: all(of(log_config(brokers, each)) == value for each, value in wanted.items()),
        10,
        f"{wanted} in the logs' settings",
    )


def test_one_broker_and_all_brokers_while_they_run() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3)
        assert await change(brokers, "", ("log.segment.bytes", SET, "6000")) is ErrorCode.none
        await reaches(brokers, {1: 6000, 2: 6000, 3: 6000}, lambda config: config.segment_bytes)
        assert await change(brokers, "2", ("log.segment.bytes", SET, "7000")) is ErrorCode.none
        await reaches(brokers, {1: 6000, 2: 7000, 3: 6000}, lambda config: config.segment_bytes)
        entry = (await described(brokers, "2"))["log.segment.bytes"]
        assert (entry.value, entry.config_source, entry.read_only) == ("7000", 2, False)
        assert sources(entry) == [
            ("log.segment.bytes", "7000", 2),
            ("log.segment.bytes", "6000", 3),
            ("log.segment.bytes", SETTINGS_FILE["log.segment.bytes"], 4),
            ("log.segment.bytes", "1073741824", 5),
        ]
        assert {name: each.value for name, each in (await described(brokers, "")).items()} == {
            "log.segment.bytes": "6000"
        }
        topic = (await described(brokers, "t", ResourceType.TOPIC))["segment.bytes"]
        assert (topic.value, topic.config_source) == ("7000", 2)
        assert await change(brokers, "2", ("log.segment.bytes", DELETE, None)) is ErrorCode.none
        await reaches(brokers, {2: 6000}, lambda config: config.segment_bytes)
        assert await change(brokers, "", ("log.segment.bytes", DELETE, None)) is ErrorCode.none
        await reaches(brokers, {1: SEGMENT, 2: SEGMENT, 3: SEGMENT}, lambda config: config.segment_bytes)

    play(scenario)


def test_a_topics_own_setting_stays_above() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3, segment_bytes="5000")
        assert (
            await change(brokers, "", ("log.segment.bytes", SET, "6000"), ("message.max.bytes", SET, "3000"))
            is ErrorCode.none
        )
        await reaches(brokers, {1: 3000, 2: 3000, 3: 3000}, lambda config: config.max_message_bytes)
        assert [log_config(brokers, each).segment_bytes for each in (1, 2, 3)] == [5000] * 3

    play(scenario)


def test_a_new_topic_and_a_broker_that_starts_have_them() -> None:
    async def scenario(brokers: Brokers) -> None:
        assert await change(brokers, "", ("message.max.bytes", SET, "3000")) is ErrorCode.none
        await until(
            lambda: all(brokers.broker(each).config.message_max_bytes == 3000 for each in (1, 2, 3)),
            10,
            "every broker has heard of it",
        )
        await brokers.create("t", 1, 3)
        await reaches(brokers, {1: 3000, 2: 3000, 3: 3000}, lambda config: config.max_message_bytes)
        victim = brokers.other
        brokers.cluster.host(victim).kill()
        await until(lambda: len(in_sync(brokers)) == 2, 60, "it is out of the ISR")
        brokers.cluster.start(victim)
        await until(lambda: len(in_sync(brokers)) == 3, 60, "it is back")
        assert log_config(brokers, victim).max_message_bytes == 3000

    play(scenario)


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("2", [("broker.id", SET, "7")], ErrorCode.invalid_request),
        ("2", [("log.retention.hours", SET, "7")], ErrorCode.invalid_request),
        ("2", [("no.such.name", SET, "7")], ErrorCode.invalid_config),
        ("2", [("message.max.bytes", SET, "x")], ErrorCode.invalid_request),
        ("2", [("message.max.bytes", SET, "-5")], ErrorCode.invalid_request),
        ("2", [("min.insync.replicas", SET, "0")], ErrorCode.invalid_request),
        ("2", [("unclean.leader.election.enable", SET, "maybe")], ErrorCode.invalid_request),
        ("2", [("log.cleanup.policy", SET, "burn")], ErrorCode.invalid_request),
        ("2", [("log.retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ("2", [("log.retention.ms", SET, None)], ErrorCode.invalid_request),
        ("9", [("log.retention.ms", SET, "1")], ErrorCode.invalid_request),
        ("x", [("log.retention.ms", SET, "1")], ErrorCode.invalid_request),
        ("", [("broker.id", DELETE, None)], ErrorCode.none),
        ("2", [("log.cleanup.policy", APPEND, "compact")], ErrorCode.none),
    ],
)
def test_what_is_refused(name: str, changes: Sequence[Change], code: ErrorCode) -> None:
    async def scenario(brokers: Brokers) -> None:
        assert await change(brokers, name, *changes, validate=True) is code
        assert await change(brokers, name, *changes) is code
        kept = {} if code is not ErrorCode.none or not name else {"log.cleanup.policy": "delete,compact"}
        own = brokers.broker(2).configs
        await own.refresh_brokers(["2", "<default>"])
        assert (dict(own.broker("2")), dict(own.broker("<default>"))) == (kept, {})

    play(scenario)


def test_all_are_replaced_by_alter_configs() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3)
        for version in alter_configs.VERSIONS:

            def build(make: Maker, version: int = version) -> Body:
                name = ("log.segment.bytes", "message.max.bytes", "log.segment.bytes")[version]
                given = (make("AlterableConfig", name=name, value="4000"),)
                resource = make(
                    "AlterConfigsResource", resource_type=ResourceType.BROKER, resource_name="2", configs=given
                )
                return make.root(resources=(resource,), validate_only=False)

            (answer,) = (await brokers.ask(ApiKey.ALTER_CONFIGS, version, build, 2)).responses
            assert answer.error_code is ErrorCode.none
            segment, message = (4000, 1_048_588) if version != 1 else (SEGMENT, 4000)
            await reaches(brokers, {2: segment}, lambda config: config.segment_bytes)
            await reaches(brokers, {2: message}, lambda config: config.max_message_bytes)

    play(scenario)


def test_unclean_election_turned_on_by_default_brings_back_what_is_offline() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 2)
        cluster = brokers.cluster
        state = cluster.state(T0)
        assert state is not None
        last, first = state.leader, next(each for each in state.isr if each != state.leader)
        cluster.host(first).kill()
        await until(lambda: (cluster.state(T0) or state).isr == (last,), 60, "one replica is left in the ISR")
        cluster.start(first)
        cluster.host(last).kill()
        await until(lambda: (cluster.state(T0) or state).leader == -1, 60, "the partition is offline")
        alive = next(each for each in cluster.running() if each != last)
        assert await change(brokers, "", ("unclean.leader.election.enable", SET, "true"), at=alive) is ErrorCode.none
        await until(lambda: (cluster.state(T0) or state).leader == first, 30, "a replica from outside of the ISR leads")

    play(scenario, replica_fetch_backoff_ms="30000")


def test_what_another_wrote_and_is_not_valid_is_left_out() -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3)
        zookeeper = brokers.broker(2).sessions.current
        settings = {"log.segment.bytes": "many", "message.max.bytes": "3000", "broker.id": "5"}
        await zookeeper.create(config_path("brokers/2"), encode_config(settings))
        await zookeeper.create(*config_change("brokers/2"), sequential=True)
        await reaches(brokers, {2: 3000}, lambda config: config.max_message_bytes)
        assert log_config(brokers, 2).segment_bytes == SEGMENT
        assert brokers.broker(2).config.broker_id == 2
        # It does not keep others from changing the rest.
        assert await change(brokers, "2", ("message.max.bytes", SET, "4000")) is ErrorCode.none

    play(scenario)


def test_dynamic_are_the_defaults_of_topics() -> None:
    """As in Kafka: of the settings that give a topic's default, the strongest, where the broker has it."""
    known = {each.name for each in SETTINGS}
    assert {each.synonyms[0][0] for each in TOPIC_CONFIGS if each.synonyms} & known == DYNAMIC


@pytest.mark.parametrize("name", ["--2", "-", "\N{SUPERSCRIPT TWO}", "two", "2-"])
def test_a_broker_is_named_by_an_integer(name: str) -> None:
    """Whatever else it is named by, it answers, and the connection goes on."""

    async def scenario(brokers: Brokers) -> None:
        assert await change(brokers, name, ("log.segment.bytes", SET, "6000")) is ErrorCode.invalid_request
        assert await change(brokers, "2", ("log.segment.bytes", SET, "6000")) is ErrorCode.none

    play(scenario)


def test_a_topics_setting_that_nobody_checked_is_left_out_and_keeps_nothing_from_being_changed() -> None:
    """Written by a tool that knows other names, or none of the limits: brokers start with it, and go on with it."""

    async def scenario(brokers: Brokers) -> None:
        await brokers.create("t", 1, 3)
        zookeeper = brokers.broker(1).sessions.current
        written = {"remote.storage.enable": "true", "segment.bytes": "much", "retention.ms": "77"}
        await zookeeper.set(config_path("topics/t"), encode_config(written))
        await zookeeper.create(*config_change("topics/t"), sequential=True)
        await reaches(brokers, {1: 77, 2: 77, 3: 77}, lambda config: config.retention_ms)
        assert log_config(brokers, 1).segment_bytes == SEGMENT
        assert await change(brokers, "", ("log.index.interval.bytes", SET, "333")) is ErrorCode.none
        await reaches(brokers, {1: 333, 2: 333, 3: 333}, lambda config: config.index_interval_bytes)
        entries = await described(brokers, "t", ResourceType.TOPIC)
        assert (entries["retention.ms"].value, entries["segment.bytes"].value) == ("77", str(SEGMENT))
        victim = brokers.other
        await brokers.cluster.stop(victim)
        brokers.cluster.start(victim)
        await until(lambda: victim in in_sync(brokers), 30, "a broker that started with it")
        assert log_config(brokers, victim).retention_ms == 77

    play(scenario)
