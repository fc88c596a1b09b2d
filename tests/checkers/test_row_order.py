"""What is shown does not depend on the order in which rows come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from checkers.promises import PromiseOverride
from histories.build import HistoryBuilder
from tests.checkers.in_process import check, collect
from tests.checkers.local import local_context


def test_the_first_reader_of_a_phantom_is_shown(tmp_path: Path) -> None:
    b = HistoryBuilder()
    for process in (1, 2, 3):
        b.poll(process, [(0, 0, 9)])
    collected = collect(local_context(), tmp_path / "h", b.write(tmp_path / "h"), PromiseOverride())
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        shuffled = replace(collected, rows=collected.rows.take(np.array(order)))
        assert [row["op"] for row in check(shuffled) if row["anomaly"] == "phantom"] == [0]
