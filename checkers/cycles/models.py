"""Consistency models, which implies which, what each forbids; and so which models a set of anomalies rules out.

Relations and names are Elle's (``elle.consistency-model``), who has them from Adya, Bailis, Berenson, Cerone, Daudjee and
others. Of several names of a model the one is used that Elle shows. The notes on what a model forbids name only what
it adds to the models that it implies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SUFFIXES = ("", "-process", "-realtime")

IMPLIED_MODELS: Mapping[str, tuple[str, ...]] = {
    "strict-serializable": (
        "serializable", "linearizable", "snapshot-isolation", "strong-snapshot-isolation",
        "strong-session-serializable", "session-serializable",
    ),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "strong-snapshot-isolation": ("strong-session-snapshot-isolation", "strong-read-committed"),
    "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-read-committed"),
    "strong-read-committed": ("strong-session-read-committed", "strong-read-uncommitted"),
    "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
    "strong-read-uncommitted": ("strong-session-read-uncommitted",),
    "strong-session-read-uncommitted": ("read-uncommitted",),
    "session-serializable": ("1SR",),
    "serializable": ("repeatable-read", "update-serializable", "snapshot-isolation", "view-serializable"),
    "update-serializable": ("forward-consistent-view",),
    "snapshot-isolation": (
        "forward-consistent-view", "monotonic-atomic-view", "monotonic-snapshot-read", "parallel-snapshot-isolation",
        "prefix",
    ),
    "forward-consistent-view": ("consistent-view",),
    "consistent-view": ("cursor-stability", "monotonic-view"),
    "repeatable-read": ("cursor-stability", "monotonic-atomic-view"),
    "cursor-stability": ("read-committed",),
    "monotonic-view": ("read-committed",),
    "monotonic-snapshot-read": ("read-committed",),
    "monotonic-atomic-view": ("read-committed",),
    "parallel-snapshot-isolation": ("causal-cerone", "ROLA"),
    "prefix": ("causal-cerone",),
    "causal-cerone": ("read-atomic",),
    "ROLA": ("read-atomic",),
    "read-atomic": ("monotonic-atomic-view",),
    "read-committed": ("read-uncommitted",),
    "linearizable": ("sequential",),
    "sequential": ("causal",),
    "causal": ("writes-follow-reads", "PRAM"),
    "PRAM": ("monotonic-reads", "monotonic-writes", "read-your-writes"),
}  # fmt: skip

FORBIDDEN: Mapping[str, tuple[str, ...]] = {
    "read-uncommitted": ("G0", "duplicate-elements", "cyclic-versions"),
    "read-committed": ("G1",),
    "cursor-stability": ("G1", "lost-update"),
    "monotonic-view": ("G1",),
    "monotonic-snapshot-read": ("G1",),
    "consistent-view": ("G1", "G-single"),
    "forward-consistent-view": ("G1",),
    "update-serializable": ("G1",),
    "repeatable-read": ("G1", "G2-item", "lost-update"),
    "read-atomic": ("internal", "G1a", "future-read"),
    "causal-cerone": ("internal", "G1a"),
    "parallel-snapshot-isolation": ("internal", "G1a"),
    "prefix": ("internal", "G1a"),
    "ROLA": ("lost-update",),
    "snapshot-isolation": ("internal", "G1", "G-nonadjacent"),
    "serializable": ("internal", "G1", "G2"),
    "strict-serializable": ("G1", "G1c-realtime", "G2-realtime"),
    "strong-session-read-uncommitted": ("G0-process",),
    "strong-session-read-committed": ("G1c-process",),
    "strong-read-uncommitted": ("G0-realtime",),
    "strong-read-committed": ("G1c-realtime",),
    "strong-session-snapshot-isolation": ("internal", "G1-process", "G-nonadjacent-process"),
    "strong-snapshot-isolation": ("internal", "G1-realtime", "G-nonadjacent-realtime"),
    "strong-session-serializable": ("G1-process", "G2-process"),
}

_IMPLIED_CYCLES = {
    "G0": ("G1c",),
    "G1c": ("G1",),
    "G1": (),
    "G-single-item": ("G-single", "G-nonadjacent-item"),
    "G-single": ("G-nonadjacent",),
    "G-nonadjacent-item": ("G-nonadjacent", "G2-item"),
    "G-nonadjacent": ("G2",),
    "G2-item": ("G2",),
    "G2": (),
}


def _implied_anomalies() -> dict[str, tuple[str, ...]]:
    """Every kind implies its own variant with more orders, and in each variant the same other kinds."""
    implied: dict[str, tuple[str, ...]] = {
        "G1a": ("G1",),
        "G1b": ("G1",),
        "incompatible-order": ("G1a",),
        "dirty-update": ("G1a",),
        "future-read": ("G1c",),
        "lost-update": ("G2-item",),
    }
    for name, others in _IMPLIED_CYCLES.items():
        for place, suffix in enumerate(_SUFFIXES):
            wider = tuple(name + each for each in _SUFFIXES[place + 1 : place + 2])
            implied[name + suffix] = tuple(other + suffix for other in others) + wider
    return implied


IMPLIED_ANOMALIES: Mapping[str, tuple[str, ...]] = _implied_anomalies()


@dataclass(frozen=True)
class RuledOut:
    """``weakest``: the weakest models that cannot hold; ``others``: what is stronger and so cannot hold either."""

    weakest: tuple[str, ...]
    others: tuple[str, ...]


def ruled_out(anomalies: Iterable[str]) -> RuledOut:
    all_anomalies = _reached(anomalies, IMPLIED_ANOMALIES)
    direct = {model for model, forbids in FORBIDDEN.items() if all_anomalies & set(forbids)}
    stronger: dict[str, list[str]] = {}
    for model, weaker in IMPLIED_MODELS.items():
        for each in weaker:
            stronger.setdefault(each, []).append(model)
    impossible = _reached(direct, stronger)
    weakest = {
        model for model in impossible if not (_reached(IMPLIED_MODELS.get(model, ()), IMPLIED_MODELS) & impossible)
    }
    return RuledOut(tuple(sorted(weakest)), tuple(sorted(impossible - weakest)))


def _reached(start: Iterable[str], graph: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += graph.get(each, ())
    return found
