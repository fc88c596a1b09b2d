"""What is planted in a synthetic history of transactions is what is found, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from checkers.cycles.edges import ROW
from checkers.cycles.pipeline import columns_of
from harness.cli import main
from histories.errors import HistoryError
from histories.jepsen import export_jepsen
from histories.schema import Workload
from histories.synth.gadgets import GADGETS
from histories.synth.transactions import synthesize_transactions
from tests.checkers.cycle_histories import search_columns

TXN = ("process", "type", "invoke_at", "complete_at")


def found_in(folder: Path, workload: Workload) -> Counter[str]:
    elements = columns_of(pq.read_table(folder / "elements", read_dictionary=["kind", "type"]), ROW)
    txns = columns_of(pq.read_table(folder / "txns", read_dictionary=["type"]), TXN)
    reports, report = search_columns(elements, txns, workload == Workload.APPEND)
    found = Counter(case.anomaly for each in reports for case in each.found.cases)
    found.update(cycle.kind for cycle in report.cycles)
    return found


@pytest.mark.parametrize("workload", [Workload.APPEND, Workload.REGISTER])
def test_nothing_is_found_where_nothing_was_planted(tmp_path: Path, workload: Workload) -> None:
    meta = synthesize_transactions(tmp_path / "h", workload, 5000, keys=4, seed=3)
    assert meta.counts["txns"] == 5000
    assert found_in(tmp_path / "h", workload) == Counter()


@pytest.mark.parametrize("workload", [Workload.APPEND, Workload.REGISTER])
@pytest.mark.parametrize("name", GADGETS)
def test_what_is_planted_is_found(tmp_path: Path, workload: Workload, name: str) -> None:
    if GADGETS[name].only not in (None, workload):
        with pytest.raises(ValueError, match="cannot be injected"):
            synthesize_transactions(tmp_path / "h", workload, 300, inject={name: 2})
        return
    synthesize_transactions(tmp_path / "h", workload, 300, inject={name: 2})
    found = found_in(tmp_path / "h", workload)
    assert found[name] == 2
    assert set(found) <= {name} | GADGETS[name].entails


def test_what_is_made_for_logs_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthesize_transactions(tmp_path / "h", Workload.APPEND, 10)
    assert main(["explain", str(tmp_path / "h"), "1"]) == 64
    assert "a history of transactions" in capsys.readouterr().err
    with pytest.raises(HistoryError, match="only those of a log can be exported"):
        export_jepsen(tmp_path / "h", tmp_path / "h.edn")
