"""The load over time, as the charts draw it: at most 300 points, however long the run was.

When several seconds share a point, rates are averaged, latencies keep their worst and availability keeps
its lowest: an outage of one second must not disappear in a run of eight hours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_POINTS = 300

Point = float | None
Points = tuple[Point, ...]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_REDUCE: dict[str, Callable[[Sequence[float]], float]] = {
    "sent_ok": _mean,
    "sent_info": _mean,
    "sent_fail": _mean,
    "polled": _mean,
    "send_p50_ms": max,
    "send_p95_ms": max,
    "send_p99_ms": max,
    "available": min,
}


@dataclass(frozen=True)
class Series:
    """Points at equal steps from ``start_s`` on; None where nothing was measured."""

    start_s: float
    step_s: float
    lines: dict[str, Points]

    @property
    def length(self) -> int:
        return len(next(iter(self.lines.values())))

    @property
    def span_s(self) -> float:
        return self.length * self.step_s

    def line(self, name: str) -> Points:
        return self.lines.get(name, (None,) * self.length)


def series_of(metrics: dict[str, Any], max_points: int = MAX_POINTS) -> Series | None:
    """The series of a judgement's metrics, or None when there is none that can be drawn."""
    document = metrics.get("series")
    if not isinstance(document, dict) or not document.get("second"):
        return None
    seconds = [int(each) for each in document["second"]]
    first, last = min(seconds), max(seconds)
    step = math.ceil((last - first + 1) / max_points)
    buckets = math.ceil((last - first + 1) / step)
    lines = {}
    for name, reduce in _REDUCE.items():
        given = document.get(name)
        if isinstance(given, (list, tuple)) and len(given) == len(seconds):
            lines[name] = _reduced(seconds, given, first, step, buckets, reduce)
    return Series(first, step, lines) if lines else None


def _reduced(
    seconds: Sequence[int],
    values: Sequence[Any],
    first: int,
    step: int,
    buckets: int,
    reduce: Callable[[Sequence[float]], float],
) -> Points:
    groups: list[list[float]] = [[] for _ in range(buckets)]
    for second, value in zip(seconds, values, strict=True):
        if value is not None and math.isfinite(value):
            groups[(second - first) // step].append(float(value))
    return tuple(reduce(each) if each else None for each in groups)
