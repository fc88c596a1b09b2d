"""Does the test suite notice every broken condition of the checkers? Run by hand.

    python -m bench.mutants [--modules values order ...] [--cases 1000] [--seconds 170]

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
import ast
import contextlib
import gc
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from bench.mutants.evidence import Evidence
from bench.mutants.operators import Mutant, mutants_of
from bench.mutants.swap import swapped

ROOT = Path(__file__).resolve().parents[2]
CONDITIONS = ("values", "order", "promises", "exercise", "coverage", "assumptions", "load", "narrow")
BEYOND = ("rows", "partition", "found", "steps", "metrics", "judge", "scan", "exchange", "pipeline")
"""Not conditions of a definition, but on the way to the verdict."""
COMPARED = ("test_against_reference", "test_in_process", "test_reference", "test_smallest", "test_jvm")
"""Tests that are tried already, or do not touch the checks."""
WHOLE = ("checkers", "tests")
FOLDER = Path(tempfile.gettempdir()) / "tidemark-mutants"
STAGES = ("smallest", "random", "unit", "judge")
OUTSIDE = ("exercise", "coverage", "assumptions", "metrics", "judge")
"""No row passes through them, so the histories need not be tried."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="+", choices=CONDITIONS + BEYOND, default=list(CONDITIONS + BEYOND))
    parser.add_argument("--cases", type=int, default=1000, help="random histories in each of the eleven sets")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="without the judge's tests")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="keeps the histories for the next run")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop then; the next run goes on from there"
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    evidence = Evidence.gather(options.folder, options.cases)
    explained = _explained()
    known = Known(options.folder / "noticed.jsonl", evidence)
    deadline = time.monotonic() + options.seconds
    table: list[tuple[str, int, Counter[str]]] = []
    left: list[Mutant] = []
    wrong: list[str] = []
    for name in options.modules:
        source = (ROOT / "checkers" / f"{name}.py").read_text()
        mutants = mutants_of(f"checkers.{name}", source)
        missing = [mutant for mutant in mutants if not known.tells(mutant, options.quick)]
        judged = [not options.quick and mutant.name not in explained for mutant in missing]
        for mutant, noticed in zip(missing, _tried(evidence, missing, judged, options.jobs), strict=False):
            known.learn(mutant, noticed, options.quick)
            if time.monotonic() > deadline:
                print(f"{name}: stopped at line {mutant.line}; run it again to go on")
                return 2
        by = Counter(known[mutant] or "nothing" for mutant in mutants)
        left += [mutant for mutant in mutants if known[mutant] is None]
        wrong += [mutant.name for mutant in mutants if mutant.name in explained and known[mutant] is not None]
        print(f"{name}: {len(mutants)} mutants, {by['nothing']} left", flush=True)
        table.append((name, len(mutants), by))
    return _report(table, left, explained, wrong)


class Known:
    """What noticed each mutant, line by line on disk: a run that was stopped goes on where it was."""

    def __init__(self, path: Path, evidence: Evidence) -> None:
        self._path = path
        self._sources = evidence.digest + _digest()
        self._noticed: dict[str, str | None] = {}
        self._quick: set[str] = set()
        for line in path.read_text().splitlines() if path.exists() else ():
            row = json.loads(line)
            if row["sources"] == self._sources:
                self._noticed[row["mutant"]] = row["noticed"]
                (self._quick.add if row["quick"] else self._quick.discard)(row["mutant"])

    def __getitem__(self, mutant: Mutant) -> str | None:
        return self._noticed[self._name(mutant)]

    def tells(self, mutant: Mutant, quick: bool) -> bool:
        """What was left by a quick run is tried again by a thorough one."""
        name = self._name(mutant)
        return name in self._noticed and (self._noticed[name] is not None or quick or name not in self._quick)

    def learn(self, mutant: Mutant, noticed: str | None, quick: bool) -> None:
        name = self._name(mutant)
        self._noticed[name] = noticed
        with self._path.open("a") as file:
            file.write(
                json.dumps({"sources": self._sources, "mutant": name, "noticed": noticed, "quick": quick}) + "\n"
            )

    @staticmethod
    def _name(mutant: Mutant) -> str:
        return f"{hashlib.sha256(ast.unparse(mutant.tree).encode()).hexdigest()[:16]} {mutant.name}"


def _digest() -> str:
    digest = hashlib.sha256()
    own = [str(each) for each in sorted((ROOT / "checkers").glob("*.py"))]
    for source in [*_tests(spark=False), *_tests(spark=True), *own]:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()[:16]


def _tried(evidence: Evidence, mutants: list[Mutant], judged: list[bool], jobs: int) -> Iterator[str | None]:
    """What notices each of them; processes that fork share the evidence."""
    _TRIALS[:] = [partial(_noticed_by, mutant, evidence, also) for mutant, also in zip(mutants, judged, strict=True)]
    gc.freeze()  # the evidence is millions of objects, and none of them is ever garbage
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(_try, range(len(mutants)), chunksize=1)


_TRIALS: list[Callable[[], str | None]] = []
"""Set before the fork, so that nothing of it is copied."""


def _try(number: int) -> str | None:
    return _TRIALS[number]()


def _noticed_by(mutant: Mutant, evidence: Evidence, judged: bool) -> str | None:
    outside = mutant.module.rpartition(".")[2] in OUTSIDE
    noticed = None if outside else evidence.notices(mutant)
    if noticed is None and _tests_notice(mutant, spark=False):
        return "unit"
    if noticed is None and judged and _tests_notice(mutant, spark=True):
        return "judge"
    return noticed


def _tests_notice(mutant: Mutant, spark: bool) -> bool:
    heard = io.StringIO()
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), swapped(mutant, WHOLE):
            session = importlib.import_module("checkers.session")
            local = importlib.import_module("tests.checkers.local")
            session.start = lambda _: local.local_context()  # type: ignore[attr-defined]
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:warnings", *_tests(spark)])
    except Exception:  # noqa: BLE001 - a mutant that cannot even be imported was noticed
        return True
    known = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert code in known, heard.getvalue()
    return code != pytest.ExitCode.OK


def _tests(spark: bool) -> list[str]:
    files = [each for each in (ROOT / "tests" / "checkers").glob("test_*.py") if each.stem not in COMPARED]
    return [str(each) for each in sorted(files) if ("mark.spark" in each.read_text()) == spark]


def _report(
    table: Sequence[tuple[str, int, Counter[str]]], left: list[Mutant], explained: set[str], wrong: list[str]
) -> int:
    print("\n| module | mutants | noticed by smallest | else by random | else by unit | else by judge | left |")
    print("|---|---|---|---|---|---|---|")
    for name, count, by in table:
        print(f"| {name} | {count} | {' | '.join(str(by[each]) for each in (*STAGES, 'nothing'))} |")
    unexplained = [each for each in left if each.name not in explained]
    print(f"\n{len(left)} mutants are left, {len(unexplained)} of them unexplained:")
    for mutant in unexplained:
        print(f"  {mutant.module.replace('.', '/')}.py:{mutant.line}: {mutant.name}")
    for name in wrong:
        print(f"  explained, and yet it was noticed: {name}")
    return 1 if unexplained or wrong else 0


def _explained() -> set[str]:
    groups = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text()).get("because", [])
    return {name for group in groups for name in group["mutants"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
