"""``explain`` tells a value's whole life from a small history written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.report.explain import explain, rendered
from histories.build import HistoryBuilder
from histories.errors import HistoryError

SECOND = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    b = HistoryBuilder()
    fault = {"fault_id": 1, "fault": "kill", "node": "broker-2"}
    b.event("fault-injected", 1 * SECOND, **fault)
    b.event("fault-evidence", 1 * SECOND + 5, detail="pid gone", **fault)
    b.event("fault-healed", 4 * SECOND, **fault)
    b.send(process=0, key=0, value=11, offset=0, at=(2 * SECOND, 3 * SECOND))
    b.send(process=0, key=0, value=12, offset=1, at=(5 * SECOND, 6 * SECOND))
    b.poll(process=1, records=[(0, 0, 11)], at=(7 * SECOND, 8 * SECOND))
    b.scan(key=0, records=[(0, 11)])
    b.write(tmp_path / "history")
    return tmp_path / "history"


def test_a_value_that_is_fine(folder: Path) -> None:
    told = explain(folder, 11)
    words = [each.what for each in told.moments]
    assert words[0].startswith("sent to ")
    assert words[1] == "acknowledged at offset 0"
    assert words[2].startswith("read at offset 0 of ")
    assert words[3].startswith("found by the final scan at offset 0")
    assert told.moments[0].faults == ("kill broker-2",)
    assert told.moments[2].faults == ()
    assert "Read 1 time by 1 process." in told.conclusions


def test_a_value_that_is_lost(folder: Path) -> None:
    told = explain(folder, 12)
    assert told.moments[0].faults == ()
    assert "No consumer read it while the load ran." in told.conclusions
    assert any("Not in the final scan" in each and "which is complete" in each for each in told.conclusions)
    assert "acknowledged at offset 1" in rendered(told)


def test_a_value_that_nobody_knows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HistoryError, match="value 99 does not occur"):
        explain(folder, 99)
    assert main(["explain", str(folder), "99"]) == 64
    assert "nobody sent it and nobody read it" in capsys.readouterr().err


def test_explain_prints_a_timeline_or_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(folder), "11"]) == 0
    assert "faults in force: kill broker-2" in capsys.readouterr().out
    assert main(["explain", str(folder), "11", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 11
