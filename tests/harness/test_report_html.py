"""The page: verdict first, everything escaped, nothing fetched, charts that hide no outage."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from checkers.result import Example, Fault, Finding, Judgement, Verdict
from harness.report import charts, html, series
from tests.harness import report_sample as sample

VOID = {"meta", "br", "hr", "img", "input", "link", "line", "rect", "path", "circle"}
"""Elements that need no end tag: those of HTML, and the self-closed ones of our SVG."""


class Balance(HTMLParser):
    """Fails on an end tag that does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("judgement", [sample.invalid(), sample.valid(), sample.unknown()])
def test_every_verdict_makes_a_well_formed_page(judgement: Judgement) -> None:
    page = html.render(judgement, replay="tidemark run plan.toml --seed 1")
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert "tidemark run plan.toml --seed 1" in page


def test_nothing_is_fetched() -> None:
    page = html.render(sample.invalid())
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://""", page)


def test_violated_comes_before_observed_and_the_verdict_before_both() -> None:
    page = html.render(replace(sample.invalid(), findings=tuple(reversed(sample.invalid().findings))))
    places = [page.index(each) for each in ("<h1>Invalid", "<h3>lost-write", "<h3>int-send-skip")]
    assert places == sorted(places)
    assert "214 cases, 211 of them break a promise" in page


def test_everything_from_a_history_is_escaped() -> None:
    evil = "<script>alert(1)</script>&\"'"
    example = Example(True, evil, ({evil: evil, "value": 1},))
    judgement = Judgement(
        path=evil,
        verdict=Verdict.INVALID,
        findings=(Finding(evil, 1, 1, (example,)),),
        reasons=(evil,),
        metrics={evil: evil, "series": {"second": [0], "sent_ok": [1], evil: [1]}},
        faults=(Fault(1, evil, evil, 0, None, True, evil),),
        not_exercised=(evil,),
        meta={"run_id": evil, "seed": evil, "plan": evil, "versions": {evil: evil}},
    )
    page = html.render(judgement, replay=evil)
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 12


def test_an_empty_judgement_still_makes_a_page() -> None:
    judgement = Judgement("x", Verdict.NOT_EXERCISED, (), (), {})
    page = html.render(judgement)
    assert "Not exercised" in page
    assert "None was found." in page
    assert "data-charts" not in page.split("<script>")[0]


def test_an_expected_anomaly_that_did_not_show_is_not_called_a_broken_promise() -> None:
    judgement = replace(sample.valid(), verdict=Verdict.INVALID, reasons=("expected lost-write, and none showed",))
    page = html.render(judgement)
    assert "expected lost-write, and none showed" in page
    assert "broke a promise" not in page


def test_a_long_run_keeps_its_outage_and_its_worst_latency() -> None:
    length = 8 * 3600
    document: dict[str, list[Any]] = {
        "second": list(range(length)),
        "available": [1.0] * length,
        "send_p99_ms": [5.0] * length,
        "sent_ok": [10.0] * length,
    }
    document["available"][12345] = 0.0
    document["send_p99_ms"][54] = 900.0
    found = series.series_of({"series": document})
    assert found is not None
    assert found.length <= 300
    assert min(v for v in found.line("available") if v is not None) == 0
    assert max(v for v in found.line("send_p99_ms") if v is not None) == 900
    assert set(found.line("sent_ok")) == {10.0}
    assert found.line("polled") == (None,) * found.length


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"second": []}, {"second": [0, 1]}, {"second": [0, 1], "sent_ok": [1]}],
)
def test_series_that_cannot_be_drawn_are_left_out(document: Any) -> None:
    assert series.series_of({"series": document}) is None


def test_seconds_that_are_missing_break_the_line() -> None:
    found = series.series_of({"series": {"second": [0, 1, 5], "sent_ok": [1, 2, 3]}})
    assert found is not None
    assert found.line("sent_ok") == (1, 2, None, None, None, 3)
    assert charts.charts(found, ()).count('class="line l-sent_ok"') == 2


def test_faults_at_the_same_time_do_not_cover_each_other() -> None:
    found = series.series_of({"series": sample.series()})
    assert found is not None
    bands = charts.bands_of(found, sample.faults())
    for one in bands:
        for other in bands:
            if one is not other and one.track == other.track:
                assert one.left + one.width <= other.left or other.left + other.width <= one.left
    assert {each.track for each in bands} == {0, 1}
    assert all(each.left >= 0 and each.left + each.width <= 100.5 for each in bands)


@pytest.mark.parametrize(("rough", "step"), [(1, 1), (1.1, 2), (2.0001, 5), (3, 5), (700, 1000), (0.03, 0.05)])
def test_ticks_are_round(rough: float, step: float) -> None:
    assert charts.nice_step(rough) == pytest.approx(step)


def test_the_numbers_of_the_cursor_are_json() -> None:
    page = html.render(sample.invalid())
    match = re.search(r'<script type="application/json" id="series">(.*?)</script>', page)
    assert match is not None
    assert len(json.loads(match[1])["lines"]["sent_ok"]) == 90


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("kill", "f-kill"), ("halves", "f-cut"), ("cut-zookeeper", "f-cut"), ("loss", "f-slow"), ("flood", "f-other")],
)
def test_every_fault_has_a_colour_of_the_page(fault: str, expected: str) -> None:
    assert charts.colour(fault) == expected
    css = (Path(charts.__file__).parent / "page.css").read_text()
    assert f".{expected} {{ --c:" in css
