"""What a history measures: outcomes, rates and latencies over time, lag, losses per million.

Two aggregations without a sort: operations by (f, type), and steps by (second, kind, status, latency
bucket). Latencies fall into buckets of a twelfth of a power of two, so a percentile is exact to 6 %
and its cost does not grow with the history.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkers.load import History
from checkers.result import Finding

if TYPE_CHECKING:
    from pyspark.sql import Row

_PER_OCTAVE = 12
_LAG_PER_OCTAVE = 8


@dataclass(frozen=True)
class Measured:
    outcomes: dict[str, dict[str, int]]
    """Operations by f and type."""
    steps: list[Row]
    """second, kind, status, bucket, n; of the main phase."""
    first_ns: int
    last_ns: int

    def total(self, kind: str, status: str | None = None) -> int:
        return sum(row.n for row in self.steps if row.kind == kind and (status is None or row.status == status))

    def by_second(self, kind: str, status: str | None = None) -> dict[int, int]:
        counts: dict[int, int] = {}
        for row in self.steps:
            if row.kind == kind and (status is None or row.status == status):
                counts[row.second] = counts.get(row.second, 0) + row.n
        return counts


def measure(history: History) -> Measured:
    from pyspark.sql import functions as fn

    by_type = history.ops.groupBy("f", "type").agg(
        fn.count("*").alias("n"), fn.min("invoke_ns").alias("first"), fn.max("complete_ns").alias("last")
    )
    outcomes: dict[str, dict[str, int]] = {}
    first, last = [0], [0]
    for row in by_type.collect():
        outcomes.setdefault(row.f, {})[row.type] = row.n
        first.append(row["first"])
        last.append(row["last"] or 0)
    steps = (
        history.mops.where("phase = 'main' AND kind IN ('send', 'poll')")
        .selectExpr(
            "CAST(floor(COALESCE(complete_ns, invoke_ns) / 1000000000D) AS int) AS second",
            "kind",
            "CASE WHEN kind = 'send' THEN COALESCE(status, 'info') END AS status",
            f"CASE WHEN status = 'ok' THEN CAST(floor({_PER_OCTAVE} * "
            "log2(greatest(complete_ns - invoke_ns, 1000))) AS int) END AS bucket",
        )
        .groupBy("second", "kind", "status", "bucket")
        .agg(fn.count("*").alias("n"))
        .collect()
    )
    return Measured(outcomes, steps, min(first), max(last))


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
    acknowledged = measured.total("send", "ok")
    sent = measured.total("send")
    counts = {each.anomaly: each.count for each in findings}
    latency = [(row.bucket, row.n) for row in measured.steps if row.bucket is not None]
    lag = [(int(name.split(":")[1]), n) for name, n in tallies.items() if name.startswith("#lag:")]
    gaps = _longest_gap(measured)
    return {
        "operations": measured.outcomes,
        "sent": sent,
        "acknowledged": acknowledged,
        "polled": measured.total("poll"),
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
    seconds = list(range(max(row.second for row in measured.steps) + 1))
    ok, info, fail = (measured.by_second("send", status) for status in ("ok", "info", "fail"))
    polled = measured.by_second("poll")
    latency: dict[int, list[tuple[int, int]]] = {}
    for row in measured.steps:
        if row.bucket is not None:
            latency.setdefault(row.second, []).append((row.bucket, row.n))

    def percentiles(share: float) -> list[float | None]:
        return [percentile(latency.get(each, ()), share, _PER_OCTAVE) for each in seconds]

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
    """Most successive seconds without one acknowledged send, inside the load."""
    served = sorted(measured.by_second("send", "ok"))
    return max((b - a - 1 for a, b in itertools.pairwise(served)), default=0)


def _per_million(count: int, total: int) -> float | None:
    return round(1e6 * count / total, 3) if total and not math.isnan(count) else None
