"""One history in, one judgement out: measure, find cases, explain the worst, weigh them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.assumptions import broken_assumptions, operations
from checkers.coverage import unserved
from checkers.exercise import faults_of, judge_exercise, leader_changes
from checkers.explain import Case, explain
from checkers.found import PLACE, SPARK_SCHEMA
from checkers.load import History, has_transactions, open_history
from checkers.load import rows as rows_of
from checkers.metrics import Measured, StepCount, document
from checkers.names import ANOMALIES
from checkers.partition import checker
from checkers.promises import PromiseOverride
from checkers.result import Finding, Judgement, Verdict
from histories.meta import Meta
from histories.read import open_history as open_folder

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

EXAMPLES = 8
"""At most so many examples of each anomaly; the count is always of all cases."""
NORMAL = ("int-send-skip",)
"""One example is enough of what every healthy history has."""


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
    progress("looking for anomalies")
    rows = find(history, transactions=has_transactions(folder), most=EXAMPLES)
    tallies, found, steps = _sorted_out(rows)
    progress("checking assumptions")
    counted = operations(history)
    measured = Measured(_outcomes(counted), steps, counted.get("last_ns", 0))
    found += unserved(folder, meta, bool(promises.void))
    unseen = sum(case.count for case in found if case.anomaly == "unseen")
    if only is not None:
        found = [case for case in found if case.anomaly in only]
    progress("explaining")
    findings = _findings(history, found)
    metrics = document(measured, tallies, findings)
    faults = faults_of(folder)
    reasons = broken_assumptions(history, counted, tallies)
    if unseen:
        reasons.append(f"{unseen} committed values were never read, and no final scan of their keys is complete")
    reasons += _unscanned(folder)
    missing = [name for name in meta.expect if not any(each.anomaly == name for each in findings)]
    lacking, quiet = judge_exercise(meta, faults, leader_changes(folder), measured, findings)
    verdict = _verdict(findings, reasons, missing, lacking)
    reasons += [f"expected {name}, and it did not show" for name in missing]
    return Judgement("", verdict, tuple(findings), tuple(reasons + lacking), metrics, faults, tuple(quiet))


def find(history: History, *, transactions: bool, most: int | None) -> list[Row]:
    """Every case (``most`` None), or counts of all and the worst few of each anomaly; and the tallies.

    A partition names at most ``most`` examples of each anomaly and counts the others, so what reaches the
    driver does not grow with the number of cases.
    """
    shared = rows_of(history, transactions=transactions)
    check = checker(history, most=most, transactions=transactions)
    found = shared.mapInArrow(check, SPARK_SCHEMA)
    if not transactions:
        return found.collect()
    from pyspark.sql import functions as fn

    is_part = fn.col("anomaly").startswith("#txn-")
    missing = fn.expr("anomaly = '#txn-missing'")
    torn = (
        found.where(is_part)
        .groupBy("op")
        .agg(
            fn.count_if(missing).alias("missing"), fn.count_if(~missing).alias("present"),
            fn.bool_or(fn.when(missing, fn.col("fatal"))).alias("fatal"), fn.min("process").alias("process"),
            fn.min(fn.when(missing, fn.struct("key", "value", "offset"))).alias("at"),
        )
        .where("missing > 0 AND present > 0")
        .selectExpr(
            "'torn-transaction' AS anomaly", "1L AS n", "CASE WHEN fatal THEN 1L ELSE 0L END AS fatal_n", "fatal",
            "at.key AS key", "at.value AS value", "at.offset AS offset", "process", "op", "0L AS step",
            "NULL AS other_op", "NULL AS other_offset", "NULL AS other_value",
        )
    )  # fmt: skip
    return found.where(~is_part).unionByName(torn).collect()


def _sorted_out(rows: list[Row]) -> tuple[dict[str, int], list[Case], list[StepCount]]:
    tallies: dict[str, int] = {}
    found: list[Case] = []
    steps: list[StepCount] = []
    for row in rows:
        if row.anomaly.startswith("#step:"):
            steps.append(StepCount(row.key, row.anomaly.removeprefix("#step:"), row.value, row.n))
        elif row.anomaly.startswith("#"):
            tallies[row.anomaly] = tallies.get(row.anomaly, 0) + row.n
        else:
            place = {name: row[name] for name in PLACE}
            found.append(Case(row.anomaly, row.n, row.fatal_n, row.fatal, **place))
    return tallies, found, steps


def _outcomes(counted: dict[str, int]) -> dict[str, dict[str, int]]:
    outcomes: dict[str, dict[str, int]] = {}
    for name, n in sorted(counted.items()):
        f, colon, kind = name.partition(":")
        if colon:
            outcomes.setdefault(f, {})[kind] = n
    return outcomes


def _findings(history: History, found: list[Case]) -> list[Finding]:
    worst: list[Case] = []
    for name in {case.anomaly for case in found}:
        mine = sorted((case for case in found if case.anomaly == name), key=lambda case: (not case.fatal, case.op or 0))
        worst += mine[: 1 if name in NORMAL else EXAMPLES]
    examples = explain(history, worst)
    findings = []
    for name in sorted({case.anomaly for case in found}, key=_rank):
        mine = [case for case in found if case.anomaly == name]
        shown = sorted(
            (examples[case] for case in mine if case in examples),
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
