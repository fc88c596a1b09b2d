"""Histories with what must be said of them: random ones and the smallest, under several promises.

An exhibit is written once as a sealed history; Spark makes its rows once; the checks run on them in this
process and ``differences`` compares. The smallest histories are checked together and each alone, as the only
keys of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from checkers.promises import PromiseOverride
from histories.build import HistoryBuilder
from histories.meta import Meta
from tests.checkers.differences import differences
from tests.checkers.expected import Expected
from tests.checkers.in_process import Row, cases_of, write
from tests.checkers.merged import merged
from tests.checkers.reference import Cases, judge
from tests.checkers.rows import History, tables_of
from tests.checkers.smallest import GUILTY, INNOCENT, Writer
from tests.checkers.strategies import Generated, draw, generate, moved, union
from tests.checkers.terms import Terms

KEPT = PromiseOverride()
VARIANT_CASES = 300
SLOWER = 100_003
VARIANTS: dict[str, tuple[str, PromiseOverride]] = {
    "jepsen": ("jepsen", KEPT),
    "void": ("synthetic", PromiseOverride(void=True)),
    "unclean": ("synthetic", PromiseOverride(unclean=True)),
    "clean": ("synthetic", PromiseOverride(unclean=False)),
    "safe": ("synthetic", PromiseOverride(safe=True)),
    "unsafe": ("synthetic", PromiseOverride(safe=False)),
    "idempotent": ("synthetic", PromiseOverride(idempotent=True, void=False)),
    "repeating": ("synthetic", PromiseOverride(idempotent=False)),
    "unsorted": ("synthetic", KEPT),
}
"""Whose history it is, and what a person says of it; of ``unsorted`` the steps stand in no order."""


@dataclass(frozen=True)
class Exhibit:
    name: str
    folder: Path
    meta: Meta
    override: PromiseOverride
    drawn: Generated | None
    expected: dict[str, Cases]
    """When nothing was drawn at random."""
    beside: Expected | None = None
    """None: only cases are compared."""

    def differences(self, rows: list[Row]) -> Iterator[str]:
        """Between the reference and what the checks found."""
        yield from self.unlike(cases_of(rows))
        if self.beside is not None:
            yield from self.beside.differences(rows)

    def unlike(self, cases: dict[str, Cases]) -> Iterator[str]:
        if self.drawn is not None:
            yield from differences(self.drawn, cases)
        else:
            unlike = [name for name in self.expected if cases[name] != self.expected[name]]
            yield from (f"{name}: {cases[name]} and not {self.expected[name]}" for name in unlike)


def random_exhibit(folder: Path, name: str, drawn: Generated) -> Exhibit:
    return Exhibit(name, folder, write(folder, drawn.plain_tables(), drawn.meta), KEPT, drawn, {})


def variant_exhibit(folder: Path, name: str, cases: int = VARIANT_CASES) -> Exhibit:
    """Random histories under other promises, 100,003 times as slow; what cases point at is compared too."""
    origin, said = VARIANTS[name]
    drawn = generate(f"variant-{name}", cases)
    # who imports Jepsen's histories knows of no clock errors
    known = {} if origin == "jepsen" else drawn.meta.clock_error_ns
    errors = {worker: error * SLOWER for worker, error in known.items()}
    meta = replace(drawn.meta, origin=origin, clock_error_ns=errors)
    apart = [_slower(replace(moved(each, case), meta=meta)) for case, each in enumerate(drawn.histories)]
    own = [replace(each, meta=replace(each.meta, origin=origin, clock_error_ns=known)) for each in drawn.histories]
    drawn = replace(drawn, expected=tuple(judge(each, said) for each in own))
    mops = [row for each in apart for row in each.mops]
    if name == "unsorted":
        Random(name).shuffle(mops)
    tables = tables_of(
        [row for each in apart for row in each.ops],
        mops,
        [row for each in apart for row in each.coverage],
    )
    sealed = write(folder / name, tables, meta)
    beside = Expected.of(Terms(each, said) for each in apart)
    return Exhibit(f"random, {name}", folder / name, sealed, said, drawn, {}, beside)


def _slower(history: History) -> History:
    """Every time and so every lag is longer; all orders stay."""

    def later(ns: int | None) -> int | None:
        return None if ns is None else ns * SLOWER

    def moved_on(row: Any) -> Any:
        return replace(
            row,
            invoke_ns=row.invoke_ns * SLOWER,
            complete_ns=later(row.complete_ns),
            commit_ns=later(row.commit_ns),
        )

    return replace(
        history, ops=tuple(moved_on(each) for each in history.ops), mops=tuple(moved_on(each) for each in history.mops)
    )


def without_transactions(cases: int) -> Generated:
    all_drawn = (draw(Random(f"plain/{number}")) for number in range(100 * cases))
    plain = (each for each in all_drawn if all(op.f != "txn" for op in each.ops))
    return union(list(islice(plain, cases)))


def smallest_exhibits(folder: Path) -> Iterator[Exhibit]:
    """Each of the smallest histories alone; and as if Jepsen's consumers had recorded it."""
    for origin in ("synthetic", "jepsen"):
        for number, history in enumerate(_smallest()):
            each = replace(history, meta=replace(history.meta, origin=origin))
            where = folder / f"{origin}-{number}"
            beside = Expected.of([Terms(each, KEPT)])
            yield Exhibit(
                f"smallest {number}, {origin}", where, write(where, each.tables(), each.meta), KEPT, None,
                (judge(each)), beside,
            )  # fmt: skip


def together_exhibit(folder: Path) -> Exhibit:
    together = merged(_smallest())
    meta = write(folder, together.tables(), together.meta)
    return Exhibit("smallest together", folder, meta, KEPT, None, judge(together), Expected.of([Terms(together, KEPT)]))


def random_exhibits(folder: Path, seeds: Iterable[int], cases: int) -> Iterable[Exhibit]:
    for seed in seeds:
        yield random_exhibit(folder / f"random-{seed}", f"random {seed}", generate(seed, cases))
    yield random_exhibit(folder / "plain", "random, no transactions", without_transactions(cases))


def _smallest() -> list[History]:
    return [_built(each.write) for each in GUILTY] + [_built(each.write) for each in INNOCENT]


def _built(write_to: Writer) -> History:
    builder = HistoryBuilder()
    write_to(builder)
    return History.of(builder.tables(), builder.meta())
