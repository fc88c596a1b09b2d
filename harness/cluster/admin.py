"""What a person does to a cluster, through Kafka's own admin APIs; the answers in the familiar words of its tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.cluster.wire import WireClient, connect, connect_controller
from harness.exits import UsageError
from harness.targets.base import TargetError
from system_under_test.protocol.api import ApiKey
from system_under_test.protocol.errors import ErrorCode

TIMEOUT = timedelta(seconds=30)
TOPIC, BROKER = 2, 4
"""Types of a configuration resource."""
SET, UNSET = 0, 1
"""Operations on a configuration."""
ELECTIONS = {"preferred": 0, "unclean": 1}


class Admin:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    # -- topics

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        api = ApiKey.CREATE_TOPICS

        def ask(client: WireClient) -> Any:
            entries = tuple(
                client.make(api, "CreatableTopicConfig", name=each, value=value) for each, value in configs.items()
            )
            topic = client.make(
                api,
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=(),
                configs=entries,
            )
            return client.request(api, topics=(topic,), timeout=TIMEOUT, validate_only=False)

        _refuse(self._of_controller(ask).topics, lambda each: f"topic {each.name}")

    def delete_topic(self, name: str) -> None:
        api = ApiKey.DELETE_TOPICS

        def ask(client: WireClient) -> Any:
            topic = client.make(api, "DeleteTopicState", name=name, topic_id=None)
            return client.request(api, topics=(topic,), timeout=TIMEOUT)

        _refuse(self._of_controller(ask).responses, lambda each: f"topic {each.name}")

    def add_partitions(self, name: str, count: int) -> None:
        api = ApiKey.CREATE_PARTITIONS

        def ask(client: WireClient) -> Any:
            topic = client.make(api, "CreatePartitionsTopic", name=name, count=count, assignments=None)
            return client.request(api, topics=(topic,), timeout=TIMEOUT, validate_only=False)

        _refuse(self._of_controller(ask).results, lambda each: f"topic {each.name}")

    def topics(self) -> list[str]:
        return sorted(topic.name for topic in self._metadata(None).topics)

    def describe_topics(self, names: Iterable[str]) -> Iterator[str]:
        """As ``kafka-topics.sh --describe`` prints it."""
        wanted = sorted(names)
        metadata = self._metadata(wanted or None)
        for topic in sorted(metadata.topics, key=lambda each: str(each.name)):
            if topic.error_code is not ErrorCode.none:
                raise TargetError(f"topic {topic.name}: {topic.error_code.name}")
            partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
            factor = len(partitions[0].replica_nodes) if partitions else 0
            configs = ",".join(f"{name}={value}" for name, value in self._overrides(TOPIC, topic.name))
            yield (
                f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(partitions)}\t"
                f"ReplicationFactor: {factor}\tConfigs: {configs}"
            )
            for each in partitions:
                leader = each.leader_id if each.leader_id >= 0 else "none"
                yield (
                    f"\tTopic: {topic.name}\tPartition: {each.partition_index}\tLeader: {leader}\t"
                    f"Replicas: {_joined(each.replica_nodes)}\tIsr: {_joined(each.isr_nodes)}"
                )

    # -- configurations

    def describe_configs(self, kind: int, name: str) -> list[tuple[str, str]]:
        """What was set for this resource itself."""
        return self._overrides(kind, name)

    def alter_configs(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """None removes an override."""
        api = ApiKey.INCREMENTAL_ALTER_CONFIGS

        def ask(client: WireClient) -> Any:
            entries = tuple(
                client.make(
                    api, "AlterableConfig", name=each, config_operation=UNSET if value is None else SET, value=value
                )
                for each, value in changes.items()
            )
            resource = client.make(api, "AlterConfigsResource", resource_type=kind, resource_name=name, configs=entries)
            return client.request(api, resources=(resource,), validate_only=False)

        answer = self._of_broker(int(name), ask) if kind == BROKER and name else self._of_controller(ask)
        _refuse(answer.responses, lambda each: each.resource_name or "all brokers")

    def _overrides(self, kind: int, name: str) -> list[tuple[str, str]]:
        api = ApiKey.DESCRIBE_CONFIGS

        def ask(client: WireClient) -> Any:
            resource = client.make(
                api, "DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=None
            )
            return client.request(api, resources=(resource,), include_synonyms=False)

        answer = self._of_broker(int(name) if kind == BROKER and name else None, ask)
        (result,) = answer.results
        if result.error_code is not ErrorCode.none:
            raise TargetError(f"{name}: {result.error_code.name}: {result.error_message or ''}".rstrip(": "))
        # Of a topic, of all brokers, or of this one: not what it inherits.
        source = 1 if kind == TOPIC else 2 if name else 3
        return sorted((each.name, each.value) for each in result.configs if each.config_source == source)

    # -- leaders and replicas

    def elect(self, kind: str, partitions: Mapping[str, tuple[int, ...]] | None) -> Iterator[str]:
        api = ApiKey.ELECT_LEADERS

        def ask(client: WireClient) -> Any:
            wanted = None
            if partitions is not None:
                wanted = tuple(
                    client.make(api, "TopicPartitions", topic=topic, partitions=numbers)
                    for topic, numbers in sorted(partitions.items())
                )
            return client.request(api, election_type=ELECTIONS[kind], topic_partitions=wanted, timeout=TIMEOUT)

        answer = self._of_controller(ask)
        if answer.error_code is not ErrorCode.none:
            raise TargetError(f"the election was refused: {answer.error_code.name}")
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                where = f"{topic.topic}-{each.partition_id}"
                if each.error_code is ErrorCode.none:
                    yield f"Successfully completed leader election ({kind.upper()}) for partition {where}"
                elif each.error_code is ErrorCode.election_not_needed:
                    yield f"Valid replica already elected for partition {where}"
                else:
                    yield f"Error completing leader election ({kind.upper()}) for partition {where}: {each.error_code.name}"

    def reassign(self, document: Mapping[str, Mapping[int, tuple[int, ...] | None]]) -> None:
        """New replicas by topic and partition; None cancels what is under way."""
        api = ApiKey.ALTER_PARTITION_REASSIGNMENTS

        def ask(client: WireClient) -> Any:
            topics = tuple(
                client.make(
                    api,
                    "ReassignableTopic",
                    name=topic,
                    partitions=tuple(
                        client.make(api, "ReassignablePartition", partition_index=number, replicas=replicas)
                        for number, replicas in sorted(partitions.items())
                    ),
                )
                for topic, partitions in sorted(document.items())
            )
            return client.request(api, topics=topics, timeout=TIMEOUT)

        answer = self._of_controller(ask)
        if answer.error_code is not ErrorCode.none:
            raise TargetError(f"the reassignment was refused: {answer.error_code.name}: {answer.error_message or ''}")
        for topic in answer.responses:
            _refuse(topic.partitions, lambda each, name=topic.name: f"{name}-{each.partition_index}")

    def reassignments(self) -> Iterator[str]:
        """As ``kafka-reassign-partitions.sh --list`` prints it."""
        api = ApiKey.LIST_PARTITION_REASSIGNMENTS
        answer = self._of_controller(lambda client: client.request(api, topics=None, timeout=TIMEOUT))
        yield "Current partition reassignments:" if answer.topics else "No partition reassignments found."
        for topic in answer.topics:
            for each in topic.partitions:
                adding = f" Adding replicas: {_joined(each.adding_replicas)}." if each.adding_replicas else ""
                removing = f" Removing replicas: {_joined(each.removing_replicas)}." if each.removing_replicas else ""
                replicas = _joined(each.replicas)
                yield f"{topic.name}-{each.partition_index}: replicas: {replicas}.{adding}{removing}"

    # -- common

    def _metadata(self, names: list[str] | None) -> Any:
        client = connect(self._bootstrap)
        try:
            wanted = None
            if names is not None:
                wanted = tuple(
                    client.make(ApiKey.METADATA, "MetadataRequestTopic", name=name, topic_id=None) for name in names
                )
            return client.metadata(wanted)
        finally:
            client.close()

    def _of_broker(self, broker: int | None, ask: Any) -> Any:
        """Of this broker, which alone speaks for its own settings; None: of any."""
        client = connect(self._bootstrap)
        try:
            if broker is not None:
                nodes = {each.node_id: (each.host, each.port) for each in client.metadata(()).brokers}
                if broker not in nodes:
                    raise TargetError(f"broker {broker} is not there; there are {_joined(sorted(nodes))}")
                client.close()
                client = WireClient(*nodes[broker])
            return ask(client)
        finally:
            client.close()

    def _of_controller(self, ask: Any) -> Any:
        client = connect_controller(self._bootstrap)
        try:
            return ask(client)
        finally:
            client.close()


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _refuse(results: Iterable[Any], name: Any) -> None:
    """Raise for the first result that is an error."""
    for each in results:
        if each.error_code is not ErrorCode.none:
            message = getattr(each, "error_message", None)
            raise TargetError(f"{name(each)}: {each.error_code.name}" + (f": {message}" if message else ""))


def read_reassignment(path: Path) -> dict[str, dict[int, tuple[int, ...] | None]]:
    """Kafka's file: ``{"version": 1, "partitions": [{"topic": …, "partition": …, "replicas": [...]}]}``."""
    try:
        document = json.loads(path.read_text())
        found: dict[str, dict[int, tuple[int, ...] | None]] = {}
        for each in document["partitions"]:
            found.setdefault(str(each["topic"]), {})[int(each["partition"])] = tuple(map(int, each["replicas"]))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: not a reassignment ({type(error).__name__}: {error}); expected "
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        ) from None
    return found
