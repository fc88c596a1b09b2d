"""Rates, latencies and losses, from counts by second."""

from __future__ import annotations

import pytest

from checkers.metrics import Measured, StepCount, document, percentile, series
from checkers.result import Finding

MS = 12 * 20
"""The bucket of about a millisecond: 2^20 ns."""


def measured(*steps: tuple[int, str, int, int]) -> Measured:
    return Measured({"send": {"ok": 1}}, [StepCount(*step) for step in steps], 0)


LOAD = measured(
    (0, "ok", MS, 3), (0, "ok", MS + 12, 1), (0, "info", 0, 1), (2, "info", 0, 2), (2, "fail", 0, 1),
    (4, "polled", 0, 7), (4, "ok", MS + 24, 4), (1, "polled", 0, 1),
)  # fmt: skip


def test_percentiles_of_buckets() -> None:
    counts = [(10, 1), (0, 98), (20, 1)]
    assert percentile(counts, 0.5, 1) == percentile(counts, 0.98, 1) == round(2**0.5 / 1e6, 3)
    assert percentile(counts, 0.99, 1) == round(2**10.5 / 1e6, 3)
    assert percentile(counts, 1.0, 1) == round(2**20.5 / 1e6, 3)
    assert percentile([(24, 1)], 0.5, 12) == round(2 ** (24.5 / 12) / 1e6, 3)
    assert percentile([(40, 1)], 0.5, 1) == round(2**40.5 / 1e6, 3)
    assert percentile([], 0.5, 1) is None


def test_totals_and_seconds() -> None:
    assert LOAD.total("ok") == 8
    assert LOAD.total("ok", "info", "fail") == 12
    assert LOAD.by_second("info") == {0: 1, 2: 2}


def test_the_document() -> None:
    findings = [Finding("duplicate", 2, 0, ()), Finding("lost-write", 1, 1, ())]
    found = document(LOAD, {"#missing-of-sent": 3, "#lag:160": 1, "#lag:168": 1, "#value-sent-twice": 9}, findings)
    assert found["operations"] == {"send": {"ok": 1}}
    assert (found["sent"], found["acknowledged"], found["polled"]) == (12, 8, 8)
    assert found["duplicates-per-million"] == 250_000
    assert found["losses-per-million"] == 125_000
    assert found["missing-of-sent-per-million"] == 250_000
    assert found["send-latency-ms"] == {"p50": 1.079, "p95": 4.317, "p99": 4.317, "max": 4.317} | {
        "p50": percentile([(MS, 3), (MS + 12, 1), (MS + 24, 4)], 0.5, 12)
    }
    assert found["lag-ms"] == {"p50": percentile([(160, 1)], 1, 8), **dict.fromkeys(("p95", "p99"), 2.19)}
    assert found["longest-unavailability-s"] == 3


def test_the_document_without_findings() -> None:
    found = document(LOAD, {}, [])
    assert found["duplicates-per-million"] == found["losses-per-million"] == found["missing-of-sent-per-million"] == 0
    of_three = document(measured((0, "ok", MS, 3)), {}, [Finding("duplicate", 1, 0, ())])
    assert of_three["duplicates-per-million"] == 333_333.333


def test_the_document_of_nothing() -> None:
    nothing = document(measured(), {}, [])
    assert nothing["duplicates-per-million"] is None
    assert nothing["send-latency-ms"] == dict.fromkeys(("p50", "p95", "p99", "max"))
    assert nothing["longest-unavailability-s"] == 0
    assert nothing["series"] == {}


def test_second_by_second() -> None:
    found = series(LOAD)
    assert found["second"] == [0, 1, 2, 3, 4]
    assert found["sent_ok"] == [4, 0, 0, 0, 4]
    assert found["sent_info"] == [1, 0, 2, 0, 0]
    assert found["sent_fail"] == [0, 0, 1, 0, 0]
    assert found["polled"] == [0, 1, 0, 0, 7]
    assert found["available"] == [0.8, 0.0, 0.0, 0.0, 1.0]
    assert series(measured((0, "ok", MS, 1), (0, "fail", 0, 2), (1, "ok", MS, 3)))["available"] == [0.3333, 1.0]
    low, high = percentile([(MS, 1)], 1, 12), percentile([(MS + 12, 1)], 1, 12)
    assert found["send_p50_ms"] == [low, None, None, None, percentile([(MS + 24, 1)], 1, 12)]
    assert found["send_p95_ms"][0] == found["send_p99_ms"][0] == high


@pytest.mark.parametrize(
    ("served", "refused", "gap"),
    [
        ([], [], 0),
        ([5], [], 0),
        ([0, 1, 2], [], 0),
        ([0, 2], [], 1),
        ([3, 9, 10, 14], [], 5),
        ([3, 4], [5, 20], 16),
        ([9], [2], 7),
        ([], [4, 6], 3),
    ],
)
def test_the_longest_gap(served: list[int], refused: list[int], gap: int) -> None:
    """Before the first and after the last acknowledgement too, as long as somebody sends."""
    steps = [*((second, "ok", MS, 1) for second in served), *((second, "info", 0, 1) for second in refused)]
    found = document(measured(*steps, (0, "polled", 0, 1), (50, "polled", 0, 1)), {}, [])
    assert found["longest-unavailability-s"] == gap
