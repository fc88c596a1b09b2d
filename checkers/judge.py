"""One history in, one judgement out: measure, find cases, explain the worst, weigh them."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.assumptions import broken_assumptions, doubts_of
from checkers.coverage import unserved
from checkers.exercise import faults_of, judge_exercise, leader_changes
from checkers.explain import Case, explain
from checkers.load import History, has_transactions, open_history
from checkers.metrics import Measured, decoded, document
from checkers.names import ANOMALIES, LOOKED_FOR
from checkers.pipeline import checked
from checkers.promises import PromiseOverride
from checkers.replicas import ANOMALY, diverged
from checkers.result import Finding, Judgement, Verdict
from histories.errors import HistoryError
from histories.meta import Meta
from histories.read import open_history as open_folder
from histories.schema import Workload

if TYPE_CHECKING:
    from pyspark import SparkContext

EXAMPLES = 8
"""At most so many examples of each anomaly; the count is always of all cases."""
NORMAL = ("int-send-skip",)
"""One example is enough of what every healthy history has."""


def judge(
    spark: SparkContext,
    folder: Path,
    *,
    path_label: str,
    meta: Meta | None = None,
    only: frozenset[str] | None = None,
    promises: PromiseOverride | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Judgement:
    """Judge the sealed history in ``folder``. Bad input raises HistoryError; a crash of a check is UNKNOWN. ``meta`` is
    given where :func:`histories.read.open_history` has looked through the folder already."""
    began = time.monotonic()
    if meta is None:
        meta, _ = open_folder(folder)
    if only is not None and only.isdisjoint(LOOKED_FOR[meta.workload]):
        # Not to be judged as if nothing of it had shown.
        raise HistoryError(
            f"{path_label}: nothing of {', '.join(sorted(only))} is looked for in a history of this kind ({meta.workload}); "
            f"there are {', '.join(LOOKED_FOR[meta.workload])}"
        )
    if promises not in (None, PromiseOverride()) and meta.workload != Workload.LOG:
        raise HistoryError(
            f"{path_label}: a history of transactions, of which strict serializability is expected; what is promised of "
            "sends says nothing of it: judge it without --promises"
        )
    about = {"run_id": meta.run_id, "seed": meta.seed, "origin": meta.origin, "versions": meta.versions}
    try:
        judgement = _judge(spark, folder, meta, only, promises or PromiseOverride(), progress)
    except HistoryError:
        raise
    except Exception as error:
        if _is_interruption(error):
            raise KeyboardInterrupt from error
        judgement = _crashed(error)
    return replace(undecided(judgement, meta), path=path_label, meta=about, seconds=time.monotonic() - began)


def _is_interruption(error: BaseException | None) -> bool:
    """Whether it is what PySpark ran into while it cleaned up after a Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _crashed(error: Exception) -> Judgement:
    trace = "".join(traceback.format_exception(error))
    return Judgement("", Verdict.UNKNOWN, (), (f"a check crashed: {cause(error)}",), {}, crash=trace)


_WORKER_TRACE = "Traceback (most recent call last):"


def cause(error: Exception) -> str:
    """What went wrong, on one line. What a worker of Spark raised comes as the text of its traceback, which is inside
    the text of a traceback of the virtual machine."""
    _, found, trace = str(error).partition(_WORKER_TRACE)
    raised = [line for line in trace.splitlines() if line.strip() and not line[0].isspace()] if found else []
    said = raised[0] if raised else f"{type(error).__name__}: {error}"
    return said.splitlines()[0][:300]


def undecided(judgement: Judgement, meta: Meta) -> Judgement:
    """Half a recording proves a violation, but neither that all is well nor that something expected stayed away."""
    reasons = []
    if meta.interrupted:
        reasons.append("the run ended early, so what it would have read at its end is missing")
    if meta.counts.get("mops") == 0:
        reasons.append("nothing was sent or read")
    if not reasons or any(each.fatal for each in judgement.findings):
        return judgement
    return replace(judgement, verdict=Verdict.UNKNOWN, reasons=(*reasons, *judgement.reasons))


