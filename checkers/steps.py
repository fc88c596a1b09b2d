"""Steps of the main phase counted by second, kind, outcome and latency: what rates and percentiles are made of.

Latencies fall into buckets of a twelfth of a power of two, so a percentile is exact to 6 % and its cost does
not grow with the history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.load import NONE, OK
from checkers.rows import Rows

PER_OCTAVE = 12
OUTCOMES = ("ok", "info", "fail", "polled")


def step_counts(rows: Rows) -> list[dict[str, Any]]:
    """``#step:OUTCOME``, with the second in ``key`` and the latency bucket in ``value``."""
    part = rows.where(~rows.flag("boundary") & ~rows.flag("final"))
    done = np.where(part.complete_ns == NONE, part.invoke_ns, part.complete_ns)
    second = done // 10**9
    outcome = np.where(part.flag("sent"), part.fate, 3)
    latency = np.log2(np.maximum(done - part.invoke_ns, 1000).astype(np.float64))
    bucket = np.where(outcome == OK, np.floor(PER_OCTAVE * latency).astype(np.int64), 0)
    packed, counts = np.unique((second << 16) | (bucket << 2) | outcome, return_counts=True)
    return [
        {
            "anomaly": f"#step:{OUTCOMES[code & 3]}",
            "n": n,
            "fatal_n": 0,
            "fatal": False,
            "key": code >> 16,
            "value": (code >> 2) & 0x3FFF,
        }
        for code, n in zip(packed.tolist(), counts.tolist(), strict=True)
    ]
