"""Which topics a run makes, and the number of each of their partitions in its history.

With ``topic.writes_per_key`` a topic is retired when its partitions have taken that many sends; all topics
that the run can need are created ahead, so that no creation waits behind a fault.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.plan import Plan
from histories.meta import KeyInfo, TopicSettings

_MOST_TOPICS = 50


@dataclass(frozen=True)
class Keys:
    topics: tuple[str, ...]
    keys: tuple[KeyInfo, ...]

    @staticmethod
    def of(plan: Plan, run_id: str) -> Keys:
        topics = tuple(f"{plan.topic.name}-{run_id[-4:]}-{n}" for n in range(_count(plan)))
        keys = tuple(KeyInfo(topic, partition) for topic in topics for partition in range(plan.topic.partitions))
        return Keys(topics, keys)

    def numbered(self) -> list[tuple[int, str, int]]:
        """key, topic, partition."""
        return [(number, each.topic, each.partition) for number, each in enumerate(self.keys)]

    def number(self, topic: str, partition: int) -> int | None:
        return self._numbers().get((topic, partition))

    def _numbers(self) -> dict[tuple[str, int], int]:
        return {(topic, partition): key for key, topic, partition in self.numbered()}


def _count(plan: Plan) -> int:
    if not plan.topic.writes_per_key:
        return 1
    rate = plan.clients.rate or 50_000
    writes = rate * plan.time_limit_s / (plan.topic.writes_per_key * plan.topic.partitions)
    return max(1, min(_MOST_TOPICS, math.ceil(writes)))


def topic_settings(plan: Plan, keys: Keys) -> dict[str, TopicSettings]:
    settings = TopicSettings(
        plan.topic.partitions,
        plan.topic.replication_factor,
        plan.topic.min_insync_replicas,
        plan.topic.unclean_leader_election,
    )
    return dict.fromkeys(keys.topics, settings)
