"""What a history measures: outcomes, rates and latencies over time, lag, losses per million."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.result import Finding
from checkers.steps import OUTCOMES, SECOND_SHIFT
from checkers.steps import PER_OCTAVE as _PER_OCTAVE

_LAG_PER_OCTAVE = 8


@dataclass(frozen=True)
class StepCount:
    """Steps of the main phase that ended in one second with one outcome and latency bucket."""

    second: int
    outcome: str
    """ok, info or fail of a send; polled."""
    bucket: int
    n: int


def decoded(counts: Mapping[int, int]) -> list[StepCount]:
    """The counts of :mod:`checkers.steps`, in the order of time."""
    bucket = (1 << (SECOND_SHIFT - 2)) - 1
    return [
        StepCount(code >> SECOND_SHIFT, OUTCOMES[code & 3], (code >> 2) & bucket, n)
        for code, n in sorted(counts.items())
    ]


@dataclass(frozen=True)
class Measured:
    outcomes: dict[str, dict[str, int]]
    """Operations by f and type."""
    steps: Sequence[StepCount]
    last_ns: int

    def total(self, *outcomes: str) -> int:
        return sum(each.n for each in self.steps if each.outcome in outcomes)

    def by_second(self, outcome: str) -> dict[int, int]:
        counts: dict[int, int] = {}
        for each in self.steps:
            if each.outcome == outcome:
                counts[each.second] = counts.get(each.second, 0) + each.n
        return counts


def percentile(buckets: Iterable[tuple[int, int]], share: float, per_octave: int) -> float | None:
    """The value in ms below which ``share`` of the counts lie; None without any."""
    ordered = sorted(buckets)
    total = sum(n for _, n in ordered)
    passed = 0
    for bucket, n in ordered:
        passed += n
        if passed >= share * total:
            return round(float(2.0 ** ((bucket + 0.5) / per_octave)) / 1e6, 3)
    return None


def document(measured: Measured, tallies: dict[str, int], findings: Sequence[Finding]) -> dict[str, Any]:
    acknowledged = measured.total("ok")
    sent = measured.total("ok", "info", "fail")
    counts = {each.anomaly: each.count for each in findings}
    latency = [(each.bucket, each.n) for each in measured.steps if each.outcome == "ok"]
    lag = [(int(name.split(":")[1]), n) for name, n in tallies.items() if name.startswith("#lag:")]
    gaps = _longest_gap(measured)
    return {
        "operations": measured.outcomes,
        "sent": sent,
        "acknowledged": acknowledged,
        "polled": measured.total("polled"),
        "send-latency-ms": {f"p{int(100 * p)}": percentile(latency, p, _PER_OCTAVE) for p in (0.5, 0.95, 0.99)}
        | {"max": percentile(latency, 1.0, _PER_OCTAVE)},
        "lag-ms": {f"p{int(100 * p)}": percentile(lag, p, _LAG_PER_OCTAVE) for p in (0.5, 0.95, 0.99)},
        "longest-unavailability-s": gaps,
        "duplicates-per-million": _per_million(counts.get("duplicate", 0), acknowledged),
        "losses-per-million": _per_million(counts.get("lost-write", 0), acknowledged),
        "missing-of-sent-per-million": _per_million(tallies.get("#missing-of-sent", 0), sent),
        "series": series(measured),
    }


def series(measured: Measured) -> dict[str, list[Any]]:
    """Second by second; what the report draws."""
    if not measured.steps:
        return {}
    seconds = list(range(max(each.second for each in measured.steps) + 1))
    ok, info, fail = (measured.by_second(outcome) for outcome in ("ok", "info", "fail"))
    polled = measured.by_second("polled")
    latency: dict[int, list[tuple[int, int]]] = {}
    for each in measured.steps:
        if each.outcome == "ok":
            latency.setdefault(each.second, []).append((each.bucket, each.n))

    def percentiles(share: float) -> list[float | None]:
        return [percentile(latency.get(second, ()), share, _PER_OCTAVE) for second in seconds]

    asked = [ok.get(s, 0) + info.get(s, 0) + fail.get(s, 0) for s in seconds]
    return {
        "second": seconds,
        "sent_ok": [ok.get(s, 0) for s in seconds],
        "sent_info": [info.get(s, 0) for s in seconds],
        "sent_fail": [fail.get(s, 0) for s in seconds],
        "polled": [polled.get(s, 0) for s in seconds],
        "send_p50_ms": percentiles(0.5),
        "send_p95_ms": percentiles(0.95),
        "send_p99_ms": percentiles(0.99),
        "available": [round(ok.get(s, 0) / n, 4) if n else 0.0 for s, n in zip(seconds, asked, strict=True)],
    }


def _longest_gap(measured: Measured) -> int:
    """Most successive seconds without one acknowledged send, from the first send to the last: a cluster that
    never comes back is not available until then."""
    asked = {each.second for each in measured.steps if each.outcome != "polled"}
    if not asked:
        return 0
    served = [min(asked) - 1, *sorted(measured.by_second("ok")), max(asked) + 1]
    return max(b - a - 1 for a, b in itertools.pairwise(served))


def _per_million(count: int, total: int) -> float | None:
    return round(1e6 * count / total, 3) if total else None
