"""How reports write numbers, times and names: one place, so that the page and the terminal agree."""

from __future__ import annotations

import math
from typing import Any

THIN_SPACE = "\u202f"

_UNITS = (
    ("-per-million", "per million"),
    ("-ms", "ms"),
    ("-ns", "ns"),
    ("-s", "s"),
    ("-seconds", "s"),
    ("-bytes", "bytes"),
)


def count(value: float) -> str:
    """12345 → 12 345, with a thin space that does not break."""
    return f"{value:,.0f}".replace(",", THIN_SPACE)


def number(value: Any) -> str:
    """A metric's value: whole numbers in full, others with about four significant figures."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if float(value).is_integer() or abs(value) >= 1000:
        return count(value)
    return f"{value:.4g}"


def named(name: str) -> tuple[str, str]:
    """``send-latency-ms p99`` → its label and its unit; the unit ends one of the words."""
    words, unit = [], ""
    for word in name.replace("_", "-").split(" "):
        suffix, of_word = next((each for each in _UNITS if word.endswith(each[0])), ("", ""))
        words.append(word.removesuffix(suffix).replace("-", " "))
        unit = of_word or unit
    label = " ".join(words)
    return label, "%" if label.endswith("availability") and not unit else unit


def metric(name: str, value: Any) -> str:
    """A metric's value in the unit that :func:`named` gives it."""
    if named(name)[1] == "%" and isinstance(value, (int, float)):
        return f"{100 * value:.2f}".rstrip("0").rstrip(".")
    return number(value)


def seconds(time_ns: int | None) -> str:
    """A time of the run, to the millisecond."""
    return "–" if time_ns is None else f"{time_ns / 1e9:.3f} s"


def duration(value_s: float) -> str:
    """How long something took, in the unit that a person would say."""
    if value_s < 1:
        return f"{value_s * 1000:.0f} ms"
    if value_s < 120:
        return f"{value_s:.1f} s"
    minutes, rest = divmod(round(value_s), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(value_s: float, span_s: float) -> str:
    """A label of the time axis: ``40 s``, ``2:30`` or ``1:02 h``, by the length of the axis."""
    if span_s <= 180:
        return f"{value_s:g} s"
    if span_s < 7200:
        return f"{int(value_s // 60)}:{int(value_s % 60):02d}"
    return f"{int(value_s // 3600)}:{int(value_s % 3600 // 60):02d} h"


def plural(amount: int, one: str, many: str = "") -> str:
    return f"{count(amount)} {one if amount == 1 else many or one + 's'}"


def flat(metrics: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested metrics with joined names; lists (series) are left out."""
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            if name != "series":
                found |= flat(value, f"{prefix}{name} ")
        elif not isinstance(value, (list, tuple)):
            found[prefix + name] = value
    return found


_HEADLINE = (
    "acknowledged",
    "polled",
    "availability",
    "longest-unavailability-s",
    "send-latency-ms p50",
    "send-latency-ms p99",
    "lag-ms p99",
    "losses-per-million",
    "duplicates-per-million",
    "missing-of-sent-per-million",
)


def headline(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics in the order in which a person wants them: the known ones first."""
    given = {name: value for name, value in flat(metrics).items() if value is not None}
    first = {name: given[name] for name in _HEADLINE if name in given}
    return first | given