def _judge(
    spark: SparkContext,
    folder: Path,
    meta: Meta,
    only: frozenset[str] | None,
    promises: PromiseOverride,
    progress: Callable[[str], None],
) -> Judgement:
    if meta.workload != Workload.LOG:
        # Only here: scipy and networkx take longer to load than a small log takes to judge.
        from checkers.cycles.verdict import judge_transactions

        progress("looking for anomalies and cycles")
        return judge_transactions(spark, folder, meta, only, EXAMPLES)
    history = open_history(spark, folder, meta, promises)
    progress("looking for anomalies")
    transactions = has_transactions(folder)
    result, operations = checked(history, transactions=transactions, most=EXAMPLES)
    broken, doubts = broken_assumptions(operations, result), doubts_of(operations, result)
    if doubts and any(case.fatal_n for case in result.cases):
        progress("looking again, because an assumption does not hold")
        result, operations = checked(history, transactions=transactions, most=EXAMPLES, doubts=doubts)
    found = [Case(*row) for row in result.cases]
    measured = Measured(operations.outcomes, decoded(result.steps), operations.last_ns)
    found += unserved(folder, meta, bool(promises.void))
    replicas, unobservable = diverged(folder, meta, bool(promises.void), promises.unclean)
    found += replicas
    unseen = sum(case.count for case in found if case.anomaly == "unseen")
    if only is not None:
        found = [case for case in found if case.anomaly in only]
    progress("explaining")
    findings = _findings(history, found)
    metrics = document(measured, result.tallies, findings)
    faults = faults_of(folder)
    reasons = list(broken)
    if unseen:
        reasons.append(f"{unseen} committed values were never read, and no final scan of their keys is complete")
    reasons += _unscanned(folder)
    missing = [name for name in meta.expect if not any(each.anomaly == name for each in findings)]
    lacking, quiet = judge_exercise(meta, faults, leader_changes(folder), measured, findings)
    if unobservable is not None and (only is None or ANOMALY in only):
        quiet.append(unobservable)
        if ANOMALY in meta.exercise.subject:
            reasons.append(f"{unobservable}, and it is this plan's subject")
    verdict = _verdict(findings, reasons, missing, lacking, bool(broken))
    reasons += [f"expected {name}, and it did not show" for name in missing]
    return Judgement("", verdict, tuple(findings), tuple(reasons + lacking), metrics, faults, tuple(quiet))


def _findings(history: History, found: list[Case]) -> list[Finding]:
    """Those that break a promise first, else in the order of their names' table."""
    cases = {
        name: sorted((each for each in found if each.anomaly == name), key=lambda case: (not case.fatal, case.op or 0))
        for name in sorted({case.anomaly for case in found}, key=ANOMALIES.index)
    }
    worst = {name: mine[: 1 if name in NORMAL else EXAMPLES] for name, mine in cases.items()}
    examples = explain(history, [case for mine in worst.values() for case in mine])
    findings = []
    for name, mine in cases.items():
        shown = sorted(
            (examples[case] for case in worst[name]),
            key=lambda each: (not each.fatal, each.key or 0, each.value or 0),
        )
        findings.append(Finding(name, sum(c.count for c in mine), sum(c.fatal_count for c in mine), tuple(shown)))
    return sorted(findings, key=lambda each: not each.fatal)


def _unscanned(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "coverage").to_pylist()
    broken = [row for row in rows if not row["complete"] and row["reason"] != "cluster"]
    return [f"the final scan of {len(broken)} keys failed on our side"] if broken else []


def _verdict(
    findings: list[Finding], reasons: list[str], missing: list[str], lacking: list[str], broken: bool = False
) -> Verdict:
    """``broken``: an assumption does not hold, so nothing is said about what did not show."""
    if any(each.fatal for each in findings) or (missing and not broken):
        return Verdict.INVALID
    if reasons:
        return Verdict.UNKNOWN
    return Verdict.NOT_EXERCISED if lacking else Verdict.VALID
