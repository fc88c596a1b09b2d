"""One mutant against the suite: histories first, then the tests that import what it changed."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
from functools import cache
from pathlib import Path

import pytest

from bench.mutants.evidence import Evidence
from bench.mutants.limits import limited
from bench.mutants.operators import Mutant
from bench.mutants.swap import swapped

ROOT = Path(__file__).resolve().parents[2]
COMPARED = ("test_against_reference", "test_in_process", "test_reference", "test_smallest", "test_jvm")
"""Tests that are tried already, or do not touch the checks."""
OUTSIDE = (
    "exercise", "coverage", "assumptions", "doubts", "agreement", "metrics", "judge", "result", "replicas", "replica_logs",
)  # fmt: skip
"""No row passes through them, so the histories need not be tried."""
WHOLE = ("checkers", "tests")
NEEDLESS = ("cacheprovider", "warnings", "unraisableexception", "threadexception", "faulthandler", "logging")
"""Of pytest; one of them collects garbage, which takes longer than most tests."""
STAGES = ("smallest", "random", "unit", "judge")


MOST_LIKELY = 8

_LATELY: dict[str, list[str]] = {}
"""What noticed the mutants of each module, the latest first: it often notices the next one too."""


def remember(module: str, noticed: str | None) -> None:
    if noticed is not None:
        _LATELY[module] = [noticed, *(each for each in _LATELY.get(module, ()) if each != noticed)]


def noticed_by(mutant: Mutant, evidence: Evidence, hint: str | None, judged: bool) -> str | None:
    """Stage and name of what notices it; ``hint`` noticed it before and is tried first."""
    noticed = _noticed_by(mutant, evidence, hint, _LATELY.get(mutant.module, []), judged)
    remember(mutant.module, noticed)
    return noticed


def _noticed_by(mutant: Mutant, evidence: Evidence, hint: str | None, lately: list[str], judged: bool) -> str | None:
    stage, _, name = (hint or "").partition(": ")
    if stage in ("unit", "judge") and _failing(mutant, [name]) is not None:
        return hint
    if mutant.module.rpartition(".")[2] not in OUTSIDE:
        exhibit = evidence.notices(mutant, hint, lately)
        if exhibit is not None:
            return exhibit
    for stage in ("unit", "judge") if judged else ("unit",):
        likely = [name for kind, _, name in (each.partition(": ") for each in lately) if kind == stage]
        test = _failing(mutant, likely[:MOST_LIKELY])
        test = test or _failing(mutant, _relevant(mutant.module, spark=stage == "judge"))
        if test is not None:
            return f"{stage}: {test}"
    return None


def tests() -> list[Path]:
    files = (ROOT / "tests" / "checkers").glob("test_*.py")
    return sorted(each for each in files if each.stem not in COMPARED)


def _failing(mutant: Mutant, chosen: list[str]) -> str | None:
    """The first of these tests that fails."""
    if not chosen:
        return None
    heard, first = io.StringIO(), _FirstFailure()
    options = [
        "-x",
        "-q",
        "--assert=plain",
        "--rootdir",
        str(ROOT),
        *(word for each in NEEDLESS for word in ("-p", f"no:{each}")),
    ]
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), limited(), swapped(mutant, WHOLE):
            session = importlib.import_module("checkers.session")
            local = importlib.import_module("tests.checkers.local")
            session.start = lambda _: local.local_context()  # type: ignore[attr-defined]
            code = pytest.main([*options, *chosen], plugins=[first])
    except Exception:  # noqa: BLE001 - a mutant that cannot even be imported was noticed
        return chosen[0]
    if code == pytest.ExitCode.USAGE_ERROR:  # a test that noticed it before and is no more
        return None
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED), heard.getvalue()
    return None if code == pytest.ExitCode.OK else first.name or chosen[0]


class _FirstFailure:
    """Its name; of an interruption, what was interrupted."""

    def __init__(self) -> None:
        self.name = ""
        self._failed = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self._failed:
            self.name = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self.name, self._failed = report.nodeid, True


@cache
def _relevant(module: str, spark: bool) -> list[str]:
    """The tests that import the module, directly or not; those of its own name first."""
    own = f"test_{module.rpartition('.')[2]}"
    files = [each for each in tests() if ("mark.spark" in each.read_text()) == spark and module in _imports(each)]
    return [str(each.relative_to(ROOT)) for each in sorted(files, key=lambda each: not each.stem.startswith(own))]


@cache
def _imports(source: Path) -> frozenset[str]:
    """Of our own checks and their tests."""
    found: set[str] = set()
    todo = [source]
    while todo:
        for name in _named(todo.pop()) - found:
            found.add(name)
            todo.append(ROOT / f"{name.replace('.', '/')}.py")
    return frozenset(found)


def _named(source: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
    ours = {each for each in names if each.startswith(("checkers.", "tests.checkers."))}
    return {each for each in ours if (ROOT / f"{each.replace('.', '/')}.py").exists()}
