"""Topics in ZooKeeper: what may be created, and the writes that make, grow and doom a topic.

A topic is made by writing its overrides to ``/config/topics/T`` and its replicas to ``/brokers/topics/T`` at once; the
controller sees the new node and does the rest. It is doomed by a node in ``/admin/delete_topics``, which the controller
removes together with the topic when every replica is gone. Validation has Kafka's rules and error codes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from system_under_test.protocol.errors import ApiError, ErrorCode
from system_under_test.world import BadVersion, Coordination, Create, NodeExists, NoNode, SetData
from system_under_test.zookeeper import nodes
from system_under_test.zookeeper.assignment import assign_replicas
from system_under_test.zookeeper.nodes import TopicAssignment

MAX_NAME_LENGTH = 249
MOST_NEW_PARTITIONS = 10_000
"""In one request for one topic, as for KRaft's controller. One with ZooKeeper has no limit and dies of a larger number."""
_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Assignment = Mapping[int, tuple[int, ...]]


def check_name(topic: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for a name that no topic may have."""
    reason = None
    if not topic:
        reason = "the empty string is not allowed"
    elif topic in (".", ".."):
        reason = "'.' or '..' is not allowed"
    elif len(topic) > MAX_NAME_LENGTH:
        reason = f"the length of '{topic}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _NAME.fullmatch(topic):
        reason = f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")


def check_new(topic: str, existing: Iterable[str]) -> None:
    """Refuse a topic that is there, and one whose metrics could not be told from another's ('.' and '_' are alike)."""
    check_name(topic)
    there = sorted(existing)
    if topic in there:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{topic}' already exists.")
    alike = [other for other in there if _alike(other) == _alike(topic)]
    if alike:
        names = ", ".join(alike)
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic '{topic}' collides with existing topics: {names}")


def _alike(topic: str) -> str:
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What a client asks for: a number of partitions and replicas (-1: the broker's default), or the replicas."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Assignment | None = None


def assignment_of(
    wanted: NewTopic, brokers: Sequence[int], default_partitions: int, default_factor: int
) -> dict[int, tuple[int, ...]]:
    """Where the replicas of a new topic go."""
    if wanted.assignment is not None:
        if wanted.partitions != -1 or wanted.replication_factor != -1:
            raise ApiError(
                ErrorCode.invalid_request,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        return check_manual(wanted.assignment)
    partitions = default_partitions if wanted.partitions == -1 else wanted.partitions
    factor = default_factor if wanted.replication_factor == -1 else wanted.replication_factor
    if partitions <= 0:
        raise ApiError(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
    _check_count(partitions)
    check_factor(factor, len(brokers))
    return assign_replicas(brokers, partitions, factor)


def _check_count(partitions: int) -> None:
    if partitions > MOST_NEW_PARTITIONS:
        raise ApiError(ErrorCode.policy_violation, "Excessively large number of partitions per request.")


def check_factor(factor: int, brokers: int) -> None:
    if factor <= 0:
        raise ApiError(ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0.")
    if factor > brokers:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {factor} larger than available brokers: {brokers}.",
        )


def check_manual(assignment: Assignment) -> dict[int, tuple[int, ...]]:
    """Partitions from 0 without a gap, each with the same number of different brokers."""
    partitions = sorted(assignment)
    if partitions != list(range(len(partitions))) or not partitions:
        raise ApiError(
            ErrorCode.invalid_replica_assignment, "partitions should be a consecutive 0-based integer sequence"
        )
    for partition in partitions:
        check_replicas(partition, assignment[partition])
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise ApiError(ErrorCode.invalid_replica_assignment, "All partitions should have the same number of replicas")
    return {partition: assignment[partition] for partition in partitions}


def check_replicas(partition: int, replicas: Sequence[int]) -> None:
    if not replicas:
        raise ApiError(ErrorCode.invalid_replica_assignment, f"Partition {partition} has no replicas.")
    if len(set(replicas)) != len(replicas):
        raise ApiError(
            ErrorCode.invalid_replica_assignment, f"Duplicate replica assignment found for partition {partition}."
        )
    if any(broker < 0 for broker in replicas):
        raise ApiError(ErrorCode.invalid_replica_assignment, f"Invalid broker id in partition {partition}.")


def additional_partitions(
    topic: str,
    current: TopicAssignment,
    total: int,
    manual: Sequence[tuple[int, ...]] | None,
    brokers: Sequence[int],
) -> dict[int, tuple[int, ...]]:
    """Replicas of the partitions that bring a topic to ``total``."""
    there = len(current.partitions)
    if total < there:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"Topic currently has {there} partitions, which is higher than the requested {total}.",
        )
    if total == there:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {there} partitions.")
    factor = len(current.partitions[0])
    _check_count(total - there)
    if manual is None:
        check_factor(factor, len(brokers))
        return assign_replicas(brokers, total - there, factor, first_partition=there)
    if len(manual) != total - there:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Increasing the number of partitions by {total - there} but {len(manual)} assignments provided.",
        )
    for offset, replicas in enumerate(manual):
        check_replicas(there + offset, replicas)
        unknown = sorted(set(replicas) - set(brokers))
        if unknown:
            raise ApiError(ErrorCode.invalid_replica_assignment, f"Unknown broker(s) in replica assignment: {unknown}.")
        if len(replicas) != factor:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Inconsistent replication factor between partitions, partition 0 of {topic} has {factor} "
                f"while partition {there + offset} has replication factor {len(replicas)}.",
            )
    return {there + offset: tuple(replicas) for offset, replicas in enumerate(manual)}


class TopicStore:
    """Reads and writes of topics by a broker (not by the controller, whose writes are fenced)."""

    def __init__(self, coordination: Callable[[], Coordination], random: Random) -> None:
        self._coordination = coordination
        self._random = random

    async def names(self) -> list[str]:
        return await self._coordination().children(nodes.TOPICS)

    async def doomed(self) -> list[str]:
        """Topics that wait for their deletion."""
        return await self._coordination().children(nodes.DELETE_TOPICS)

    async def assignment(self, topic: str) -> TopicAssignment | None:
        try:
            return TopicAssignment.decode(topic, (await self._coordination().get(nodes.topic_path(topic)))[0])
        except NoNode:
            return None

    async def create(self, topic: str, assignment: Assignment, configs: Mapping[str, str]) -> UUID:
        """Make the topic; its id. Raises TOPIC_ALREADY_EXISTS."""
        zookeeper = self._coordination()
        check_new(topic, await zookeeper.children(nodes.TOPICS))
        topic_id = UUID(int=self._random.getrandbits(128), version=4)
        made = Create(nodes.topic_path(topic), TopicAssignment(topic_id, assignment).encode())
        config_path, config = nodes.topic_config_path(topic), nodes.encode_config(configs)
        while True:
            left_over = await zookeeper.exists(config_path)
            try:
                # In one step: nobody sees the topic without its overrides, and no failed attempt changes another's.
                await zookeeper.multi(
                    [Create(config_path, config) if left_over is None else SetData(config_path, config), made]
                )
            except (NodeExists, NoNode):
                there = await self.assignment(topic)
                if there is None:
                    continue  # the overrides came or went meanwhile
                if there.topic_id != topic_id:  # else: ours, its answer was lost
                    raise ApiError(ErrorCode.topic_already_exists, f"Topic '{topic}' already exists.") from None
            return topic_id

    async def delete(self, topic: str) -> None:
        """Doom the topic; fine when it is doomed already. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        zookeeper = self._coordination()
        if await zookeeper.exists(nodes.topic_path(topic)) is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition, f"Topic '{topic}' does not exist.")
        try:
            await zookeeper.create(nodes.delete_topic_path(topic))
        except NodeExists:
            return

    async def add_partitions(
        self, topic: str, extend: Callable[[TopicAssignment], Assignment]
    ) -> Mapping[int, tuple[int, ...]]:
        """Write what ``extend`` adds to the present partitions; it is asked again when they changed meanwhile."""
        zookeeper = self._coordination()
        path = nodes.topic_path(topic)
        while True:
            try:
                data, stat = await zookeeper.get(path)
                current = TopicAssignment.decode(topic, data)
                added = extend(current)
                grown = TopicAssignment(
                    current.topic_id,
                    {**current.partitions, **added},
                    current.adding_replicas,
                    current.removing_replicas,
                )
                await zookeeper.set(path, grown.encode(), stat.version)
            except BadVersion:
                continue
            except NoNode:
                raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist.") from None
            return added

    async def brokers(self) -> list[int]:
        """Ids of the brokers that are registered now."""
        return sorted(int(name) for name in await self._coordination().children(nodes.BROKER_IDS) if name.isdecimal())

    async def assignments(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        """Of those that are there."""
        names = list(topics)
        found = await asyncio.gather(*(self.assignment(name) for name in names))
        return {name: each for name, each in zip(names, found, strict=True) if each is not None}
