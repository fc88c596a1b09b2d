"""Values that every part of the cluster shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """Where a broker listens."""

    id: int
    host: str
    port: int
    rack: str | None = None
