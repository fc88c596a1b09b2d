"""Order inside a key: what lies between two successive records of one position, and two sends of one process.

Steps are sorted by key, process and (op, mop, pos), and neighbours compared. Two records are *successive* when no
boundary (seek, reset, resume) lies between them and, in different operations, the earlier one ended ok.

- **nonmonotonic-poll** the later record's offset is not above the earlier one's.
- **poll-skip** it is above, and a known version lies strictly between: any value for read_uncommitted,
  a committed one for read_committed.
- A value that was read at several offsets counts with its first one: who sees it again went back.
  Such a case breaks a promise only where the duplicate itself does; a producer that retries without
  idempotence may leave two copies, and readers of a correct Kafka see both.
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

import numpy as np

from checkers.found import Found
from checkers.load import NONE
from checkers.promises import Promises
from checkers.rows import Bools, Ints, KeyTable, Rows, place, starts_of
from checkers.values import Values


def order(rows: Rows, values: Values, promises: Promises, keys: KeyTable) -> list[Found]:
    polled = rows.flag("polled") & rows.has_offset & (rows.key >= 0)
    versions = (polled | (rows.acknowledged & (rows.key >= 0))) & ~_of_key(keys.compacted, rows)
    every = np.unique(place(rows.key[versions], rows.offset[versions]))
    settled = versions & values.committed[values.of_row]
    committed = np.unique(place(rows.key[settled], rows.offset[settled]))
    found = polls(rows, values, promises, keys, every, committed)
    found += sends(rows, promises, keys, every)
    found.append(inconsistent(rows, promises, keys))
    return found


def polls(rows: Rows, values: Values, promises: Promises, keys: KeyTable, every: Ints, committed: Ints) -> list[Found]:
    takes_part = (rows.flag("boundary") | (rows.flag("polled") & rows.has_offset)) & (rows.key >= 0)
    takes_part &= ~_of_key(keys.compacted, rows)
    index = np.flatnonzero(takes_part)
    index = index[np.lexsort((rows.step[index], rows.op[index], rows.process[index], rows.key[index]))]
    steps, entry = rows.take(index), values.of_row[index]
    again = np.zeros(len(steps), dtype=bool)
    again[entry >= 0] = (values.first_read < values.last_read)[entry[entry >= 0]]
    offset = np.where(again, values.first_read[entry], steps.offset) if len(values.key) else steps.offset
    producer = np.where(again, values.producer[entry], -1) if len(values.key) else np.full(len(steps), -1)
    once = promises.once[np.where(producer == NONE, -1, producer)] | ~again
    inside = steps.op[1:] == steps.op[:-1]
    boundary, ok = steps.flag("boundary"), steps.flag("op_ok")
    successive = (steps.key[1:] == steps.key[:-1]) & (steps.process[1:] == steps.process[:-1])
    successive &= ~boundary[1:] & ~boundary[:-1] & (inside | ok[:-1])
    low, high = offset[:-1], offset[1:]
    back = successive & (high <= low)
    gap = np.flatnonzero(successive & (high > low + 1))
    strict = steps.flag("committed_only")[1:][gap]
    between = np.where(
        strict,
        _between(committed, steps.key[1:][gap], low[gap], high[gap]),
        _between(every, steps.key[1:][gap], low[gap], high[gap]),
    )
    skip = np.zeros(len(back), dtype=bool)
    skip[gap[between]] = True
    fatal = ~_of_key(keys.unclean, steps)[1:] & once[1:] & once[:-1] & (not promises.void)
    return [
        _pairs(name, steps, hit & which, fatal, low)
        for kind, hit in (("poll-skip", skip), ("nonmonotonic-poll", back))
        for name, which in ((f"int-{kind}", inside), (kind, ~inside))
    ]


def sends(rows: Rows, promises: Promises, keys: KeyTable, every: Ints) -> list[Found]:
    acked = rows.where(rows.acknowledged & (rows.key >= 0) & ~_of_key(keys.compacted, rows))
    steps = acked.take(np.lexsort((acked.step, acked.op, acked.process, acked.key)))
    inside = steps.op[1:] == steps.op[:-1]
    successive = (steps.key[1:] == steps.key[:-1]) & (steps.process[1:] == steps.process[:-1])
    low, high = steps.offset[:-1], steps.offset[1:]
    back = successive & (high < low)
    gap = np.flatnonzero(successive & inside & (high > low + 1))
    skip = np.zeros(len(back), dtype=bool)
    skip[gap[_between(every, steps.key[1:][gap], low[gap], high[gap])]] = True
    safe = promises.safe[steps.producer] & ~_of_key(keys.unclean, steps)
    fatal = (safe & (promises.once | promises.single)[steps.producer])[1:] & (not promises.void)
    return [
        _pairs("int-nonmonotonic-send", steps, back & inside, fatal, low),
        _pairs("nonmonotonic-send", steps, back & ~inside, fatal, low),
        _pairs("int-send-skip", steps, skip, np.zeros(len(skip), dtype=bool), low),
    ]


def inconsistent(rows: Rows, promises: Promises, keys: KeyTable) -> Found:
    """Two values at one offset. Two that were both read or safely acknowledged there break a promise; one
    whose acknowledgement proves little (acks=1) may have been replaced by a correct broker."""
    polled = rows.flag("polled") & rows.has_offset & (rows.value != NONE)
    known = rows.where((polled | rows.acknowledged) & (rows.key >= 0))
    weak = ~known.flag("polled") & ~promises.safe[known.producer]
    order = np.lexsort((known.op, known.value, weak, known.offset, known.key))
    known, weak = known.take(order), weak[order]
    clash = (known.key[1:] == known.key[:-1]) & (known.offset[1:] == known.offset[:-1])
    clash &= known.value[1:] != known.value[:-1]
    strong = clash & ~weak[1:] & ~weak[:-1]
    # one case per offset: its first clash, which is a strong one if there is any
    second = np.flatnonzero(clash) + 1
    cases = known.take(second)
    first = starts_of(cases.key, cases.offset)
    fatal = strong[second - 1][first] & ~_of_key(keys.unclean, cases)[first] & (not promises.void)
    beside = known.take(second[first] - 1)
    case = cases.take(first)
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
    acked = rows.where(
        rows.acknowledged & (rows.key >= 0) & (rows.complete_ns != NONE) & ~_of_key(keys.compacted, rows)
    )
    error = clock_error_ns[acked.worker] if len(clock_error_ns) else np.zeros(len(acked), dtype=np.int64)
    count = len(acked)
    at = np.concatenate([acked.invoke_ns - error, acked.complete_ns + error])
    is_ack = np.repeat([0, 1], count)
    row = np.tile(np.arange(count), 2)
    order = np.lexsort((is_ack, at, acked.key[row]))
    row, ack = row[order], is_ack[order] == 1
    marks = np.where(ack, place(acked.key, acked.offset)[row], place(acked.key, np.zeros_like(acked.key))[row] - 1)
    highest = np.maximum.accumulate(marks) if count else marks
    late = ~ack & (highest > place(acked.key, acked.offset)[row])
    late &= (highest >> 44) == acked.key[row]
    case = acked.take(row[late])
    safe = promises.safe[case.producer] & ~_of_key(keys.unclean, case) & (not promises.void)
    columns = {name: getattr(case, name) for name in ("key", "value", "offset", "process", "op", "step")}
    return Found("realtime-order", safe, {**columns, "other_offset": highest[late] & ((1 << 44) - 1)})


def _between(places: Ints, key: Ints, low: Ints, high: Ints) -> Bools:
    """Whether a known version lies strictly between two offsets of a key."""
    first = np.searchsorted(places, place(key, low), side="right")
    last = np.searchsorted(places, place(key, high), side="left")
    return np.asarray(last > first)


def _of_key(column: Bools, rows: Rows) -> Bools:
    return np.asarray(column[np.maximum(rows.key, 0)]) if len(column) else np.zeros(len(rows), dtype=bool)


def _pairs(name: str, steps: Rows, hit: Bools, fatal: Bools, low: Ints) -> Found:
    at = np.flatnonzero(hit)
    columns = {each: getattr(steps, each)[1:][at] for each in ("key", "value", "offset", "process", "op", "step")}
    columns |= {"other_op": steps.op[:-1][at], "other_offset": low[at], "other_value": steps.value[:-1][at]}
    return Found(name, fatal[at], columns)
