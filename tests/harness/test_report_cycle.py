"""A cycle on the report page: every transaction, every edge with its kind and reason, nothing unescaped."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from checkers.cycles.models import ruled_out
from checkers.result import Example, Finding, Judgement, Verdict
from harness.report.cycle import drawn
from harness.report.html import render


def ring(count: int, *, closed: bool = True) -> list[dict[str, Any]]:
    steps = [{"from": n, "to": (n + 1) % count, "kind": "rw", "reason": f"because <{n}>"} for n in range(count)]
    return steps if closed else steps[:-1]


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_every_node_and_edge_is_drawn(count: int) -> None:
    svg = ElementTree.fromstring(drawn(ring(count)))
    texts = [each.text for each in svg.iter("text")]
    assert [each for each in texts if each and each.startswith("T")] == [f"T{n}" for n in range(count)]
    assert texts.count("rw") == count
    assert [each.text for each in svg.iter("title")] == [f"because <{n}>" for n in range(count)]
    circles = {(each.get("cx"), each.get("cy")) for each in svg.iter("circle")}
    assert len(circles) == count
    ends = re.findall(r'd="(M\d+ \d+Q\d+ \d+ \d+ \d+)"', drawn(ring(count)))
    assert len(set(ends)) == count


def test_a_long_cycle_ends_in_dots() -> None:
    assert "…" in drawn(ring(6, closed=False))


def test_what_is_no_cycle_is_not_drawn() -> None:
    assert drawn(()) == ""


def test_the_page_shows_the_cycle_and_the_models() -> None:
    example = Example(True, "T0 < T1 < T0", ({"op": 0}, {"op": 1}), cycle=tuple(ring(2)))
    finding = Finding("G2-item", 1, 1, (example,))
    page = render(Judgement("h", Verdict.INVALID, (finding,), (), {}, models=ruled_out(["G2-item"])))
    assert '<svg class="cycle"' in page
    assert "because <0>" not in page
    assert "repeatable-read" in page
    assert "strict-serializable" in page
