"""What becomes of a step that says less than others: the numbers that stand for what is not there."""

from __future__ import annotations

import pyarrow as pa

from checkers.load import NONE
from checkers.narrow import NUMBERS, TEXT, narrowed


def test_a_send_whose_producer_nobody_recorded_is_of_the_last_entry() -> None:
    """Promises are arrays by producer; their last entry, at -1, stands for all producers."""
    known = {"kind": "send", "f": "send", "type": "ok", "status": "ok", "phase": "main"}
    table = pa.table(
        {name: pa.chunked_array([pa.array([known.get(name)], pa.string()).dictionary_encode()]) for name in TEXT}
        | {name: pa.array([None if name in ("producer", "offset") else 3], pa.int64()) for name in NUMBERS}
    )
    rows = narrowed(table, pa.array([], pa.int64()).to_numpy())
    assert rows["producer"].tolist() == [-1]
    assert rows["offset"].tolist() == [NONE]
    assert rows["step"].tolist() == [(3 << 32) + 3]
