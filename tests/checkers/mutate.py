"""Small damage to a finished history, row by row: what no simulated bug would think of.

What the checks assume stays true: values are sent once, places are unique, and nothing completes before it
was invoked.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.checkers.simulate import Draft, Row

Mutation = Callable[[Random, Draft], None]


def mutate(random: Random, draft: Draft) -> None:
    for _ in range(random.randint(1, 3)):
        random.choice(MUTATIONS)(random, draft)


def _rows(draft: Draft, kind: str) -> list[tuple[Row, Row]]:
    return [(op, mop) for op in draft.ops for mop in op["mops"] if mop["kind"] == kind]


def _neighbours(random: Random, draft: Draft, kind: str) -> tuple[Row, Row] | None:
    """Two rows of one process and key, one after the other."""
    rows = _rows(draft, kind)
    pairs = []
    for index, (op, mop) in enumerate(rows):
        later = [
            other
            for other_op, other in rows[index + 1 :]
            if (other_op["process"], other["key"]) == (op["process"], mop["key"])
        ]
        if later:
            pairs.append((mop, later[0]))
    return random.choice(pairs) if pairs else None


def swap_acknowledgements(random: Random, draft: Draft) -> None:
    pair = _neighbours(random, draft, "send")
    if pair:
        a, b = pair
        a["offset"], b["offset"] = b.get("offset"), a.get("offset")


def swap_polled(random: Random, draft: Draft) -> None:
    pair = _neighbours(random, draft, "poll")
    if pair:
        a, b = pair
        for name in random.choice((("offset",), ("value",), ("offset", "value"))):
            a[name], b[name] = b[name], a[name]


def drop_polled(random: Random, draft: Draft) -> None:
    rows = _rows(draft, "poll")
    if rows:
        op, mop = random.choice(rows)
        op["mops"].remove(mop)


def forget_value(random: Random, draft: Draft) -> None:
    """Nobody ever read it; or the scans did not find it."""
    rows = _rows(draft, "poll")
    if rows:
        value = random.choice(rows)[1]["value"]
        phases = random.choice((("main", "final"), ("final",)))
        for op in draft.ops:
            if op["phase"] in phases:
                op["mops"] = [m for m in op["mops"] if m["kind"] != "poll" or m["value"] != value]


def repeat_polled(random: Random, draft: Draft) -> None:
    pair = _neighbours(random, draft, "poll")
    if pair:
        a, b = pair
        b["value"] = a["value"]
        b["offset"] = random.choice((a["offset"], b["offset"]))


def nudge_offset(random: Random, draft: Draft) -> None:
    rows = [each for each in _rows(draft, random.choice(("send", "poll", "seek"))) if each[1].get("offset")]
    if rows:
        random.choice(rows)[1]["offset"] += random.choice((-1, 1, 2))


def change_outcome(random: Random, draft: Draft) -> None:
    if random.random() < 0.5:
        op = random.choice(draft.ops)
        op["type"] = random.choice(("ok", "fail", "fail"))
    elif rows := [each for each in _rows(draft, "send") if each[0]["f"] == "send"]:
        mop = random.choice(rows)[1]
        mop["status"] = random.choice(("ok", "fail", "info"))
        if mop["status"] == "info":
            mop["offset"] = None


def change_isolation(random: Random, draft: Draft) -> None:
    """Of one process throughout, as a consumer has one isolation; or of one operation."""
    op = random.choice(draft.ops)
    if op["isolation"] is not None and op["phase"] == "main":
        isolation = random.choice(("read_committed", "read_uncommitted", None))
        for each in draft.ops if random.random() < 0.5 else [op]:
            if each["process"] == op["process"] and each["isolation"] is not None:
                each["isolation"] = isolation


def move_send_in_time(random: Random, draft: Draft) -> None:
    """Earlier or later by about what the clock errors are."""
    rows = _rows(draft, "send")
    if rows:
        mop = random.choice(rows)[1]
        by = random.randint(-25, 25)
        mop["invoke_ns"] = max(0, mop["invoke_ns"] + by)
        if mop["complete_ns"] is not None:
            mop["complete_ns"] = max(mop["invoke_ns"], mop["complete_ns"] + by)


def move_commit(random: Random, draft: Draft) -> None:
    txns = [op for op in draft.ops if op["commit_ns"] is not None]
    if txns:
        random.choice(txns)["commit_ns"] += random.randint(1, 90)


def forget_topic(random: Random, draft: Draft) -> None:
    rows = _rows(draft, random.choice(("send", "send", "poll", "seek")))
    if rows:
        random.choice(rows)[1]["key"] = -1


def change_coverage(random: Random, draft: Draft) -> None:
    if draft.coverage:
        row = random.choice(draft.coverage)
        kind = random.random()
        if kind < 0.5:
            row["complete"] = not row["complete"]
        elif kind < 0.9:
            row["log_start"] = max(0, (row["log_start"] or 0) + random.choice((-2, -1, 1, 2)))
        else:
            row["log_start"] = None


def drop_boundary(random: Random, draft: Draft) -> None:
    rows = [each for kind in ("seek", "reset", "resume") for each in _rows(draft, kind)]
    if rows:
        op, mop = random.choice(rows)
        op["mops"].remove(mop)


def forget_where_or_when_polled(random: Random, draft: Draft) -> None:
    rows = _rows(draft, "poll")
    if rows:
        random.choice(rows)[1][random.choice(("offset", "complete_ns"))] = None


def forget_producer(random: Random, draft: Draft) -> None:
    rows = _rows(draft, "send")
    if rows:
        random.choice(rows)[1]["producer"] = None


MUTATIONS: tuple[Mutation, ...] = (
    swap_acknowledgements,
    swap_polled,
    drop_polled,
    forget_value,
    repeat_polled,
    nudge_offset,
    change_outcome,
    change_isolation,
    move_send_in_time,
    move_commit,
    forget_topic,
    change_coverage,
    drop_boundary,
    forget_where_or_when_polled,
    forget_producer,
)
