"""What a check says: findings with evidence, and the verdict made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from checkers.cycles.models import RuledOut


class Verdict(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    NOT_EXERCISED = "not-exercised"

    @property
    def exit_code(self) -> int:
        return {"valid": 0, "invalid": 1, "unknown": 2, "not-exercised": 3}[self.value]


@dataclass(frozen=True)
class Example:
    """One case of an anomaly."""

    fatal: bool
    sentence: str
    """Tells a person what happened, with names, offsets and times."""
    evidence: tuple[dict[str, Any], ...]
    """The rows involved, operations first; JSON-ready."""
    key: int | None = None
    value: int | None = None
    offset: int | None = None
    cycle: tuple[dict[str, Any], ...] = ()
    """Of a cycle of transactions, each edge: from, to, kind, reason."""


@dataclass(frozen=True)
class Finding:
    """All cases of one anomaly in one history."""

    anomaly: str
    count: int
    fatal_count: int
    """How many break a promise that was made; the others are observed."""
    examples: tuple[Example, ...]
    """At most N, worst first."""

    @property
    def fatal(self) -> bool:
        return self.fatal_count > 0


@dataclass(frozen=True)
class Fault:
    """One injected fault, as the events tell it."""

    fault_id: int
    fault: str
    node: str | None
    start_ns: int
    end_ns: int | None
    landed: bool
    detail: str


@dataclass(frozen=True)
class Judgement:
    """Everything the checkers say of one history."""

    path: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]
    """Why the verdict is unknown or not-exercised, or which expected anomaly did not show."""
    metrics: dict[str, Any]
    """Kebab-case names; see checkers.metrics."""
    faults: tuple[Fault, ...] = ()
    not_exercised: tuple[str, ...] = ()
    """Promises that nothing put to the test, as sentences."""
    meta: dict[str, Any] = field(default_factory=dict)
    """run_id, seed, origin, versions: what a report's header shows."""
    seconds: float = 0.0
    models: RuledOut | None = None
    """Of a history of transactions: consistency models that cannot hold."""
    crash: str = ""
    """The traceback of a check that crashed."""

    def document(self) -> dict[str, Any]:
        """The JSON of ``tidemark check --json``."""
        return {
            "path": self.path,
            "verdict": self.verdict.value,
            "anomalies": {
                each.anomaly: {
                    "count": each.count,
                    "fatal": each.fatal,
                    "fatal_count": each.fatal_count,
                    "examples": [
                        {
                            "fatal": example.fatal,
                            "sentence": example.sentence,
                            "key": example.key,
                            "value": example.value,
                            "offset": example.offset,
                            "evidence": list(example.evidence),
                            **({"cycle": list(example.cycle)} if example.cycle else {}),
                        }
                        for example in each.examples
                    ],
                }
                for each in self.findings
            },
            "reasons": list(self.reasons),
            "not_exercised": list(self.not_exercised),
            "metrics": self.metrics,
            "seconds": round(self.seconds, 3),
            **self._models(),
            **({"crash": self.crash} if self.crash else {}),
        }

    def _models(self) -> dict[str, Any]:
        if self.models is None:
            return {}
        return {"models_ruled_out": list(self.models.weakest), "also_ruled_out": list(self.models.others)}
