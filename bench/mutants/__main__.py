"""Does the test suite notice every broken condition of the checkers? Run by hand.

    python -m bench.mutants [--modules values order ...] [--cases 1000] [--seconds 170] [--write]

Every mutant (:mod:`bench.mutants.operators`) is tried, cheapest first and until one notices it, against

- ``smallest`` the smallest guilty and innocent histories, together and each alone in its partition,
- ``random``   11,000 random histories and eight variants of promises, compared with the reference,
- ``unit``     the tests of the checkers that need no Spark,
- ``judge``    the tests of whole judgements (about 20 s, for what is left unexplained).

All of it runs in this process, with :mod:`tests.checkers.local` in Spark's place. What survives is either explained in
``equivalent.toml`` beside this file, or makes the exit code 1.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.mutants.evidence import Evidence
from bench.mutants.known import Known
from bench.mutants.limits import limit_memory
from bench.mutants.operators import mutants_of
from bench.mutants.report import Report, explanations
from bench.mutants.trial import OUTSIDE, ROOT, noticed_by, remember

CONDITIONS = (
    "values",
    "order",
    "promises",
    "exercise",
    "coverage",
    "assumptions",
    "doubts",
    "agreement",
    "load",
    "narrow",
)
BEYOND = (
    "replicas", "replica_logs", "rows", "partition", "found", "steps", "metrics", "judge", "result", "scan", "exchange",
    "pipeline",
)  # fmt: skip
"""Not conditions of a definition, but on the way to the verdict."""
FOLDER = Path(tempfile.gettempdir()) / "tidemark-mutants"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="+", choices=CONDITIONS + BEYOND, default=list(CONDITIONS + BEYOND))
    parser.add_argument("--cases", type=int, default=1000, help="random histories in each of the eleven sets")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="without the judge's tests")
    parser.add_argument("--left", action="store_true", help="only what nothing has noticed so far; no report")
    parser.add_argument("--again", action="store_true", help="also what was noticed by an earlier state of the tests")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="keeps the histories for the next run")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop then; the next run goes on from there"
    )
    parser.add_argument("--write", action="store_true", help="put the figures into docs/mutants.md")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    explained = frozenset(name for reason in explanations() for name in reason.mutants)
    known = Known(options.folder / "noticed.jsonl", _digest(options.cases), options.again, explained)
    deadline = time.monotonic() + options.seconds
    report = Report()
    evidence = Evidence([], [])
    for name in options.modules:
        source = (ROOT / "checkers" / f"{name}.py").read_text()
        mutants = mutants_of(f"checkers.{name}", source)
        if options.left:
            mutants = [mutant for mutant in mutants if known.hint(mutant) is None]
        for mutant in mutants:
            remember(mutant.module, known.hint(mutant))
        missing = known.missing(mutants, source, options.quick)
        if missing and name not in OUTSIDE and not evidence.random:
            evidence = Evidence.gather(options.folder, options.cases)
        trials = [
            partial(noticed_by, each, evidence, known.hint(each), not options.quick and each.name not in explained)
            for each in missing
        ]
        for mutant, noticed in zip(missing, _tried(trials, options.jobs), strict=False):
            known.learn(mutant, source, noticed, options.quick)
            if time.monotonic() > deadline:
                print(f"{name}: stopped at line {mutant.line}; run it again to go on")
                return 2
        report.add(name, {mutant: known[mutant] for mutant in mutants})
    report.print()
    if options.write:
        report.write(options.cases)
    return 0 if report.holds else 1


def _digest(cases: int) -> str:
    """Of all that could notice a mutant; checks and tests of cycles are not tried."""
    digest = hashlib.sha256(str(cases).encode())
    for folder in (ROOT / "tests" / "checkers", ROOT / "checkers"):
        for source in sorted(folder.glob("*.py")):
            if "cycle" not in source.name:
                digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


Trial = Callable[[], str | None]

_TRIALS: list[Trial] = []
"""Set before the fork, so that nothing of it is copied."""


def _begin() -> None:
    limit_memory()
    # what the tests write need not outlive them, and what they import is the same for every mutant
    os.fsync = lambda _: None  # type: ignore[assignment]
    sys.dont_write_bytecode = False


def _tried(trials: Sequence[Trial], jobs: int) -> Iterator[str | None]:
    """What each says; processes that fork share the evidence."""
    _TRIALS[:] = trials
    gc.freeze()  # the evidence is millions of objects, and none of them is ever garbage
    with multiprocessing.get_context("fork").Pool(jobs, _begin) as pool:
        yield from pool.imap(_try, range(len(trials)), chunksize=1)


def _try(number: int) -> str | None:
    return _TRIALS[number]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
