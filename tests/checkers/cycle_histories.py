"""Random small histories of transactions, from a store that is often right and sometimes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from checkers.cycles.edges import Ints, KeysReport
from checkers.cycles.inside import NODE, CyclesReport, search_windows
from checkers.cycles.lists import check_lists
from checkers.cycles.registers import check_registers
from checkers.cycles.windows import Placed, merged, windows_of
from checkers.load import NONE
from tests.checkers.cycle_reference import Mop, Txn

TYPES = ("ok", "fail", "info")


@dataclass
class Drawn:
    lists: bool
    cases: list[list[Txn]]

    def columns(self) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """Elements and transactions of all cases, one after the other in time."""
        elements: dict[str, list[int]] = {
            name: [] for name in ("op", "mop", "pos", "kind", "key", "value", "type", "complete_at")
        }
        txns: dict[str, list[int]] = {name: [] for name in ("process", "type", "invoke_at", "complete_at")}
        for txn in (each for case in self.cases for each in case):
            complete = NONE if txn.complete is None else txn.complete
            row = (txn.process, TYPES.index(txn.type), txn.invoke, complete)
            for name, number in zip(txns, row, strict=True):
                txns[name].append(number)
            for number, (kind, key, said) in enumerate(txn.mops):
                if kind == "r" and txn.type != "ok":
                    continue
                values: list[int | None] = [said] if not isinstance(said, list) else [*said] or [None]
                for pos, value in enumerate(values):
                    found = NONE if value is None else value
                    place = NONE if kind == "w" or value is None else pos
                    told = (txn.op, number, place, int(kind == "r"), key, found, TYPES.index(txn.type), complete)
                    for name, each in zip(elements, told, strict=True):
                        elements[name].append(each)
        return tuple({n: np.array(c, np.int64) for n, c in table.items()} for table in (elements, txns))  # type: ignore[return-value]


def draw(seed: int, cases: int, lists: bool) -> Drawn:
    rng = random.Random(seed)
    made: list[list[Txn]] = []
    op = time = 0
    for number in range(cases):
        case = _case(rng, lists, number * 3)
        made.append([replace(
            txn, op=txn.op + op, process=txn.process + 10 * number, invoke=txn.invoke + time,
            complete=None if txn.complete is None else txn.complete + time,
        ) for txn in case])  # fmt: skip
        op += len(case)
        time += 100
    return Drawn(lists, made)


def _case(rng: random.Random, lists: bool, first_key: int) -> list[Txn]:
    processes = rng.randint(2, 4)
    count = rng.randint(3, 9)
    wrong = rng.choice((0.0, 0.0, 0.15, 0.4))
    free = list(range(processes))
    running: list[tuple[int, int, int, list[Mop]]] = []
    state: dict[int, list[int]] = {first_key + each: [] for each in range(3)}
    counter = dict.fromkeys(state, 0)
    done: list[Txn] = []
    op = now = 0
    next_process = processes
    while op < count or running:
        now += 1
        if op < count and free and (not running or rng.random() < 0.55):
            process = free.pop(rng.randrange(len(free)))
            mops: list[Mop] = []
            for _ in range(rng.randint(1, 4)):
                key = rng.choice(list(state))
                if rng.random() < 0.5:
                    counter[key] += 1
                    mops.append(("w", key, counter[key]))
                else:
                    mops.append(("r", key, None))
            running.append((op, process, now, mops))
            op += 1
            continue
        number, process, invoke, mops = running.pop(rng.randrange(len(running)))
        fate = rng.choices(TYPES, (8, 1, 1.5))[0]
        happened = fate == "ok" or (fate == "info" and rng.random() < 0.5) or rng.random() < wrong / 3
        mops = _did(rng, mops, state, wrong, lists, happened)
        complete = None if fate == "info" and rng.random() < 0.5 else now
        done.append(Txn(number, process, fate, invoke, complete, tuple(mops)))
        free.append(next_process if fate == "info" else process)
        next_process += fate == "info"
    return sorted(done, key=lambda each: each.op)


def _did(
    rng: random.Random, mops: list[Mop], state: dict[int, list[int]], wrong: float, lists: bool, happened: bool
) -> list[Mop]:
    mine = {key: list(values) for key, values in state.items()}
    told: list[Mop] = []
    for kind, key, value in mops:
        if kind == "w":
            assert isinstance(value, int)
            place = rng.randint(0, len(mine[key])) if rng.random() < wrong / 2 else len(mine[key])
            mine[key].insert(place, value)
            told.append((kind, key, value))
            continue
        seen = list(mine[key])
        if rng.random() < wrong:
            action = rng.randrange(5)
            if action <= 1 and seen:
                seen = seen[: rng.randrange(len(seen))]
            elif action == 2:
                seen = [*seen, rng.randint(1, 6)]
            elif action == 3 and len(seen) > 1:
                seen[-1], seen[-2] = seen[-2], seen[-1]
            else:
                seen = list(state[key])
        told.append(("r", key, seen if lists else (seen[-1] if seen else None)))
    if happened:
        for key, values in mine.items():
            if rng.random() >= wrong / 3:
                state[key] = values
    return told


def search_columns(
    elements: dict[str, Ints], txns: dict[str, Ints], lists: bool, parts: int = 3
) -> tuple[list[KeysReport], CyclesReport]:
    """What the Spark jobs do, in this process; the keys in several partitions, as Spark has them."""
    check = check_lists if lists else check_registers
    reports: list[KeysReport] = []
    for part in range(parts):
        mine = elements["key"] % parts == part
        if mine.any():
            reports.append(check({name: column[mine] for name, column in elements.items()}, None))
    assert not sum(each.rewritten for each in reports)
    seen_op, seen_at = (np.concatenate([getattr(each, name) for each in reports]) for name in ("seen_op", "seen_at"))
    placed = Placed.of(txns["process"], txns["type"], txns["invoke_at"], txns["complete_at"], seen_op, seen_at)
    edges = {name: np.concatenate([each.edges[name] for each in reports]) for name in reports[0].edges}
    each_own = [windows_of(placed.rank[each.edges["src"]], placed.rank[each.edges["dst"]]) for each in reports]
    windows = merged(np.concatenate([each.low for each in each_own]), np.concatenate([each.high for each in each_own]))
    window = windows.of(placed.rank)
    inside = (window[edges["src"]] >= 0) & (window[edges["src"]] == window[edges["dst"]])
    op = np.flatnonzero(window >= 0)
    nodes = {"op": op, "window": window[op], **{name: getattr(placed, name)[op] for name in NODE[2:]}}
    return reports, search_windows(nodes, {name: column[inside] for name, column in edges.items()}, None)
