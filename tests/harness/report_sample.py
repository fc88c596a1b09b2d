"""A judgement as a chaos run gives it, made up but complete, for the tests of the reports."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from checkers.result import Example, Fault, Finding, Judgement, Verdict

SECOND = 1_000_000_000


def faults() -> tuple[Fault, ...]:
    return (
        Fault(
            1,
            "kill",
            "broker-2",
            6 * SECOND,
            13 * SECOND,
            True,
            "leader of tidemark-0/1; pid 4711 gone after 4 ms",
        ),
        Fault(
            2,
            "pause",
            "broker-1",
            18 * SECOND,
            27 * SECOND,
            True,
            "controller; state T, controller epoch 3 → 4",
        ),
        Fault(3, "restart", "broker-3", 24 * SECOND, 31 * SECOND, True, "controlled shutdown in 2.1 s"),
        Fault(4, "stop", "broker-2", 38 * SECOND, 46 * SECOND, True, "pid 5180 gone, leaders moved to 1 and 3"),
        Fault(5, "pause", "broker-3", 52 * SECOND, 54 * SECOND, False, "state was never T within 2 s"),
        Fault(
            6,
            "kill",
            "broker-1",
            61 * SECOND,
            70 * SECOND,
            True,
            "leader of tidemark-0/3; pid 4702 gone after 3 ms",
        ),
        Fault(7, "power-loss", "broker-2", 82 * SECOND, None, True, "everything since the last fsync is gone"),
    )


def series(length: int = 90, seed: int = 7) -> dict[str, list[Any]]:
    """Load that stalls while a leader is away."""
    random_source = random.Random(seed)
    away = {second for each in faults() for second in _stall(each)}
    lines: dict[str, list[Any]] = {"second": list(range(length))}
    names = (
        "sent_ok",
        "sent_info",
        "sent_fail",
        "polled",
        "send_p50_ms",
        "send_p95_ms",
        "send_p99_ms",
        "available",
    )
    for name in names:
        lines[name] = []
    for second in range(length):
        stalled = second % 90 in away
        ok = random_source.randint(0, 500) if stalled else random_source.randint(1350, 1560)
        median = random_source.uniform(2.0, 4.5) * (8 if stalled else 1)
        nothing = stalled and random_source.random() < 0.3
        lines["sent_ok"].append(0 if nothing else ok)
        lines["sent_info"].append(random_source.randint(5, 60) if stalled else 0)
        lines["sent_fail"].append(random_source.randint(0, 14) if stalled else 0)
        lines["polled"].append(0 if nothing else ok * 2 + random_source.randint(-150, 150))
        lines["send_p50_ms"].append(None if nothing else median)
        lines["send_p95_ms"].append(None if nothing else median * random_source.uniform(3, 6))
        lines["send_p99_ms"].append(None if nothing else median * random_source.uniform(9, 60))
        lines["available"].append(0.0 if nothing else 0.6 if stalled else 1.0)
    return lines


def _stall(fault: Fault) -> range:
    start = fault.start_ns // SECOND
    return range(start, start + 4) if fault.landed else range(0)


def lost_write() -> Finding:
    sent = {
        "table": "mops", "op": 88123, "process": 14, "worker": 1, "f": "send", "kind": "send", "topic": "tidemark-0",
        "partition": 1, "key": 1, "offset": 20417, "value": 3302881, "status": "ok", "type": "ok",
        "invoke_ns": 5_981_204_112, "complete_ns": 5_993_880_031, "error": None,
    }  # fmt: skip
    scan = {
        "table": "coverage", "key": 1, "topic": "tidemark-0", "partition": 1, "isolation": "read_uncommitted",
        "log_start": 0, "position": 31877, "complete": True,
    }  # fmt: skip
    fault = {
        "table": "events",
        "kind": "fault-injected",
        "fault": "kill",
        "node": "broker-2",
        "invoke_ns": 6_001_882_417,
    }
    sentence = (
        "Value 3302881 was acknowledged to process 14 at offset 20417 of tidemark-0/1 at 5.994 s, 8 ms before "
        "broker-2 was killed, and the complete final scan (0 to 31877) does not contain it."
    )
    first = Example(True, sentence, (sent, scan, fault), key=1, value=3302881, offset=20417)
    second = replace(first, sentence=sentence.replace("3302881", "3302884").replace("20417", "20418"))
    return Finding("lost-write", 214, 211, (first, second))


def duplicate() -> Finding:
    rows = tuple(
        {"table": "mops", "op": 9000 + i, "process": 31, "kind": "poll", "key": 2, "offset": 118 + i, "value": 77,
         "invoke_ns": (20 + i) * SECOND}
        for i in range(2)
    )  # fmt: skip
    sentence = "Value 77 was read at offsets 118 and 119 of tidemark-0/2."
    return Finding("duplicate", 1, 1, (Example(True, sentence, rows, key=2, value=77),))


def send_skip() -> Finding:
    sentence = "Between two sends of operation 512 in tidemark-0/0 lie 3 records of other producers."
    return Finding("int-send-skip", 48211, 0, (Example(False, sentence, ()),))


def metrics() -> dict[str, Any]:
    """Named and nested as the checkers' metrics are."""
    return {
        "operations": {"send": {"ok": 23_118, "info": 212, "fail": 31}, "poll": {"ok": 88_012}},
        "sent": 123_004,
        "acknowledged": 121_844,
        "polled": 243_310,
        "send-latency-ms": {"p50": 3.12, "p95": 21.7, "p99": 184.6, "max": 4012.2},
        "lag-ms": {"p50": 5.1, "p95": 32.0, "p99": 240.0},
        "longest-unavailability-s": 4,
        "duplicates-per-million": 8.207,
        "losses-per-million": 1756.344,
        "missing-of-sent-per-million": 1739.781,
        "series": series(),
    }


def invalid() -> Judgement:
    return Judgement(
        path="runs/20260218-142233-default-91f3",
        verdict=Verdict.INVALID,
        findings=(lost_write(), duplicate(), send_skip()),
        reasons=(),
        metrics=metrics(),
        faults=faults(),
        not_exercised=(
            "aborted-read: no send was certainly refused, so none could be read by mistake.",
            "unavailable-after-heal: the last fault was not healed.",
        ),
        meta={
            "run_id": "20260218-142233-default-91f3",
            "seed": 5_402_117_733_901,
            "plan": "default",
            "origin": "run",
            "started_at": "2026-02-18T14:22:33Z",
            "versions": {"tidemark": "0.1.0", "kafka": "3.9.1", "librdkafka": "2.16.0", "python": "3.11.4"},
        },
        seconds=14.82,
    )


def valid() -> Judgement:
    return replace(invalid(), verdict=Verdict.VALID, findings=(send_skip(),))


def unknown() -> Judgement:
    return replace(
        invalid(),
        verdict=Verdict.UNKNOWN,
        findings=(),
        reasons=(
            "The scan of tidemark-0/2 is incomplete because the scanner failed: 311 committed records are unseen.",
        ),
    )
