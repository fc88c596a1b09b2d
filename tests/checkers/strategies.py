"""Random small histories: many at once from a seed, or one by one from Hypothesis, which can shrink them.

``generate(seed, cases)`` puts many cases into one set of tables as one history, with unmodified columns
beside an extra ``case``: their keys, values, processes and operations are disjoint, each case number times a
stride. A checker that does not know of cases judges all of them in one job, and ``case_of`` says to which
case a found identity belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import pyarrow as pa
from hypothesis import strategies as st

from histories.meta import Meta
from tests.checkers.mutate import mutate
from tests.checkers.reference import Cases, Identity, judge
from tests.checkers.rows import Coverage, History, Mop, Op, tables_of
from tests.checkers.simulate import BUGS, KEYS_PER_CASE, Draft, Simulation, meta

VALUES_PER_CASE: Final = 1000
PROCESSES_PER_CASE: Final = 16
OPS_PER_CASE: Final = 64
NS_PER_CASE: Final = 1_000_000

_OF_THE_OPERATION: Final = ("op", "process", "worker", "f", "type", "phase", "isolation", "commit_ns")


def draw(random: Random) -> History:
    """One history of 3 to 14 operations and its final scans: a third without any fault."""
    if random.random() < 0.34:
        return _history(Simulation(random).run(random.randint(3, 14)))
    bugs = frozenset(random.sample(BUGS, random.choice((0, 1, 1, 1, 2))))
    draft = Simulation(random, bugs).run(random.choice((random.randint(3, 14), 14)))
    if not bugs or random.random() < 0.4:
        mutate(random, draft)
    return _history(draft)


def draw_innocent(random: Random) -> History:
    return _history(Simulation(random).run(random.randint(3, 14)))


def histories() -> st.SearchStrategy[History]:
    return st.randoms(use_true_random=False).map(draw)


def innocent_histories() -> st.SearchStrategy[History]:
    return st.randoms(use_true_random=False).map(draw_innocent)


def _history(draft: Draft) -> History:
    ops, mops = [], []
    for op in draft.ops:
        repeated = {name: op[name] for name in _OF_THE_OPERATION}
        mops += [Mop(**repeated, **mop) for mop in op["mops"]]
        ops.append(Op(**{name: column for name, column in op.items() if name != "mops"}))
    mops.sort(key=lambda each: each.place)
    return History(tuple(ops), tuple(mops), tuple(Coverage(**each) for each in draft.coverage), meta())


# Many cases as one history


@dataclass(frozen=True)
class Generated:
    histories: tuple[History, ...]
    """Each case by itself, with its own small numbers."""
    tables: dict[str, pa.Table]
    """All of them as one history, with the column ``case``."""
    meta: Meta
    expected: tuple[dict[str, Cases], ...]
    """What the reference says of each case."""

    def plain_tables(self) -> dict[str, pa.Table]:
        """Without the column ``case``: exactly the schema of a history."""
        return {
            name: table.drop_columns(["case"]) if "case" in table.column_names else table
            for name, table in self.tables.items()
        }


def generate(seed: int | str, cases: int) -> Generated:
    drawn = tuple(draw(Random(f"{seed}/{case}")) for case in range(cases))
    return union(drawn)


def union(drawn: Sequence[History]) -> Generated:
    apart = [moved(history, case) for case, history in enumerate(drawn)]
    tables = tables_of(
        [row for history in apart for row in history.ops],
        [row for history in apart for row in history.mops],
        [row for history in apart for row in history.coverage],
    )
    for name, part in (("ops", "ops"), ("mops", "mops"), ("coverage", "coverage")):
        numbers = [case for case, history in enumerate(apart) for _ in getattr(history, part)]
        tables[name] = tables[name].append_column("case", pa.array(numbers, pa.int32()))
    return Generated(tuple(drawn), tables, meta(len(drawn)), tuple(judge(each) for each in drawn))


def moved(history: History, case: int) -> History:
    """As it stands in the union."""

    def key(each: int) -> int:
        return each if each == -1 else each + case * KEYS_PER_CASE

    def later(each: int | None) -> int | None:
        return None if each is None else each + case * NS_PER_CASE

    ops = tuple(
        replace(
            each,
            op=each.op + case * OPS_PER_CASE,
            process=each.process + case * PROCESSES_PER_CASE,
            invoke_ns=each.invoke_ns + case * NS_PER_CASE,
            complete_ns=later(each.complete_ns),
            commit_ns=later(each.commit_ns),
        )
        for each in history.ops
    )
    mops = tuple(
        replace(
            each,
            op=each.op + case * OPS_PER_CASE,
            process=each.process + case * PROCESSES_PER_CASE,
            key=key(each.key),
            value=None if each.value is None else each.value + case * VALUES_PER_CASE,
            invoke_ns=each.invoke_ns + case * NS_PER_CASE,
            complete_ns=later(each.complete_ns),
            commit_ns=later(each.commit_ns),
        )
        for each in history.mops
    )
    coverage = tuple(replace(each, key=key(each.key)) for each in history.coverage)
    return History(ops, mops, coverage, history.meta)


_STRIDES: Final[dict[str, int]] = {
    "key": KEYS_PER_CASE,
    "value": VALUES_PER_CASE,
    "process": PROCESSES_PER_CASE,
    "op": OPS_PER_CASE,
}
_OF_VALUE: Final = ("key", "value")
_OF_PLACE: Final = ("process", "key", "op", "mop", "pos")

IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    "lost-write": _OF_VALUE,
    "vanished-read": _OF_VALUE,
    "duplicate": _OF_VALUE,
    "misplaced-ack": _OF_VALUE,
    "inconsistent-offset": ("key", "offset"),
    "phantom": ("key", "offset", "value"),
    "aborted-read": _OF_VALUE,
    "early-read": _OF_VALUE,
    "torn-transaction": ("op",),
    "unseen": _OF_VALUE,
    "int-poll-skip": _OF_PLACE,
    "int-nonmonotonic-poll": _OF_PLACE,
    "poll-skip": _OF_PLACE,
    "nonmonotonic-poll": _OF_PLACE,
    "int-nonmonotonic-send": _OF_PLACE,
    "nonmonotonic-send": _OF_PLACE,
    "realtime-order": _OF_VALUE,
    "int-send-skip": ("op", "key", "mop", "pos"),
}
"""The columns that tell the cases of an anomaly apart, in the order of the reference's identities."""


def case_of(anomaly: str, identity: Identity) -> tuple[int, Identity]:
    """The case of an identity found in the union, and the identity inside that case."""
    columns = IDENTITY[anomaly]
    whose = next(name for name in columns if name in ("key", "op"))
    number = identity[columns.index(whose)]
    assert number is not None
    case = number // _STRIDES[whose]
    return case, tuple(
        each if each is None else each - case * _STRIDES.get(name, 0)
        for name, each in zip(columns, identity, strict=True)
    )
