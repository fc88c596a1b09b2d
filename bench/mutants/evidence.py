"""The histories that the tests compare with the reference, kept ready so that each mutant can be tried on them."""

from __future__ import annotations

import hashlib
import importlib
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import numpy as np

from bench.mutants.operators import Mutant
from bench.mutants.swap import swapped
from tests.checkers.exhibits import (
    VARIANTS,
    Exhibit,
    random_exhibits,
    smallest_exhibits,
    together_exhibit,
    variant_exhibit,
)
from tests.checkers.in_process import Collected, collect
from tests.checkers.local import local_context

SEEDS = range(1, 11)
FRESH = ("checkers", "tests.checkers.in_process")
MAKE_ROWS = ("checkers.load", "checkers.narrow", "checkers.scan", "checkers.exchange", "checkers.pipeline")
"""Mutants of these change the rows, so they are made anew."""
LIMIT_S = 120

Ready = tuple[Exhibit, Collected]


@dataclass(frozen=True)
class Evidence:
    smallest: list[Ready]
    random: list[Ready]
    digest: str = field(default="")
    """Of the sources that it was made from."""

    @staticmethod
    def gather(folder: Path, cases: int) -> Evidence:
        """Made in ``folder``, or found there from an earlier run with the same sources."""
        stored, digest = folder / "evidence.pickle", _digest(cases)
        if stored.exists():
            known, content = pickle.loads(stored.read_bytes())
            if known == digest:
                evidence = pickle.loads(content)
                assert isinstance(evidence, Evidence)
                return evidence
        scratch = folder / digest
        few = [together_exhibit(scratch / "together"), *smallest_exhibits(scratch)]
        variants = [variant_exhibit(scratch, name) for name in VARIANTS]
        many = [*variants, *random_exhibits(scratch, SEEDS, cases)]
        evidence = Evidence([_ready(each) for each in few], [_ready(each) for each in many], digest)
        evidence.notices(None)
        stored.write_bytes(pickle.dumps((digest, pickle.dumps(evidence))))
        return evidence

    def notices(self, mutant: Mutant | None) -> str | None:
        """Which of the two is the first to differ from the reference. Without a mutant none may."""
        if self._differs(mutant, self.smallest):
            return "smallest"
        return "random" if self._differs(mutant, self.random) else None

    def _differs(self, mutant: Mutant | None, exhibits: list[Ready]) -> bool:
        try:
            with _limited(LIMIT_S), swapped(mutant, FRESH), np.errstate(all="ignore"):
                in_process = importlib.import_module("tests.checkers.in_process")
                for exhibit, ready in exhibits:
                    collected = ready
                    if mutant is not None and mutant.module in MAKE_ROWS:
                        collected = in_process.collect(local_context(), exhibit.folder, exhibit.meta, exhibit.override)
                    line = next(exhibit.differences(in_process.check(collected)), None)
                    assert line is None, f"{exhibit.name}: {line}"
        except Exception:  # whatever a mutant breaks, it was noticed
            if mutant is None:
                raise
            return True
        return False


def _ready(exhibit: Exhibit) -> Ready:
    collected = collect(local_context(), exhibit.folder, exhibit.meta, exhibit.override)
    drawn = exhibit.drawn
    lean = replace(exhibit, drawn=None if drawn is None else replace(drawn, histories=(), tables={}))
    return lean, replace(collected, rows=collected.rows.combine_chunks())


def _digest(cases: int) -> str:
    """Of everything that the histories, their rows and the reference's word on them are made of."""
    digest = hashlib.sha256(str(cases).encode())
    made_with = [Path("histories") / f"{name}.py" for name in ("build", "meta", "schema")]
    row_makers = [Path(f"{name.replace('.', '/')}.py") for name in MAKE_ROWS]
    for source in sorted([*Path("tests/checkers").glob("*.py"), *made_with, *row_makers]):
        if not source.name.startswith("test_"):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
