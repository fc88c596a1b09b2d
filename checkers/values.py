"""Delivery: what became of each value.

Rows are sorted by key and value once; reductions over each run of equal ones make a table with one entry
per key and value. With it every delivery anomaly is a condition on one entry:

- **lost-write** committed, and a complete final scan lacks it (offset known: not below the log start;
  unknown: only where the log start is 0); or it was never read, and a reader whose position began at or
  below its acknowledged offset returned a record above it (``passed_over``).
- **vanished-read** read at or above the log start, and the complete raw scan lacks it; values of
  transactions that are not committed are exempt.
- **duplicate** read at two or more offsets. **misplaced-ack** acknowledged at one, read only at others.
- **phantom** read, and never sent to this key; or the record itself is defective.
- **aborted-read** read although its plain send failed, or by a read_committed reader although its
  transaction aborted. **early-read** read by one before commit was requested.
- **unseen** committed, never read, and no complete scan.
- **torn-transaction** of a committed transaction's values some are in complete read_committed scans and some are not.

Committed: a plain send that is ok, or info and read; a transaction that is ok, or info with a value that
a read_committed reader returned (``checkers.load``). Deleted keys are exempt from loss and vanishing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.found import Found
from checkers.load import FAIL, INFO, NONE, OK
from checkers.promises import Promises
from checkers.rows import MOST_OFFSET, Bools, Ints, KeyTable, Rows, numbered, place, starts_of

_FAR = 2**62


@dataclass(frozen=True)
class Values:
    """One entry per key and value that was sent or polled there; NONE where a number is unknown."""

    key: Ints
    value: Ints
    send_row: Ints
    """Index of the send among the rows; NONE: nobody is known to have sent it."""
    sends: Ints
    fate: Ints
    txn: Bools
    producer: Ints
    """-1 where nobody sent it, or nobody recorded who."""
    acked: Ints
    reads: Ints
    committed_reads: Ints
    first_read: Ints
    last_read: Ints
    read_where_acked: Bools
    in_raw: Bools
    in_committed: Bools
    read_ns: Ints
    read_op: Ints
    of_row: Ints
    """For each row the index of its entry; -1: it has none."""

    @property
    def committed(self) -> Bools:
        return np.asarray((self.fate == OK) | ((self.fate == INFO) & ~self.txn & (self.reads > 0)))

    @property
    def home(self) -> Ints:
        """Where the value lies: as acknowledged, else where it was first read."""
        return np.where(self.acked != NONE, self.acked, self.first_read)

    @staticmethod
    def of(rows: Rows) -> Values:
        index = np.flatnonzero(rows.key >= 0)
        order = index[np.lexsort((rows.value[index], rows.key[index]))]
        mine = rows.take(order)
        starts = starts_of(mine.key, mine.value)
        group = numbered(starts, len(order))
        of_row = np.full(len(rows), -1, dtype=np.int64)
        of_row[order] = group
        sent, polled = mine.flag("sent"), mine.flag("polled")
        strict = polled & mine.flag("committed_only")

        def least(mask: Bools, column: Ints) -> Ints:
            found = np.minimum.reduceat(np.where(mask, column, _FAR), starts)
            return np.where(found == _FAR, NONE, found)

        def most(mask: Bools, column: Ints) -> Ints:
            return np.asarray(np.maximum.reduceat(np.where(mask, column, NONE), starts))

        def count(mask: Bools) -> Ints:
            return np.asarray(np.add.reduceat(mask.astype(np.int64), starts))

        acked = most(mine.flag("acked"), mine.offset)
        at_ack = polled & (mine.offset == acked[group])
        return Values(
            key=mine.key[starts],
            value=mine.value[starts],
            send_row=least(sent, order),
            sends=count(sent),
            fate=least(sent, mine.fate),
            txn=count(sent & mine.flag("txn")) > 0,
            producer=np.maximum(least(sent, mine.producer), -1),
            acked=acked,
            reads=count(polled),
            committed_reads=count(strict),
            first_read=least(polled & mine.has_offset, mine.offset),
            last_read=most(polled, mine.offset),
            read_where_acked=count(at_ack) > 0,
            in_raw=count(polled & mine.flag("final") & ~mine.flag("committed_only")) > 0,
            in_committed=count(strict & mine.flag("final")) > 0,
            read_ns=least(polled & ~mine.flag("final") & (mine.complete_ns != NONE), mine.complete_ns),
            read_op=least(polled, mine.op),
            of_row=of_row,
        )


@dataclass(frozen=True)
class Settings:
    """The promises and scans that apply to each entry of a Values."""

    safe: Bools
    once: Bools
    clean: Bools
    kept: Bools
    """Neither deleted on purpose nor compacted."""
    loose: Bools
    """Not compacted."""
    raw: Bools
    raw_start: Ints
    strict: Bools
    strict_start: Ints

    @staticmethod
    def of(values: Values, promises: Promises, keys: KeyTable) -> Settings:
        clean = ~keys.unclean[values.key]
        return Settings(
            promises.safe[values.producer] & clean,
            promises.once[values.producer],
            clean,
            ~keys.exempt[values.key] & ~keys.compacted[values.key],
            ~keys.compacted[values.key],
            keys.raw_complete[values.key],
            keys.raw_start[values.key],
            keys.committed_complete[values.key],
            keys.committed_start[values.key],
        )


def delivery(
    rows: Rows,
    values: Values,
    promises: Promises,
    keys: KeyTable,
    clock_error_ns: Ints,
    from_beginning: bool,
    readers: Rows,
) -> list[Found]:
    """``readers``: the rows of those whose positions are certain, nearly always all rows."""
    at = Settings.of(values, promises, keys)
    committed, home = values.committed, values.home
    certain = np.ones(len(values.key), dtype=bool)
    unread = committed & (values.reads == 0)
    lost = lost_from_scan(values, at)
    passed, beyond = passed_over(readers, values, unread & (values.acked != NONE) & at.kept & ~lost, from_beginning)
    lost = lost | passed
    early = early_reads(rows, values, clock_error_ns)
    # without a known offset only a scan from the very beginning can tell
    judged = np.where(
        home == NONE, (at.raw & (at.raw_start == 0)) | (at.strict & (at.strict_start == 0)), at.raw | at.strict
    )
    read_after_start = values.last_read >= at.raw_start
    hits: dict[str, tuple[Bools, Bools]] = {
        "lost-write": (lost, at.safe),
        "vanished-read": (
            at.kept & at.raw & ~values.in_raw & read_after_start & (~values.txn | committed),
            at.clean,
        ),
        "duplicate": ((values.first_read < values.last_read) & at.loose, at.once & at.clean),
        "misplaced-ack": (
            (values.acked != NONE) & committed & (values.reads > 0) & ~values.read_where_acked & at.loose,
            at.safe & at.once,
        ),
        "aborted-read": (
            (values.fate == FAIL) & at.loose & np.where(values.txn, values.committed_reads > 0, values.reads > 0),
            certain,
        ),
        "early-read": (early & at.loose, certain),
        "unseen": (unread & at.kept & ~judged, ~certain),
    }  # fmt: skip
    return [_found(rows, values, name, *hit, promises.void, beyond) for name, hit in hits.items()]


def early_reads(rows: Rows, values: Values, clock_error_ns: Ints) -> Bools:
    """Values of transactions that a read_committed poll returned certainly before commit was requested."""
    early = np.zeros(len(values.key), dtype=bool)
    commit_ns = _of_send(values, rows.commit_ns)
    if not (commit_ns != NONE).any():
        return early
    poll = np.flatnonzero(rows.flag("polled") & rows.flag("committed_only") & (values.of_row >= 0))
    entry = values.of_row[poll]
    sender, reader = _of_send(values, rows.worker, entry), rows.worker[poll]
    slack = np.zeros(len(poll), dtype=np.int64)
    apart = (sender != reader) & (sender != NONE)
    slack[apart] = clock_error_ns[sender[apart]] + clock_error_ns[reader[apart]]
    complete_ns = rows.complete_ns[poll]
    # an unknown request for commit is NONE, and so later than nothing
    certain = (complete_ns != NONE) & (commit_ns[entry] > complete_ns + slack)
    early[entry[certain]] = True
    return early


def lost_from_scan(values: Values, at: Settings) -> Bools:
    """Committed, and a complete scan that should have it lacks it."""
    home = values.home

    def lacks(complete: Bools, seen: Bools, start: Ints) -> Bools:
        due = np.where(home == NONE, start == 0, home >= start)
        return complete & ~seen & due

    missing = lacks(at.raw, values.in_raw, at.raw_start) | lacks(at.strict, values.in_committed, at.strict_start)
    return values.committed & at.kept & missing


def passed_over(rows: Rows, values: Values, unread: Bools, from_beginning: bool) -> tuple[Bools, Ints]:
    """Unread values that a reader passed in one position, and how far it got.

    Each position is an interval from where it began to the furthest record it returned. Walking a
    key's intervals and unread values by offset, the furthest end of all intervals that began at or
    below a value tells.
    """
    passed = np.zeros(len(values.key), dtype=bool)
    beyond = np.full(len(values.key), NONE, dtype=np.int64)
    if not unread.any():
        return passed, beyond
    key, begin, end = positions(rows, from_beginning)
    which = np.flatnonzero(unread)
    all_key = np.concatenate([key, values.key[which]])
    all_at = np.concatenate([begin, values.acked[which]])
    # a value itself reaches no further than where it is
    reached = np.concatenate([end, values.acked[which]])
    # what begins at a value comes before it: the sort is stable
    order = np.lexsort((all_at, all_key))
    # ends are compared inside a key only: its rank in front makes every later key start anew
    rank = numbered(starts_of(all_key[order]), len(order))
    furthest = np.maximum.accumulate(place(rank, reached[order])) & MOST_OFFSET
    hit = (order >= len(key)) & (furthest > all_at[order])
    entry = which[order[hit] - len(key)]
    passed[entry] = True
    beyond[entry] = furthest[hit]
    return passed, beyond


def positions(rows: Rows, from_beginning: bool) -> tuple[Ints, Ints, Ints]:
    """Key, beginning and furthest record of every position that returned a record.

    Where a position began nobody may have said. Then it began at its first record, for all we know; or,
    ``from_beginning``, at the beginning of the log, as consumers of Jepsen's histories do.
    """
    takes_part = (rows.key >= 0) & (rows.flag("boundary") | (rows.flag("polled") & rows.has_offset))
    steps = rows.where(takes_part)
    steps = steps.take(np.lexsort((steps.step, steps.op, steps.process, steps.key)))
    boundary, ok = steps.flag("boundary"), steps.flag("op_ok")
    opens = boundary.copy()
    opens[1:] |= (steps.op[1:] != steps.op[:-1]) & ~ok[:-1]
    opens[starts_of(steps.key, steps.process)] = True
    fresh = boundary.copy()
    fresh[starts_of(steps.key, steps.process)] = True
    starts = np.flatnonzero(opens)
    # a boundary's offset, if any, is where its position begins: no record below it makes the end lower
    end = np.maximum.reduceat(steps.offset, starts)
    said = np.where(boundary[starts] & steps.has_offset[starts], steps.offset[starts], _FAR)
    begin = np.where(said == _FAR, _first_polled(steps, boundary, starts), said)
    if from_beginning:
        begin = np.where((said == _FAR) & fresh[starts], 0, begin)
    returned = end != NONE
    return steps.key[starts][returned], begin[returned], end[returned]


def _first_polled(steps: Rows, boundary: Bools, starts: Ints) -> Ints:
    """Offset of the first record of each position, in the order in which it was returned; of one without a
    record, anything."""
    index = np.minimum.reduceat(np.where(boundary, len(steps), np.arange(len(steps))), starts)
    return np.asarray(steps.offset[np.minimum(index, len(steps) - 1)])


def tallies(rows: Rows, values: Values, promises: Promises, keys: KeyTable) -> dict[str, int]:
    """What the metrics and the assumptions count per value."""
    at = Settings.of(values, promises, keys)
    refused = _of_send(values, rows.flag("refused").astype(np.int64)) == 1
    delivered = ~refused & ((values.fate == OK) | promises.acks_zero[values.producer])
    due = (values.home == NONE) | (values.home >= at.raw_start)
    found = {
        "#value-sent-twice": int((values.sends > 1).sum()),
        "#missing-of-sent": int((delivered & at.kept & at.raw & ~values.in_raw & due).sum()),
    }
    ack_ns = _of_send(values, rows.complete_ns)
    known = (values.acked != NONE) & (ack_ns != NONE) & (values.read_ns != NONE)
    lag = np.floor(8 * np.log2(np.maximum(values.read_ns[known] - ack_ns[known], 1000))).astype(np.int64)
    counts = np.bincount(lag)
    return found | {f"#lag:{bucket}": int(counts[bucket]) for bucket in np.flatnonzero(counts).tolist()}


def phantoms(rows: Rows, values: Values, strays: Ints, void: bool) -> Found:
    """Records that nobody sent here, or that cannot be this run's own; one case per place and value.

    ``strays`` are values whose send was open when its topic was deleted: where they went nobody knows,
    so they are phantoms nowhere.
    """
    rows, entry = rows.where(rows.key >= 0), values.of_row[rows.key >= 0]
    unsent = rows.flag("polled") & (values.sends[entry] == 0) & ~np.isin(rows.value, strays)
    bad = rows.where(unsent | rows.flag("defective"))
    # of several at one place an invention stands first: a void promise excuses no more than a bad checksum
    bad = bad.take(np.lexsort((bad.op, bad.flag("checksum"), bad.value, bad.offset, bad.key)))
    one = bad.take(starts_of(bad.key, bad.offset, bad.value))
    fatal = ~one.flag("checksum") if void else np.ones(len(one), dtype=bool)
    names = ("key", "value", "offset", "process", "op", "step")
    return Found("phantom", fatal, {name: getattr(one, name) for name in names})


def transaction_parts(rows: Rows, values: Values, promises: Promises, keys: KeyTable) -> dict[str, Ints]:
    """For torn-transaction: of each committed transaction, which of its values here are in the read_committed scan."""
    at = Settings.of(values, promises, keys)
    due = np.where(values.home == NONE, at.strict_start == 0, values.home >= at.strict_start)
    judged = np.flatnonzero(values.txn & values.committed & at.strict & at.kept & due)
    return {
        "op": _of_send(values, rows.op, judged),
        "process": _of_send(values, rows.process, judged),
        "key": values.key[judged],
        "value": values.value[judged],
        "offset": values.home[judged],
        "missing": (~values.in_committed[judged]).astype(np.int64),
        "fatal": (at.safe[judged] & (not promises.void)).astype(np.int64),
    }


def torn(parts: Mapping[str, Ints]) -> Found:
    """Transactions of which some values are there and some are missing, from all of their parts."""
    order = np.lexsort((parts["value"], parts["key"], -parts["missing"], parts["op"]))
    sorted_parts = {name: column[order] for name, column in parts.items()}
    starts = starts_of(sorted_parts["op"])
    missing = np.add.reduceat(sorted_parts["missing"], starts)
    present = np.add.reduceat(1 - sorted_parts["missing"], starts)
    fatal = np.add.reduceat(sorted_parts["missing"] * sorted_parts["fatal"], starts) > 0
    hit = (missing > 0) & (present > 0)
    # a transaction's first part is a missing one, of the lowest key and value
    first = starts[hit]
    columns = {name: sorted_parts[name][first] for name in ("key", "value", "offset", "process", "op")}
    return Found("torn-transaction", fatal[hit], columns | {"step": np.zeros(len(first), dtype=np.int64)})


def _of_send(values: Values, column: Ints, entry: Ints | slice = slice(None)) -> Ints:
    """A column of the rows, at the send of each value, or of each of ``entry``; NONE without one."""
    row = values.send_row[entry]
    there = row != NONE
    return np.where(there, column[np.where(there, row, 0)], NONE)


def _found(rows: Rows, values: Values, name: str, hit: Bools, promised: Bools, void: bool, beyond: Ints) -> Found:
    entry = np.flatnonzero(hit)
    always = name in ("aborted-read", "early-read")
    fatal = promised[entry] & (always | (not void))
    send_op = _of_send(values, rows.op, entry)
    other = np.where(beyond != NONE, beyond, values.last_read) if name == "lost-write" else values.last_read
    return Found(
        name,
        fatal,
        {
            "key": values.key[entry],
            "value": values.value[entry],
            "offset": values.home[entry],
            "process": _of_send(values, rows.process, entry),
            "op": np.where(send_op == NONE, values.read_op[entry], send_op),
            "step": _of_send(values, rows.step, entry),
            "other_op": values.read_op[entry],
            "other_offset": other[entry],
        },
    )
