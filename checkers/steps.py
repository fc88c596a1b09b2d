"""Steps of the main phase counted by second, kind, outcome and latency: what rates and percentiles are made of.

Latencies fall into buckets of a twelfth of a power of two, so a percentile is exact to 6 % and its cost does
not grow with the history.
"""

from __future__ import annotations

import numpy as np

from checkers.load import NONE, OK
from checkers.rows import Rows

PER_OCTAVE = 12
OUTCOMES = ("ok", "info", "fail", "polled")
SECOND_SHIFT = 12
"""A code is a second, in front of ten bits of bucket and two of outcome."""


def step_counts(rows: Rows) -> dict[int, int]:
    """How often each code occurs; ``checkers.metrics.decoded`` reads them."""
    part = rows.where(~rows.flag("boundary") & ~rows.flag("final"))
    if not len(part):
        return {}
    done = np.where(part.complete_ns == NONE, part.invoke_ns, part.complete_ns)
    second = done // 10**9
    outcome = np.where(part.flag("sent"), part.fate, 3)
    bucket = np.zeros(len(part), dtype=np.int64)
    ok = np.flatnonzero(outcome == OK)
    latency = np.maximum(done[ok] - part.invoke_ns[ok], 1000).astype(np.float64)
    bucket[ok] = np.floor(PER_OCTAVE * np.log2(latency)).astype(np.int64)
    first = int(second.min())
    code = ((second - first) << SECOND_SHIFT) | (bucket << 2) | outcome
    if int(code.max()) <= 8 * len(code) + 2**16:
        counts = np.bincount(code)
        codes = np.flatnonzero(counts)
        counts = counts[codes]
    else:
        codes, counts = np.unique(code, return_counts=True)
    return dict(zip((codes + (first << SECOND_SHIFT)).tolist(), counts.tolist(), strict=True))
