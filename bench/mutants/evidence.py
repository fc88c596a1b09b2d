"""The histories that the tests compare with the reference, kept ready so that each mutant can be tried on them."""

from __future__ import annotations

import hashlib
import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench.mutants.limits import limited
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
FRESH = ("checkers", "tests.checkers.in_process", "tests.checkers.on_spark")
MAKE_ROWS = ("checkers.load", "checkers.narrow", "checkers.scan", "checkers.exchange", "checkers.pipeline")
"""Mutants of these change the rows, so they are made anew."""
APART = ("test_", "cycle_")
"""What begins so is no source of a history here."""
HAND_WRITTEN = ("smallest", "merged")
"""Sources that the random histories do not depend on."""

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
        few_from, many_from = _digest(""), _digest(str(cases), without=HAND_WRITTEN)
        few = _stored(folder / "smallest.pickle", few_from, lambda: _few(folder / few_from))
        many = _stored(folder / "random.pickle", many_from, lambda: _many(folder / many_from, cases))
        evidence = Evidence(few, many, few_from + many_from)
        evidence.notices(None, None)
        return evidence

    def notices(self, mutant: Mutant | None, hint: str | None, lately: Sequence[str] = ()) -> str | None:
        """The first exhibit in which it differs from the reference, if any; ``hint`` is tried before the others, and in
        each stage those that noticed others ``lately``. Without a mutant none may."""
        stages = (("smallest", self.smallest), ("random", self.random))
        for stage, exhibits in stages:
            likely = [each for each in exhibits if f"{stage}: {each[0].name}" == hint]
            if likely and _differs(mutant, likely) is not None:
                return hint
        for stage, exhibits in stages:
            order = {name: rank for rank, name in enumerate(lately)}
            likely_first = sorted(exhibits, key=lambda each: order.get(f"{stage}: {each[0].name}", len(order)))
            name = _differs(mutant, likely_first)
            if name is not None:
                return f"{stage}: {name}"
        return None


def _differs(mutant: Mutant | None, exhibits: list[Ready]) -> str | None:
    name = ""
    try:
        with limited(), swapped(mutant, FRESH), np.errstate(all="ignore"):
            in_process = importlib.import_module("tests.checkers.in_process")
            for exhibit, ready in exhibits:
                name = exhibit.name
                collected = ready
                if mutant is not None and mutant.module in MAKE_ROWS:
                    collected = in_process.collect(local_context(), exhibit.folder, exhibit.meta, exhibit.override)
                line = next(exhibit.differences(in_process.check(collected)), None)
                assert line is None, f"{exhibit.name}: {line}"
                if mutant is not None and mutant.module in MAKE_ROWS:
                    on_spark = importlib.import_module("tests.checkers.on_spark")
                    cases = on_spark.cases_on_spark(local_context(), exhibit.folder, exhibit.meta, exhibit.override)
                    assert next(exhibit.unlike(cases), None) is None, exhibit.name
    except Exception:  # whatever a mutant breaks, it was noticed
        if mutant is None:
            raise
        return name
    return None


def _few(scratch: Path) -> Iterator[Exhibit]:
    yield together_exhibit(scratch / "together")
    yield from smallest_exhibits(scratch)


def _many(scratch: Path, cases: int) -> Iterator[Exhibit]:
    for name in VARIANTS:
        yield variant_exhibit(scratch, name)
    yield from random_exhibits(scratch, SEEDS, cases)


def _stored(path: Path, digest: str, make: Callable[[], Iterable[Exhibit]]) -> list[Ready]:
    if path.exists():
        with path.open("rb") as file:
            if pickle.load(file) == digest:
                ready: list[Ready] = pickle.load(file)
                return ready
    ready = [_ready(each) for each in make()]
    with path.open("wb") as file:
        pickle.dump(digest, file)
        pickle.dump(ready, file)
    return ready


def _ready(exhibit: Exhibit) -> Ready:
    collected = collect(local_context(), exhibit.folder, exhibit.meta, exhibit.override)
    drawn = exhibit.drawn
    lean = replace(exhibit, drawn=None if drawn is None else replace(drawn, histories=(), tables={}))
    return lean, replace(collected, rows=collected.rows.combine_chunks())


def _digest(also: str, without: tuple[str, ...] = ()) -> str:
    """Of everything that the histories, their rows and the reference's word on them are made of."""
    digest = hashlib.sha256(also.encode())
    made_with = [Path("histories") / f"{name}.py" for name in ("build", "meta", "schema")]
    row_makers = [Path(f"{name.replace('.', '/')}.py") for name in MAKE_ROWS]
    for source in sorted([*Path("tests/checkers").glob("*.py"), *made_with, *row_makers]):
        if not source.name.startswith(APART) and source.stem not in without:
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
