"""From findings and reasons to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.judge import _unscanned, _verdict
from checkers.result import Finding, Verdict
from histories.build import HistoryBuilder

OBSERVED, VIOLATED = Finding("duplicate", 2, 0, ()), Finding("lost-write", 2, 1, ())


@pytest.mark.parametrize(
    ("findings", "reasons", "missing", "lacking", "verdict"),
    [
        ([], [], [], [], Verdict.VALID),
        ([OBSERVED], [], [], [], Verdict.VALID),
        ([OBSERVED, VIOLATED], ["why"], ["phantom"], ["idle"], Verdict.INVALID),
        ([VIOLATED], [], [], [], Verdict.INVALID),
        ([], [], ["phantom"], [], Verdict.INVALID),
        ([OBSERVED], ["why"], [], ["idle"], Verdict.UNKNOWN),
        ([], [], [], ["idle"], Verdict.NOT_EXERCISED),
    ],
)
def test_what_dominates(
    findings: list[Finding], reasons: list[str], missing: list[str], lacking: list[str], verdict: Verdict
) -> None:
    assert _verdict(findings, reasons, missing, lacking) is verdict


@pytest.mark.parametrize(
    ("complete", "reason", "count"), [(False, "scanner", 2), (False, "cluster", 0), (True, None, 0)]
)
def test_scans_that_failed_on_our_side(tmp_path: Path, complete: bool, reason: str | None, count: int) -> None:
    b = HistoryBuilder()
    b.scan(0, [], complete=complete, reason=reason)
    b.write(tmp_path / "h")
    assert _unscanned(tmp_path / "h") == ([f"the final scan of {count} keys failed on our side"] if count else [])
