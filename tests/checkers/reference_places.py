"""Which operations, offsets and values each case points at, in plain Python: a person starts looking there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.checkers.reference import (
    Identity,
    is_missing_from_a_scan,
    is_phantom,
    should_be_in_committed_scan,
    successive,
    successive_sends,
)
from tests.checkers.rows import Mop
from tests.checkers.terms import Terms

Place = dict[str, int | None]
Places = dict[tuple[str, Identity], Place]
Part = tuple[str, int, int, int, int | None, int | None, bool]
"""Present or missing, op, process, key, value, offset, whether its loss is fatal."""


class Holder(NamedTuple):
    """A step that shows a value to be at an offset."""

    value: int | None
    process: int
    op: int
    step: int


OF_VALUES = ("lost-write", "vanished-read", "duplicate", "misplaced-ack", "aborted-read", "early-read", "unseen")


def places(terms: Terms) -> Places:
    """Of every case that could be; ``inconsistent-offset`` may show any two :func:`holders` of its values."""
    found: Places = {}
    for key, value in {(each.key, each.value) for each in (*terms.sends, *terms.records)}:
        place = _of_value(terms, key, value)
        for anomaly in OF_VALUES:
            found[anomaly, (key, value)] = place
        found["lost-write", (key, value)] = place | _beyond(terms, key, value)
    for inside in (True, False):
        prefix = "int-" if inside else ""
        for _, a, b in successive(terms, inside):
            for kind in ("poll-skip", "nonmonotonic-poll"):
                found[f"{prefix}{kind}", (b.process, b.key, *b.place)] = _of_pair(a, b)
        for a, b in successive_sends(terms, inside):
            found[f"{prefix}nonmonotonic-send", (b.process, b.key, *b.place)] = _of_pair(a, b)
            if inside:
                found["int-send-skip", (b.op, b.key, b.mop, b.pos)] = _of_pair(a, b)
    found.update(_overtaken(terms))
    found.update(_phantoms(terms))
    found.update(_torn(terms))
    return found


def _step(each: Mop) -> int:
    return each.mop * 2**32 + each.pos


def _of_value(terms: Terms, key: int, value: int | None) -> Place:
    send = terms.sent.get((key, value))
    reads = [each for each in terms.records if (each.key, each.value) == (key, value)]
    offsets = sorted(each.offset for each in reads if each.offset is not None)
    first_reader = min((each.op for each in reads), default=None)
    lowest, highest = (offsets[0], offsets[-1]) if offsets else (None, None)
    return {
        "offset": lowest if send is None else terms.known_offset(send),
        "process": None if send is None else send.process,
        "op": first_reader if send is None else send.op,
        "step": None if send is None else _step(send),
        "other_op": first_reader,
        "other_offset": highest,
    }


def _beyond(terms: Terms, key: int, value: int | None) -> Place:
    """How far the furthest reader got that passed it, where no scan lacks it."""
    send = terms.sent.get((key, value))
    offset = None if send is None else terms.acknowledged_offset(send)
    if send is None or offset is None or terms.reads(send) or is_missing_from_a_scan(terms, send):
        return {}
    from_beginning = terms.meta.origin == "jepsen"
    ends = [
        max(terms.offset(record) for record in position.records)
        for position in terms.positions
        if position.key == key and position.start(from_beginning) <= offset
    ]
    furthest = max(ends, default=-1)
    return {"other_offset": furthest} if furthest > offset else {}


def _of_pair(a: Mop, b: Mop) -> Place:
    return {
        "value": b.value,
        "offset": b.offset,
        "process": b.process,
        "op": b.op,
        "step": _step(b),
        "other_op": a.op,
        "other_offset": a.offset,
        "other_value": a.value,
    }


def _overtaken(terms: Terms) -> Iterator[tuple[tuple[str, Identity], Place]]:
    acknowledged = [each for each in terms.sends if terms.acknowledged_offset(each) is not None]
    for b in acknowledged:
        before = [
            terms.offset(a)
            for a in acknowledged
            if a.key == b.key
            and a.complete_ns is not None
            and terms.is_before(a.complete_ns, a.worker, b.invoke_ns, b.worker)
        ]
        place: Place = {"offset": b.offset, "process": b.process, "op": b.op, "step": _step(b)}
        yield ("realtime-order", (b.key, b.value)), place | {"other_offset": max(before, default=None)}


def _phantoms(terms: Terms) -> Iterator[tuple[tuple[str, Identity], Place]]:
    """The first to see it; who saw more than a bad checksum goes before."""
    seen = sorted((each for each in terms.polls if is_phantom(terms, each)), key=lambda each: each.place, reverse=True)
    for poll in sorted(seen, key=lambda each: each.defect != "checksum"):
        yield (
            ("phantom", (poll.key, poll.offset, poll.value)),
            {
                "process": poll.process,
                "op": poll.op,
                "step": _step(poll),
            },
        )


def _torn(terms: Terms) -> Iterator[tuple[tuple[str, Identity], Place]]:
    """The missing value of the lowest key."""
    missing = [each for each in parts(terms) if each[0] == "#txn-missing"]
    for _, op, process, key, value, offset, _ in sorted(missing, key=lambda each: each[3:5], reverse=True):
        place: Place = {"process": process, "key": key, "value": value, "offset": offset, "step": 0}
        yield ("torn-transaction", (op,)), place


def holders(terms: Terms) -> Iterator[tuple[tuple[int, int], Holder]]:
    """What is known at the offsets of each key."""
    acknowledged = [
        each for each in terms.sends if terms.acknowledged_offset(each) is not None and terms.is_committed(each)
    ]
    for each in (*acknowledged, *terms.records):
        if each.offset is not None:
            yield (each.key, each.offset), Holder(each.value, each.process, each.op, _step(each))


def parts(terms: Terms) -> set[Part]:
    """Every value of a committed transaction that its read_committed scan should have, and whether it has."""
    return {
        (
            "#txn-present" if send.value in terms.scanned(send.key, "read_committed") else "#txn-missing",
            send.op,
            send.process,
            send.key,
            send.value,
            terms.known_offset(send),
            terms.is_safe(send) and not terms.said.void,
        )
        for send in terms.sends
        if send.f == "txn" and terms.is_committed(send) and should_be_in_committed_scan(terms, send)
    }
