"""What every delivery and order check must say, in plain Python.

This is written from the definitions and not from the checkers, is slow, and is meant to be read: each
anomaly is one function of a few lines over ``Terms``. Comparing the two on many small random histories
is how errors of either are found.

``judge(history)`` gives for each anomaly the set of its cases, each an identity and whether it is fatal:

========================================================  ==================================
lost-write, vanished-read, duplicate, misplaced-ack,      (key, value)
aborted-read, early-read, unseen, realtime-order (of b)
inconsistent-offset                                       (key, offset)
phantom                                                   (key, offset, value)
torn-transaction                                          (op,)
order of polls, order of sends                            (process, key, op, mop, pos) of the second
int-send-skip                                             (op, key, mop, pos) of the second
========================================================  ==================================
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from checkers.promises import PromiseOverride
from tests.checkers.rows import History, Mop
from tests.checkers.terms import Position, Terms

Identity = tuple[int | None, ...]
Cases = set[tuple[Identity, bool]]

ANOMALIES = (
    "lost-write",
    "vanished-read",
    "duplicate",
    "misplaced-ack",
    "inconsistent-offset",
    "phantom",
    "aborted-read",
    "early-read",
    "torn-transaction",
    "unseen",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "poll-skip",
    "nonmonotonic-poll",
    "int-nonmonotonic-send",
    "nonmonotonic-send",
    "realtime-order",
    "int-send-skip",
)


def judge(history: History, said: PromiseOverride | None = None) -> dict[str, Cases]:
    """``said``: what a person says of the promises, if anything."""
    terms = Terms(history, said or PromiseOverride())
    cases = {
        "lost-write": lost_write(terms),
        "vanished-read": vanished_read(terms),
        "duplicate": duplicate(terms),
        "misplaced-ack": misplaced_ack(terms),
        "inconsistent-offset": inconsistent_offset(terms),
        "phantom": phantom(terms),
        "aborted-read": aborted_read(terms),
        "early-read": early_read(terms),
        "torn-transaction": torn_transaction(terms),
        "unseen": unseen(terms),
        "int-poll-skip": poll_skip(terms, inside=True),
        "int-nonmonotonic-poll": nonmonotonic_poll(terms, inside=True),
        "poll-skip": poll_skip(terms, inside=False),
        "nonmonotonic-poll": nonmonotonic_poll(terms, inside=False),
        "int-nonmonotonic-send": nonmonotonic_send(terms, inside=True),
        "nonmonotonic-send": nonmonotonic_send(terms, inside=False),
        "realtime-order": realtime_order(terms),
        "int-send-skip": int_send_skip(terms),
    }
    return {name: unpunished(terms, name, found) for name, found in cases.items()} if terms.said.void else cases


def unpunished(terms: Terms, anomaly: str, cases: Cases) -> Cases:
    """Where storage was destroyed, only what a broker invents or reads against the rules is held against it.
    A bad checksum is no invention."""
    if anomaly in ("aborted-read", "early-read"):
        return cases
    invented: set[Identity] = set()
    if anomaly == "phantom":
        invented = {
            (each.key, each.offset, each.value)
            for each in terms.polls
            if is_phantom(terms, each) and each.defect != "checksum"
        }
    return {(identity, fatal and identity in invented) for identity, fatal in cases}


# Delivery


def lost_write(terms: Terms) -> Cases:
    cases: Cases = set()
    for send in terms.sends:
        must_be_there = terms.is_kept(send.key) and terms.is_committed(send)
        if must_be_there and (is_missing_from_a_scan(terms, send) or is_passed_over(terms, send)):
            cases.add(((send.key, send.value), terms.is_safe(send)))
    return cases


def is_missing_from_a_scan(terms: Terms, send: Mop) -> bool:
    offset = terms.known_offset(send)
    for scan in terms.complete_scans(send.key):
        log_start = scan.log_start or 0
        if send.value in terms.scanned(send.key, scan.isolation):
            continue
        if offset is None and log_start == 0:
            return True
        if offset is not None and offset >= log_start:
            return True
    return False


def is_passed_over(terms: Terms, send: Mop) -> bool:
    """Never read, and yet one process read on from at or below its offset to above it."""
    offset = terms.acknowledged_offset(send)
    if offset is None or terms.reads(send):
        return False
    from_beginning = terms.meta.origin == "jepsen"
    return any(
        position.start(from_beginning)
        <= offset
        < max(record.offset for record in position.records if record.offset is not None)
        for position in terms.positions
        if position.key == send.key
    )


def unseen(terms: Terms) -> Cases:
    cases: Cases = set()
    for send in terms.sends:
        if not terms.is_kept(send.key) or not terms.is_committed(send) or terms.reads(send):
            continue
        scans = terms.complete_scans(send.key)
        offset_unknown = terms.known_offset(send) is None
        if not scans or (offset_unknown and all((scan.log_start or 0) > 0 for scan in scans)):
            cases.add(((send.key, send.value), False))
    return cases


def vanished_read(terms: Terms) -> Cases:
    cases: Cases = set()
    for record in terms.records:
        scan = terms.complete_scan(record.key, "read_uncommitted")
        if scan is None or not terms.is_kept(record.key) or record.offset is None:
            continue
        send = terms.send_of(record)
        in_open_or_aborted_txn = send is not None and send.f == "txn" and not terms.is_committed(send)
        lacks = record.value not in terms.scanned(record.key, "read_uncommitted")
        if record.offset >= (scan.log_start or 0) and lacks and not in_open_or_aborted_txn:
            cases.add(((record.key, record.value), terms.is_clean(record.key)))
    return cases


def duplicate(terms: Terms) -> Cases:
    offsets: dict[tuple[int, int | None], set[int]] = {}
    promised: dict[tuple[int, int | None], bool] = {}
    for record in terms.records:
        if not terms.is_compacted(record.key) and record.offset is not None:
            identity = (record.key, record.value)
            offsets.setdefault(identity, set()).add(record.offset)
            promised[identity] = terms.is_clean(record.key) and terms.is_never_repeated(terms.send_of(record))
    return {(identity, promised[identity]) for identity, places in offsets.items() if len(places) >= 2}


def misplaced_ack(terms: Terms) -> Cases:
    cases: Cases = set()
    for send in terms.sends:
        offset = terms.acknowledged_offset(send)
        if offset is None or not terms.is_committed(send) or terms.is_compacted(send.key):
            continue
        places = [record.offset for record in terms.reads(send)]
        if places and offset not in places:
            fatal = terms.is_safe(send) and terms.is_never_repeated(send)
            cases.add(((send.key, send.value), fatal))
    return cases


def inconsistent_offset(terms: Terms) -> Cases:
    """Fatal when two of the values cannot both be there: each was shown to a reader, or was acknowledged
    under a promise that it stays. (What acks=1 acknowledged may be overwritten.)"""
    cases: Cases = set()
    for key, log in terms.log.items():
        for offset, values in log.items():
            if len(values) >= 2:
                firm = set(terms.polled_at(key, offset)) | {
                    send.value for send in terms.acknowledged_at(key, offset) if terms.is_safe(send)
                }
                cases.add(((key, offset), terms.is_clean(key) and len(firm) >= 2))
    return cases


def phantom(terms: Terms) -> Cases:
    return {((poll.key, poll.offset, poll.value), True) for poll in terms.polls if is_phantom(terms, poll)}


def is_phantom(terms: Terms, poll: Mop) -> bool:
    return poll.defect is not None or not terms.was_sent(poll.key, poll.value)


def aborted_read(terms: Terms) -> Cases:
    cases: Cases = set()
    for send in terms.sends:
        if terms.is_compacted(send.key) or terms.outcome(send) != "fail":
            continue
        readers = terms.committed_reads(send) if send.f == "txn" else terms.reads(send)
        if readers:
            cases.add(((send.key, send.value), True))
    return cases


def early_read(terms: Terms) -> Cases:
    cases: Cases = set()
    for send in terms.sends:
        if send.f != "txn" or send.commit_ns is None or terms.is_compacted(send.key):
            continue
        for record in terms.committed_reads(send):
            read_ns = record.complete_ns
            if read_ns is not None and terms.is_before(read_ns, record.worker, send.commit_ns, send.worker):
                cases.add(((send.key, send.value), True))
    return cases


def torn_transaction(terms: Terms) -> Cases:
    transactions: dict[int, list[Mop]] = {}
    for send in terms.sends:
        if send.f == "txn" and terms.is_committed(send) and should_be_in_committed_scan(terms, send):
            transactions.setdefault(send.op, []).append(send)
    cases: Cases = set()
    for op, sends in transactions.items():
        missing = [send for send in sends if send.value not in terms.scanned(send.key, "read_committed")]
        if 0 < len(missing) < len(sends):
            cases.add(((op,), any(terms.is_safe(send) for send in missing)))
    return cases


def should_be_in_committed_scan(terms: Terms, send: Mop) -> bool:
    scan = terms.complete_scan(send.key, "read_committed")
    if scan is None or not terms.is_kept(send.key):
        return False
    offset = terms.known_offset(send)
    log_start = scan.log_start or 0
    return log_start == 0 if offset is None else offset >= log_start


# Order of polls


def successive(terms: Terms, inside: bool) -> Iterator[tuple[Position, Mop, Mop]]:
    for position in terms.positions:
        if not terms.is_compacted(position.key):
            for a, b in pairwise(position.records):
                if (a.op == b.op) == inside:
                    yield position, a, b


def poll_skip(terms: Terms, inside: bool) -> Cases:
    """Fatal when one of the versions between is firm: an acknowledgement under acks=1 may be of a record that
    a correct broker lost, and a marker lies in its place."""
    cases: Cases = set()
    for _, a, b in successive(terms, inside):
        committed_only = "read_committed" in (a.isolation, b.isolation)
        versions = terms.committed_versions(b.key) if committed_only else set(terms.log[b.key])
        between = {each for each in versions if terms.offset(a) < each < terms.offset(b)}
        if between:
            firm = between & terms.firm_versions(b.key, committed_only)
            cases.add(((b.process, b.key, *b.place), bool(firm) and terms.is_clean(b.key)))
    return cases


def nonmonotonic_poll(terms: Terms, inside: bool) -> Cases:
    cases: Cases = set()
    for position, a, b in successive(terms, inside):
        went_back = terms.offset(b) <= terms.offset(a)
        seen_again = any(
            earlier.value == b.value and terms.offset(earlier) < terms.offset(b)
            for earlier in position.records
            if earlier.place < b.place
        )
        if went_back or seen_again:
            fatal = went_back or terms.is_never_repeated(terms.send_of(b))
            cases.add(((b.process, b.key, *b.place), fatal and terms.is_clean(b.key)))
    return cases


# Order of sends


def successive_sends(terms: Terms, inside: bool) -> Iterator[tuple[Mop, Mop]]:
    """Acknowledged sends of one process to one key, each with the next."""
    streams: dict[tuple[int, int], list[Mop]] = {}
    for send in sorted(terms.sends, key=lambda each: each.place):
        if terms.acknowledged_offset(send) is not None and not terms.is_compacted(send.key):
            streams.setdefault((send.process, send.key), []).append(send)
    for stream in streams.values():
        for a, b in pairwise(stream):
            if (a.op == b.op) == inside:
                yield a, b


def nonmonotonic_send(terms: Terms, inside: bool) -> Cases:
    cases: Cases = set()
    for a, b in successive_sends(terms, inside):
        if terms.offset(b) < terms.offset(a):
            fatal = all(terms.is_safe(each) and terms.keeps_order(each) for each in (a, b))
            cases.add(((b.process, b.key, *b.place), fatal))
    return cases


def realtime_order(terms: Terms) -> Cases:
    """Fatal when both sends are safe: an unsafe a may have been truncated, an unsafe b may have been
    acknowledged by a leader that is none any more."""
    cases: Cases = set()
    acknowledged = [
        send for send in terms.sends if terms.acknowledged_offset(send) is not None and not terms.is_compacted(send.key)
    ]
    for b in acknowledged:
        overtaken = [
            a
            for a in acknowledged
            if a.key == b.key
            and a.complete_ns is not None
            and terms.is_before(a.complete_ns, a.worker, b.invoke_ns, b.worker)
            and terms.offset(a) > terms.offset(b)
        ]
        if overtaken:
            fatal = terms.is_safe(b) and any(terms.is_safe(a) for a in overtaken)
            cases.add(((b.key, b.value), fatal))
    return cases


def int_send_skip(terms: Terms) -> Cases:
    cases: Cases = set()
    for a, b in successive_sends(terms, inside=True):
        low, high = sorted((terms.offset(a), terms.offset(b)))
        for offset, values in terms.log[b.key].items() if b.key in terms.log else ():
            writers = {terms.sent[b.key, value].process for value in values if (b.key, value) in terms.sent}
            if low < offset < high and writers - {b.process}:
                cases.add(((b.op, b.key, b.mop, b.pos), False))
    return cases
