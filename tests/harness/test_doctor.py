"""``doctor`` names what lacks, with a remedy, and fails only for what is needed."""

from __future__ import annotations

import json

import pytest

import harness.doctor
from checkers.java import JavaError
from harness.cli import main
from harness.exits import Exit
from harness.fleet.probe import Probe


def test_every_finding_that_can_lack_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise JavaError("install Java 17")

    monkeypatch.setattr(harness.doctor, "find_java", no_java)
    monkeypatch.setattr(harness.doctor, "probe", lambda: Probe("not allowed"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("KAFKA_HOME", "/nowhere")
    found = {each.name: each for each in harness.doctor.examine()}
    for name in ("java", "maven", "kafka", "namespaces", "slow links"):
        assert not found[name].ok
        assert found[name].remedy
    assert found["python"].ok


@pytest.mark.parametrize(("needed", "code"), [(True, Exit.HARNESS), (False, Exit.VALID)])
def test_only_what_is_needed_fails(
    needed: bool, code: Exit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = harness.doctor.Finding("thing", False, needed, "none", "get one")
    monkeypatch.setattr(harness.doctor, "examine", lambda: [finding])
    assert main(["doctor"]) == code
    assert "→ get one" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["ok"] is not needed
