"""``meta.json``: what the tables need beside them to be judged, as one typed document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from histories.errors import HistoryError
from histories.schema import FORMAT


@dataclass(frozen=True)
class TopicSettings:
    """The settings of one topic that decide what was promised about it."""

    partitions: int
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool = False
    cleanup_policy: str = "delete"


@dataclass(frozen=True)
class KeyInfo:
    """One incarnation of a topic-partition; its place in ``Meta.keys`` is the ``key`` of the tables."""

    topic: str
    partition: int
    incarnation: int = 0
    deleted: bool = False


@dataclass(frozen=True)
class ProducerSettings:
    """The settings of one kind of producer that decide what was promised about its sends."""

    acks: int
    """-1 is all."""
    idempotent: bool
    retries: int
    max_in_flight: int
    client: str = "librdkafka"


@dataclass(frozen=True)
class Exercise:
    """How much a run must have done for its silence to mean something."""

    faults: bool = False
    """Whether the plan injects faults at all; then one must have landed."""
    min_acknowledged: int = 0
    subject: tuple[str, ...] = ()
    """Anomalies whose promise the plan is about: not exercised, and the whole run is not."""


@dataclass(frozen=True)
class Meta:
    run_id: str
    origin: str
    """run, synthetic or jepsen. Only for a run is the exercise judged."""
    keys: tuple[KeyInfo, ...]
    topics: dict[str, TopicSettings]
    producers: tuple[ProducerSettings, ...]
    seed: int | None = None
    started_at: str | None = None
    """ISO 8601, UTC."""
    versions: dict[str, str] = field(default_factory=dict)
    clock_error_ns: dict[str, int] = field(default_factory=dict)
    """Of each worker, by its number as text. A worker that is not listed has none."""
    exercise: Exercise = Exercise()
    expect: tuple[str, ...] = ()
    """Anomalies that this run is meant to show."""
    retries: int | None = None
    """Retried produce requests as the clients counted them; null: not observable."""
    interrupted: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of each table, written by sealing."""

    def write(self, path: Path) -> None:
        document = {"format": FORMAT, **asdict(self)}
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")

    @staticmethod
    def read(path: Path) -> Meta:
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            raise HistoryError(f"{path}: no such file; a sealed history has its meta.json beside its tables") from None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise HistoryError(f"{path}: not JSON: {error}") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise HistoryError(f"{path}: not a history of format {FORMAT}")
        try:
            return _meta(document)
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{path}: {type(error).__name__}: {error}") from None


def _meta(document: dict[str, Any]) -> Meta:
    known = {each.name for each in fields(Meta)}
    unknown = sorted(set(document) - known - {"format"})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    values = {name: document[name] for name in known if name in document}
    values["keys"] = tuple(KeyInfo(**each) for each in values["keys"])
    values["topics"] = {name: TopicSettings(**each) for name, each in values["topics"].items()}
    values["producers"] = tuple(ProducerSettings(**each) for each in values["producers"])
    if "exercise" in values:
        exercise = dict(values["exercise"])
        exercise["subject"] = tuple(exercise.get("subject", ()))
        values["exercise"] = Exercise(**exercise)
    values["expect"] = tuple(values.get("expect", ()))
    return Meta(**values)
