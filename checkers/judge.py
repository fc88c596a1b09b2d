"""One history in, one judgement out: measure, find cases, explain the worst, weigh them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers import metrics as metrics_of
from checkers.assumptions import broken_assumptions
from checkers.cases import Cases
from checkers.coverage import unserved
from checkers.exercise import faults_of, judge_exercise
from checkers.explain import Case, explain
from checkers.load import History, has_transactions, open_history
from checkers.names import ANOMALIES
from checkers.promises import PromiseOverride
from checkers.result import Finding, Judgement, Verdict
from histories.meta import Meta
from histories.read import open_history as open_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

EXAMPLES = 8
"""At most so many examples of each anomaly; the count is always of all cases."""


def judge(
    spark: SparkSession,
    folder: Path,
    *,
    path_label: str,
    only: frozenset[str] | None = None,
    promises: PromiseOverride | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Judgement:
    """Judge the sealed history in ``folder``. Bad input raises HistoryError; a crash of a check is UNKNOWN."""
    began = time.monotonic()
    meta, _ = open_folder(folder)
    about = {"run_id": meta.run_id, "seed": meta.seed, "origin": meta.origin, "versions": meta.versions}
    try:
        judgement = _judge(spark, folder, meta, only, promises or PromiseOverride(), progress)
    except Exception as error:  # noqa: BLE001 - whatever broke, silence must not read as valid
        trace = "".join(traceback.format_exception_only(error)).strip()[:2000]
        judgement = Judgement("", Verdict.UNKNOWN, (), (f"a checker crashed: {trace}",), {})
    return replace(judgement, path=path_label, meta=about, seconds=time.monotonic() - began)


def _judge(
    spark: SparkSession,
    folder: Path,
    meta: Meta,
    only: frozenset[str] | None,
    promises: PromiseOverride,
    progress: Callable[[str], None],
) -> Judgement:
    history = open_history(spark, folder, meta, promises)
    progress("measuring")
    measured = metrics_of.measure(history)
    progress("looking for anomalies")
    tallies, found = _find(history, transactions=has_transactions(folder))
    found += unserved(folder, meta)
    if only is not None:
        found = [case for case in found if case.anomaly in only]
    progress("explaining")
    findings = _findings(history, found, tallies)
    metrics = metrics_of.document(measured, tallies, findings)
    faults = faults_of(folder)
    reasons = [*broken_assumptions(history, tallies)]
    unseen = next((each for each in findings if each.anomaly == "unseen"), None)
    if unseen:
        reasons.append(f"{unseen.count} committed values were never read, and no final scan of their keys is complete")
    reasons += _unscanned(folder)
    missing = [name for name in meta.expect if not any(each.anomaly == name for each in findings)]
    lacking, quiet = judge_exercise(meta, faults, measured, findings)
    verdict = _verdict(findings, reasons, missing, lacking)
    reasons += [f"expected {name}, and it did not show" for name in missing]
    return Judgement("", verdict, tuple(findings), tuple(reasons + lacking), metrics, faults, tuple(quiet))


def _find(history: History, *, transactions: bool) -> tuple[dict[str, int], list[Case]]:
    """Counts of all cases, and of each anomaly the worst case of each of a few buckets.

    One aggregation instead of a sort: cases that nobody will read are counted where they are found.
    """
    shared = Cases.of(history, transactions=transactions)
    try:
        rows = _worst(shared.all())
        if any(row.anomaly == "#unread" for row in rows):
            rows += _worst(shared.passed_over())
    finally:
        shared.close()
    tallies: dict[str, int] = {}
    found: list[Case] = []
    for row in rows:
        if row.anomaly.startswith("#"):
            tallies[row.anomaly] = tallies.get(row.anomaly, 0) + row.n
            continue
        worst_case: dict[str, Any] = row.worst.asDict()
        fatal = not worst_case.pop("mild")
        found.append(Case(row.anomaly, row.n, row.fatal_n, fatal, **worst_case))
    return tallies, found


def _worst(cases: DataFrame) -> list[Row]:
    from pyspark.sql import functions as fn

    # an example's identity is spread over buckets; inside one, the worst is the fatal and earliest
    bucket = fn.expr(f"CASE WHEN anomaly LIKE '#%' THEN 0 ELSE pmod(hash(key, value, offset, op), {EXAMPLES}) END")
    worst = fn.struct(fn.expr("NOT fatal AS mild"), *[c for c in cases.columns if c not in ("anomaly", "fatal")])
    return (
        cases.select("anomaly", "fatal", bucket.alias("bucket"), worst.alias("worst"))
        .groupBy("anomaly", "bucket")
        .agg(fn.count("*").alias("n"), fn.count_if("fatal").alias("fatal_n"), fn.min("worst").alias("worst"))
        .collect()
    )


def _findings(history: History, found: list[Case], tallies: dict[str, int]) -> list[Finding]:
    del tallies
    examples = explain(history, found)
    findings = []
    for name in sorted({case.anomaly for case in found}, key=_rank):
        mine = [case for case in found if case.anomaly == name]
        shown = sorted(
            (examples[case] for case in mine),
            key=lambda each: (not each.fatal, each.key or 0, each.value or 0),
        )
        findings.append(
            Finding(name, sum(c.count for c in mine), sum(c.fatal_count for c in mine), tuple(shown[:EXAMPLES]))
        )
    return sorted(findings, key=lambda each: (not each.fatal, _rank(each.anomaly)))


def _rank(anomaly: str) -> int:
    return ANOMALIES.index(anomaly)


def _unscanned(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "coverage").to_pylist()
    broken = [row for row in rows if not row["complete"] and row["reason"] != "cluster"]
    return [f"the final scan of {len(broken)} keys failed on our side"] if broken else []


def _verdict(findings: list[Finding], reasons: list[str], missing: list[str], lacking: list[str]) -> Verdict:
    if missing or any(each.fatal for each in findings):
        return Verdict.INVALID
    if reasons:
        return Verdict.UNKNOWN
    return Verdict.NOT_EXERCISED if lacking else Verdict.VALID
