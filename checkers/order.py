"""Order inside a key: what lies between two successive records of one position, and two sends of one process.

Steps are sorted by key, process and (op, mop, pos), and neighbours compared. Two records are *successive* when no
boundary (seek, reset, resume) lies between them and, in different operations, the earlier one ended ok.

- **poll-skip** the later record's offset is above the earlier one's, and a known version lies strictly
  between: any value for read_uncommitted, a committed one for read_committed. It breaks a promise only
  where that version was read by somebody or safely acknowledged.
- **nonmonotonic-poll** it is not above.
  Also when the record's value was already returned in this position at a lower offset: who sees a
  value again went back. Such a case breaks a promise only where the duplicate itself does; a producer
  that retries without idempotence may leave two copies, and readers of a correct Kafka see both.
- **nonmonotonic-send** successive acknowledged sends of one process to one key got decreasing offsets.
- **int-send-skip** between two acknowledged sends of one operation lies another known version: normal.
- ``int-`` of each: inside one operation.
- **inconsistent-offset** two values known at one offset.

Only a pair with a gap can have something between it; whether it has is two binary searches in the sorted
places of the known versions. Offsets are sparse (markers, aborted data), so nothing is an array by offset.

**realtime-order**: a send that began after another was acknowledged got a lower offset of the same key. Each
acknowledged send is two moments on its key's time line; walking them in order, the highest offset acknowledged
so far must be below the offset that a send beginning now gets. Clock errors of workers widen every gap, and at
equal times nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers.doubts import among
from checkers.found import Found
from checkers.load import NONE
from checkers.promises import Promises
from checkers.rows import MOST_OFFSET, Bools, Ints, KeyTable, Rows, numbered, place, starts_of
from checkers.values import Values


def order(rows: Rows, values: Values, promises: Promises, keys: KeyTable, doubtful: Ints) -> list[Found]:
    """``doubtful``: values of which nobody knows what became of them (sorted)."""
    takes_part = np.flatnonzero(rows.key >= 0)
    takes_part = takes_part[~keys.compacted[rows.key[takes_part]]]
    uncompacted, entry = rows.take(takes_part), values.of_row[takes_part]
    committed = values.committed[entry]
    if len(doubtful):
        committed &= ~among(doubtful, uncompacted.value)
    polled = uncompacted.flag("polled") & uncompacted.has_offset
    known = polled | (uncompacted.flag("acked") & committed)
    firm = polled | promises.safe[uncompacted.producer]
    found = polls(uncompacted, entry, values, promises, keys, lambda: Versions.of(uncompacted, known, committed, firm))
    acked = uncompacted.where(uncompacted.flag("acked"))
    steps = acked.take(np.lexsort((acked.step, acked.op, acked.process, acked.key)))
    found += sends(steps, promises, keys)
    found.append(send_skips(uncompacted, entry, known, rows, values, steps))
    found.append(inconsistent(rows, values, promises, keys))
    return found


@dataclass(frozen=True)
class Versions:
    """Sorted places of the known versions: all, and those with a committed value. *Firm* are those that were
    read there or safely acknowledged there; what acks=1 acknowledged a correct broker may have lost, and a
    marker or aborted data lie in its place."""

    every: Ints
    strict: Ints
    firm: Ints
    firm_strict: Ints

    @staticmethod
    def of(rows: Rows, known: Bools, committed: Bools, firm: Bools) -> Versions:
        index = np.flatnonzero(known)
        places = place(rows.key[index], rows.offset[index])
        order = np.argsort(places)
        index, places = index[order], places[order]
        firm, committed = firm[index], committed[index]
        return Versions(places, places[committed], places[firm], places[firm & committed])


def polls(
    rows: Rows, entries: Ints, values: Values, promises: Promises, keys: KeyTable, known: Callable[[], Versions]
) -> list[Found]:
    """``known`` is asked only where there is a gap: a healthy log without transactions has none."""
    index = np.flatnonzero(rows.flag("boundary") | (rows.flag("polled") & rows.has_offset))
    index = index[np.lexsort((rows.step[index], rows.op[index], rows.process[index], rows.key[index]))]
    steps, entry = rows.take(index), entries[index]
    inside = steps.op[1:] == steps.op[:-1]
    boundary, ok = steps.flag("boundary"), steps.flag("op_ok")
    same = (steps.key[1:] == steps.key[:-1]) & (steps.process[1:] == steps.process[:-1])
    successive = same & ~boundary[1:] & ~boundary[:-1] & (inside | ok[:-1])
    low, high = steps.offset[:-1], steps.offset[1:]
    back = successive & (high <= low)
    again, once = seen_again(steps, entry, successive, values, promises)
    gap = np.flatnonzero(successive & (high > low + 1))
    committed_only = steps.flag("committed_only")
    either = (committed_only[1:] | committed_only[:-1])[gap]

    versions = known() if len(gap) else Versions(gap, gap, gap, gap)

    def has(strict: Ints, every: Ints) -> Bools:
        """Which of all pairs have one of these versions between them."""
        key, below, above = steps.key[gap], low[gap], high[gap]
        between = np.where(either, _between(strict, key, below, above), _between(every, key, below, above))
        found = np.zeros(len(back), dtype=bool)
        found[gap[between]] = True
        return found

    skip = has(versions.strict, versions.every)
    clean = ~keys.unclean[steps.key[1:]]
    weights = {"poll-skip": has(versions.firm_strict, versions.firm), "nonmonotonic-poll": back | once}
    return [
        _pairs(name, steps, hit & which, weights[kind] & clean & (not promises.void), low)
        for kind, hit in (("poll-skip", skip), ("nonmonotonic-poll", back | again))
        for name, which in ((f"int-{kind}", inside), (kind, ~inside))
    ]


def seen_again(steps: Rows, entry: Ints, successive: Bools, values: Values, promises: Promises) -> tuple[Bools, Bools]:
    """For each step but the first: whether its value was returned before in its position at a lower offset,
    and whether moreover its producer promised that it would not be."""
    again, once = np.zeros(len(successive), dtype=bool), np.zeros(len(successive), dtype=bool)
    some = np.flatnonzero((values.first_read < values.last_read)[entry])
    if not len(some):
        return again, once
    position = numbered(np.flatnonzero(np.concatenate([[True], ~successive])), len(steps))
    # the sort is stable: what was returned earlier stays in front, and a position's steps stay together
    some = some[np.argsort(entry[some], kind="stable")]
    group = numbered(starts_of(position[some], entry[some]), len(some))
    # a falling rank in front makes the running minimum start anew with every group
    places = place(len(some) - group, steps.offset[some])
    hit = np.minimum.accumulate(places) < places
    at = some[hit] - 1
    again[at] = True
    once[at] = promises.once[values.producer[entry[some[hit]]]]
    return again, once


def sends(steps: Rows, promises: Promises, keys: KeyTable) -> list[Found]:
    """Of the acknowledged sends, sorted by key, process and place in the history."""
    inside = steps.op[1:] == steps.op[:-1]
    successive = (steps.key[1:] == steps.key[:-1]) & (steps.process[1:] == steps.process[:-1])
    low, high = steps.offset[:-1], steps.offset[1:]
    back = successive & (high < low)
    held = promises.safe & (promises.idempotent | promises.single)
    promised = held[steps.producer] & ~keys.unclean[steps.key] & (not promises.void)
    fatal = promised[1:] & promised[:-1]
    return [
        _pairs("int-nonmonotonic-send", steps, back & inside, fatal, low),
        _pairs("nonmonotonic-send", steps, back & ~inside, fatal, low),
    ]


def send_skips(rows: Rows, entry: Ints, known: Bools, all_rows: Rows, values: Values, steps: Rows) -> Found:
    """Between two sends of one operation lie more records than the process itself put there. ``steps``: as sends has them."""
    candidate = (steps.key[1:] == steps.key[:-1]) & (steps.op[1:] == steps.op[:-1])
    at = np.flatnonzero(candidate & (np.abs(steps.offset[1:] - steps.offset[:-1]) > 1))
    key, process = steps.key[at], steps.process[at]
    low = np.minimum(steps.offset[1:][at], steps.offset[:-1][at])
    high = np.maximum(steps.offset[1:][at], steps.offset[:-1][at])
    # few records lie between such sends; only those are sorted
    there = np.flatnonzero(known)
    there = there[_inside_any(place(rows.key[there], rows.offset[there]), place(key, low), place(key, high))]
    sender = values.send_row[entry[there]]
    there, sender = there[sender != NONE], sender[sender != NONE]
    writer = all_rows.process[sender]
    # counting the own ones: number each pair of key and writer, and search among its places
    pairs = np.stack([np.concatenate([rows.key[there], key]), np.concatenate([writer, process])])
    _, number = np.unique(pairs, axis=1, return_inverse=True)
    number = number.ravel().astype(np.int64)
    own_places = np.sort(place(number[: len(there)], rows.offset[there]))
    places = np.sort(place(rows.key[there], rows.offset[there]))
    own = _count_between(own_places, number[len(there) :], low, high)
    hit = np.zeros(len(candidate), dtype=bool)
    hit[at[_count_between(places, key, low, high) > own]] = True
    return _pairs("int-send-skip", steps, hit, np.zeros(len(hit), dtype=bool), steps.offset[:-1])


def _inside_any(places: Ints, low: Ints, high: Ints) -> Bools:
    """Which places lie strictly between some ``low`` and its ``high``."""
    order = np.argsort(low)
    # the furthest end of all intervals that begin below a place; 0 where none does
    furthest = np.concatenate([[0], np.maximum.accumulate(high[order])])
    return np.asarray(places < furthest[np.searchsorted(low[order], places, side="left")])


def inconsistent(rows: Rows, values: Values, promises: Promises, keys: KeyTable) -> Found:
    """Two values at one offset. Two that were both read or safely acknowledged there break a promise; one
    whose acknowledgement proves little (acks=1) may have been replaced by a correct broker."""
    with_key = np.flatnonzero(rows.key >= 0)
    rows, committed = rows.take(with_key), values.committed[values.of_row[with_key]]
    known = rows.where((rows.flag("polled") & rows.has_offset) | (rows.flag("acked") & committed))
    weak = ~known.flag("polled") & ~promises.safe[known.producer]
    order = np.lexsort((weak, known.offset, known.key))
    known, weak = known.take(order), weak[order]
    clash = (known.key[1:] == known.key[:-1]) & (known.offset[1:] == known.offset[:-1])
    clash &= known.value[1:] != known.value[:-1]
    # one case per offset: its first clash, which is of two strong ones if there is any such
    second = np.flatnonzero(clash) + 1
    second = second[starts_of(known.key[second], known.offset[second])]
    case, beside = known.take(second), known.take(second - 1)
    fatal = ~weak[second] & ~keys.unclean[case.key] & (not promises.void)
    return Found(
        "inconsistent-offset",
        fatal,
        {
            **{name: getattr(case, name) for name in ("key", "value", "offset", "process", "op", "step")},
            "other_op": beside.op,
            "other_offset": beside.offset,
            "other_value": beside.value,
        },
    )


def realtime(rows: Rows, promises: Promises, keys: KeyTable, clock_error_ns: Ints) -> Found:
    takes_part = rows.flag("acked") & (rows.key >= 0) & (rows.complete_ns != NONE)
    acked = rows.where(takes_part)
    acked = acked.where(~keys.compacted[acked.key])
    safe = promises.safe[acked.producer] & ~keys.unclean[acked.key]
    error = clock_error_ns[acked.worker]
    everyone = np.ones(len(acked), dtype=bool)
    overtaken = _highest_before(acked, acked.key, error, everyone)
    safely = _highest_before(acked, acked.key, error, safe)
    if error.any():
        # inside one worker the clock's error cancels out
        together = np.stack([acked.key, acked.worker])
        _, group = np.unique(together, axis=1, return_inverse=True)
        group = group.ravel().astype(np.int64)
        exact = np.zeros_like(error)
        overtaken = np.maximum(overtaken, _highest_before(acked, group, exact, everyone))
        safely = np.maximum(safely, _highest_before(acked, group, exact, safe))
    late = np.flatnonzero(overtaken > acked.offset)
    case = acked.take(late)
    fatal = safe[late] & (safely[late] > acked.offset[late]) & (not promises.void)
    columns = {name: getattr(case, name) for name in ("key", "value", "offset", "process", "op", "step")}
    return Found("realtime-order", fatal, {**columns, "other_offset": overtaken[late]})


def _highest_before(acked: Rows, group: Ints, error: Ints, counts: Bools) -> Ints:
    """For each send, the highest offset that was certainly acknowledged in its group before it began; 0: none."""
    count = len(acked)
    at = np.concatenate([acked.invoke_ns - error, (acked.complete_ns + error)[counts]])
    row = np.concatenate([np.arange(count), np.flatnonzero(counts)])
    # the sort is stable: at equal times a send begins before another is acknowledged
    order = np.lexsort((at, group[row]))
    row, ack = row[order], order >= count
    # the group in front starts the maximum anew
    running = np.maximum.accumulate(place(group[row], np.where(ack, acked.offset[row], 0)))
    highest = np.empty(count, dtype=np.int64)
    highest[row[~ack]] = (running & MOST_OFFSET)[~ack]
    return highest


def _count_between(places: Ints, key: Ints, low: Ints, high: Ints) -> Ints:
    """How many of the sorted places lie strictly between two offsets of a key."""
    first = np.searchsorted(places, place(key, low), side="right")
    return np.asarray(np.searchsorted(places, place(key, high), side="left") - first)


def _between(places: Ints, key: Ints, low: Ints, high: Ints) -> Bools:
    """Whether a known version lies strictly between two offsets of a key."""
    return np.asarray(_count_between(places, key, low, high) > 0)


def _pairs(name: str, steps: Rows, hit: Bools, fatal: Bools, low: Ints) -> Found:
    at = np.flatnonzero(hit)
    columns = {each: getattr(steps, each)[1:][at] for each in ("key", "value", "offset", "process", "op", "step")}
    columns |= {"other_op": steps.op[:-1][at], "other_offset": low[at], "other_value": steps.value[:-1][at]}
    return Found(name, fatal[at], columns)
