"""``meta.json``: what the tables need beside them to be judged, as one typed document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from histories.digests import SealedFile, of_document
from histories.errors import HistoryError
from histories.schema import FORMAT, Workload, tables_of
from histories.typed import typed

ORIGINS: Final = ("run", "synthetic", "jepsen")


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
    """One of ORIGINS. Only for a run is the exercise judged."""
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
    workload: str = Workload.LOG.value
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of each table, written by sealing."""
    files: dict[str, SealedFile] = field(default_factory=dict)
    """By the path of each part of a table, written by sealing. Empty: sealed before files had digests."""

    def write(self, path: Path) -> None:
        """By rename: a full disk or a kill leaves what was there before, never half of it."""
        document = {"format": FORMAT, **asdict(self)}
        document["digest"] = of_document(document)
        fresh = path.with_name(f".{path.name}.fresh")
        try:
            fresh.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)

    @staticmethod
    def read(path: Path) -> Meta:
        try:
            document = json.loads(path.read_text(), object_pairs_hook=_object)
        except FileNotFoundError:
            raise HistoryError(f"{path}: no such file; a sealed history has its meta.json beside its tables") from None
        except OSError as error:
            raise HistoryError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:  # among them what is not JSON and what is not UTF-8
            raise HistoryError(f"{path}: not JSON: {error}") from None
        if not isinstance(document, dict) or "format" not in document:
            raise HistoryError(f"{path}: not the meta.json of a history: it says no format")
        said = document.pop("digest", None)
        digest = of_document(document)
        if document.pop("format") != FORMAT:
            raise HistoryError(
                f"{path}: not a history of format {FORMAT}, which this Tidemark reads; judge it with the Tidemark "
                "that made it"
            )
        try:
            meta = typed(Meta, document, "")
            assert isinstance(meta, Meta)
            _agree(meta)
        except ValueError as error:
            raise HistoryError(f"{path}: {error}") from None
        # last, because a field that cannot be is the better thing to name
        if said is not None and said != digest:
            raise HistoryError(
                f"{path}: its contents do not fit their digest, so it was damaged or changed after it was written; copy it "
                "again (or remove its field digest, if what it says is what you mean)"
            )
        return meta


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return document


def _agree(meta: Meta) -> None:
    """What the types cannot say."""
    if meta.origin not in ORIGINS:
        raise ValueError(f"origin: expected one of {', '.join(ORIGINS)}, not {meta.origin!r}")
    if meta.workload not in set(Workload):
        raise ValueError(f"workload: expected one of {', '.join(Workload)}, not {meta.workload!r}")
    for number, key in enumerate(meta.keys):
        if key.topic not in meta.topics:
            raise ValueError(f"keys[{number}].topic: {key.topic!r} is not among the topics")
    for number, producer in enumerate(meta.producers):
        if producer.acks not in (-1, 0, 1):
            raise ValueError(f"producers[{number}].acks: expected -1 (all), 0 or 1, not {producer.acks}")
    for name, count in meta.counts.items():
        if name not in tables_of(meta.workload) or count < 0:
            raise ValueError(f"counts.{name}: {count} rows of {name!r} cannot be")
