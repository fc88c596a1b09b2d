"""What the metrics count, in plain Python."""

from __future__ import annotations

import math
from collections import Counter

from tests.checkers.terms import Terms

Tallies = Counter[tuple[str, int | None, int | None]]
"""Name; second and latency bucket of a step, None elsewhere."""


def tallies(terms: Terms) -> Tallies:
    found: Tallies = Counter()
    for send in terms.sends:
        scan = terms.complete_scan(send.key, "read_uncommitted")
        delivered = terms.outcome(send) == "ok" or terms.has_no_acks(send)
        if send.f == "txn":
            delivered |= terms.is_committed(send)
        if delivered and send.status != "fail" and scan is not None and terms.is_kept(send.key):
            offset = terms.known_offset(send)
            due = offset is None or offset >= (scan.log_start or 0)
            if due and send.value not in terms.scanned(send.key, "read_uncommitted"):
                found["#missing-of-sent", None, None] += 1
        read_ns = [each.complete_ns for each in terms.reads(send) if each.phase == "main"]
        known = [each for each in read_ns if each is not None]
        if terms.acknowledged_offset(send) is not None and send.complete_ns is not None and known:
            found[f"#lag:{_bucket(min(known) - send.complete_ns, 8)}", None, None] += 1
    found.update(_steps(terms))
    return found


def _bucket(ns: int, per_octave: int) -> int:
    return math.floor(per_octave * math.log2(max(ns, 1000)))


def _steps(terms: Terms) -> Tallies:
    """Sends and polled records of the main phase, by the second in which they ended."""
    found: Tallies = Counter()
    for each in terms.mops:
        if each.phase == "final" or each.kind not in ("send", "poll"):
            continue
        outcome = "polled" if each.kind == "poll" else terms.outcome(each)
        if each.kind == "send" and each.f == "txn" and terms.is_committed(each):
            outcome = "ok"
        done = each.invoke_ns if each.complete_ns is None else each.complete_ns
        bucket = _bucket(done - each.invoke_ns, 12) if outcome == "ok" else 0
        found[f"#step:{outcome}", done // 10**9, bucket] += 1
    return found
