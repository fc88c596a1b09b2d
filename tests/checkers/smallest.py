"""The smallest history that has each anomaly, and the smallest ones that almost have it.

A guilty example names the one case that must be found. An innocent one is guilty's neighbour: one row, one
offset or one outcome away, and nothing of that anomaly may be found in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from histories.build import HistoryBuilder, Poll, Seek, Send
from tests.checkers.reference import Identity

RAW = "read_uncommitted"
COMMITTED = "read_committed"


@dataclass(frozen=True)
class Guilty:
    anomaly: str
    case: Identity
    fatal: bool
    write: Callable[[HistoryBuilder], None]

    @property
    def name(self) -> str:
        return self.write.__name__


@dataclass(frozen=True)
class Innocent:
    anomaly: str
    write: Callable[[HistoryBuilder], None]

    @property
    def name(self) -> str:
        return self.write.__name__


GUILTY: list[Guilty] = []
INNOCENT: list[Innocent] = []

Writer = Callable[[HistoryBuilder], None]


def guilty(anomaly: str, case: Identity, fatal: bool = True) -> Callable[[Writer], Writer]:
    def register(write: Writer) -> Writer:
        GUILTY.append(Guilty(anomaly, case, fatal, write))
        return write

    return register


def innocent(anomaly: str) -> Callable[[Writer], Writer]:
    def register(write: Writer) -> Writer:
        INNOCENT.append(Innocent(anomaly, write))
        return write

    return register


# lost-write, unseen


@guilty("lost-write", (0, 1))
def acknowledged_and_not_in_the_scan(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.scan(0, [])


@guilty("lost-write", (0, 1))
def missing_from_the_committed_scan_only(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.scan(0, [(0, 1)], RAW)
    b.scan(0, [], COMMITTED)


@guilty("lost-write", (0, 1), fatal=False)
def acknowledged_by_one_replica_and_lost(b: HistoryBuilder) -> None:
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1, 0)
    b.scan(0, [])


@guilty("lost-write", (0, 1))
def a_reader_passed_it_and_nobody_read_it(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 6)
    b.assign(1, [0], [5])
    b.poll(1, [(0, 6, 2)])


@innocent("lost-write")
def a_reader_began_above_it(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 6)
    b.assign(1, [0], [6])
    b.poll(1, [(0, 6, 2)])


@innocent("lost-write")
def a_reader_began_nobody_knows_where(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 6)
    b.assign(1, [0])
    b.poll(1, [(0, 6, 2)])


@innocent("lost-write")
def a_reader_sought_past_it(b: HistoryBuilder) -> None:
    for offset in (4, 5, 6):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 4, 4)])
    b.assign(1, [0], [6])
    b.poll(1, [(0, 6, 6)])


@innocent("lost-write")
def a_failed_operation_sought_below_it(b: HistoryBuilder) -> None:
    """After the failure the client goes back to where it was before, which nobody recorded."""
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 6)
    b.operation("poll", 1, [Seek(0, 0)], "fail", isolation=COMMITTED)
    b.poll(1, [(0, 6, 2)])


@innocent("lost-write")
def a_reader_failed_below_it_and_went_on_above(b: HistoryBuilder) -> None:
    """Where it went on from nobody knows, not even of a consumer that began at the beginning."""
    for offset in (4, 5, 6):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 4, 4)], type="fail")
    b.poll(1, [(0, 6, 6)])


@innocent("lost-write")
def a_reader_began_with_a_record_of_unknown_offset(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 6)
    b.send(0, 0, 3)
    b.assign(1, [0])
    b.poll(1, [(0, None, 3), (0, 6, 2)])


@innocent("lost-write")
def refused_without_acks(b: HistoryBuilder) -> None:
    b.producer(acks=0, idempotent=False)
    b.send(0, 0, 1, type="fail")
    b.scan(0, [])


@innocent("lost-write")
def acknowledged_nobody_noted_when(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0, at=(10, None))
    b.poll(1, [(0, 0, 1)])
    b.scan(0, [(0, 1)])


@innocent("lost-write")
def nobody_knows_whether_it_was_written(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, type="info")
    b.scan(0, [])


@innocent("lost-write")
def sent_without_acks(b: HistoryBuilder) -> None:
    b.producer(acks=0, idempotent=False)
    b.send(0, 0, 1)
    b.scan(0, [])


@innocent("lost-write")
def removed_below_the_log_start(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 4)
    b.scan(0, [], log_start=5)


@innocent("lost-write")
def the_scan_did_not_reach_it(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.scan(0, [], complete=False)


@innocent("lost-write")
def its_topic_was_deleted(b: HistoryBuilder) -> None:
    b.topic("t", deleted=True)
    b.send(0, 0, 1, 0)
    b.scan(0, [])


@innocent("lost-write")
def a_transaction_known_only_from_raw_reads(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], type="info")
    b.poll(1, [(0, 0, 1)], RAW)
    b.scan(0, [])


@guilty("unseen", (0, 1), fatal=False)
def acknowledged_and_never_looked_for(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)


@guilty("unseen", (0, 1), fatal=False)
def perhaps_below_the_log_start(b: HistoryBuilder) -> None:
    b.send(0, 0, 1)
    b.scan(0, [], log_start=5)


@innocent("unseen")
def read_once_and_never_scanned(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])


@guilty("lost-write", (0, 1))
def one_scan_from_the_beginning_lacks_it(b: HistoryBuilder) -> None:
    b.send(0, 0, 1)
    b.scan(0, [], RAW)
    b.scan(0, [], COMMITTED, log_start=5)


@innocent("unseen")
def one_scan_from_the_beginning_decides(b: HistoryBuilder) -> None:
    b.send(0, 0, 1)
    b.scan(0, [], RAW, log_start=5)
    b.scan(0, [], COMMITTED)


@innocent("unseen")
def scanned_by_one_isolation(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.scan(0, [(0, 1)], RAW)


# vanished-read


@guilty("vanished-read", (0, 1))
def read_and_gone(b: HistoryBuilder) -> None:
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.scan(0, [])


@innocent("vanished-read")
def read_and_removed_by_retention(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.scan(0, [], log_start=1)


@innocent("vanished-read")
def read_raw_from_a_transaction_nobody_committed(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], type="info")
    b.poll(1, [(0, 0, 1)], RAW)
    b.scan(0, [])


@innocent("vanished-read")
def only_the_committed_scan_is_complete(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.scan(0, [], COMMITTED)
    b.scan(0, [], RAW, complete=False)


# duplicate, misplaced-ack, inconsistent-offset


@guilty("duplicate", (0, 1))
def read_at_two_offsets(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.poll(2, [(0, 1, 1)])


@guilty("duplicate", (0, 1), fatal=False)
def retried_without_idempotence(b: HistoryBuilder) -> None:
    b.producer(idempotent=False)
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1), (0, 1, 1)])


@guilty("duplicate", (0, 1), fatal=False)
def retried_after_an_unclean_election(b: HistoryBuilder) -> None:
    """The first copy was read and truncated away with the producer's state; the retry is stored anew."""
    b.topic("t", unclean_leader_election=True)
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 3, 1)])
    b.poll(2, [(0, 0, 1)])


@innocent("duplicate")
def read_twice_at_one_offset(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.poll(2, [(0, 0, 1)])


@innocent("duplicate")
def read_at_one_offset_and_nobody_knows_where(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, 1)])
    b.poll(2, [(0, None, 1)])


@innocent("duplicate")
def acknowledged_elsewhere_but_read_once(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 1, 1)])


@guilty("misplaced-ack", (0, 1))
def acknowledged_at_0_and_read_at_1(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 1, 1)])


@innocent("misplaced-ack")
def also_read_where_it_was_acknowledged(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 1, 1)])
    b.poll(2, [(0, 0, 1)])


@innocent("misplaced-ack")
def acknowledged_without_an_offset(b: HistoryBuilder) -> None:
    b.send(0, 0, 1)
    b.poll(1, [(0, 1, 1)])


@guilty("inconsistent-offset", (0, 0))
def two_values_acknowledged_at_one_offset(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.send(1, 0, 2, 0)


@guilty("inconsistent-offset", (0, 0))
def two_readers_saw_two_values_whatever_the_acks(b: HistoryBuilder) -> None:
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1)
    b.send(0, 0, 2)
    b.poll(1, [(0, 0, 1)])
    b.poll(2, [(0, 0, 2)])


@guilty("inconsistent-offset", (0, 0), fatal=False)
def an_unsafe_acknowledgement_was_overwritten(b: HistoryBuilder) -> None:
    b.producer()
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1, 0, producer=1)
    b.send(1, 0, 2, 0)
    b.poll(2, [(0, 0, 2)])


@innocent("inconsistent-offset")
def the_same_offset_of_two_keys(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.send(0, 1, 2, 0)


@innocent("inconsistent-offset")
def an_aborted_transactions_acknowledgement(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0, "ok")], type="fail")
    b.send(1, 0, 2, 0)


@innocent("inconsistent-offset")
def the_same_offset_of_topics_that_were_deleted(b: HistoryBuilder) -> None:
    """Last of all keys is one with a scan, and neither was sent there."""
    b.send(0, -1, 1, 0)
    b.send(1, -1, 2, 0)
    b.send(2, 0, 3, 4)
    b.poll(3, [(0, 4, 3)])


# phantom


@guilty("phantom", (0, 0, 9))
def nobody_sent_it(b: HistoryBuilder) -> None:
    b.poll(1, [(0, 0, 9)])


@innocent("lost-write")
def nobody_sent_it_and_it_is_in_two_places(b: HistoryBuilder) -> None:
    """Two phantoms, each of them once."""
    b.poll(1, [(0, 0, 9), (0, 1, 9)])
    b.poll(2, [(0, 0, 9)])


@guilty("phantom", (1, 0, 1))
def sent_to_another_key(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(1, 0, 1)])


@guilty("phantom", (0, 0, None))
def a_bad_checksum(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 0)
    b.poll(1, [(0, 0, None)], defect="checksum")


@innocent("phantom")
def sent_and_unknown_is_sent(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, type="info")
    b.poll(1, [(0, 0, 1)])


@innocent("phantom")
def sent_while_its_topic_was_deleted(b: HistoryBuilder) -> None:
    b.send(0, -1, 1, type="info")
    b.poll(1, [(0, 0, 1)])


@innocent("phantom")
def nothing_but_a_scan(b: HistoryBuilder) -> None:
    b.scan(0, [])


@innocent("phantom")
def read_nobody_knows_where(b: HistoryBuilder) -> None:
    """A position of it skips nothing of the last key either."""
    for offset in (4, 5, 6):
        b.send(0, 0, offset, offset)
    b.assign(1, [-1], [4])
    b.poll(1, [(-1, 4, 9), (-1, 6, 9)])


@innocent("early-read")
def read_early_nobody_knows_where(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=50)
    b.poll(1, [(-1, 0, 1)], COMMITTED, at=(30, 40))


# aborted-read, early-read, torn-transaction


@guilty("aborted-read", (0, 1))
def refused_and_read_raw(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, type="fail")
    b.poll(1, [(0, 0, 1)], RAW)


@guilty("aborted-read", (0, 1))
def aborted_and_read_committed(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0, "ok")], type="fail")
    b.poll(1, [(0, 0, 1)], COMMITTED)


@innocent("aborted-read")
def aborted_and_read_raw(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0, "ok")], type="fail")
    b.poll(1, [(0, 0, 1)], RAW)


@innocent("aborted-read")
def unknown_and_read(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, type="info")
    b.poll(1, [(0, 0, 1)], RAW)


@innocent("aborted-read")
def failed_without_acks_is_unknown(b: HistoryBuilder) -> None:
    b.producer(acks=0, idempotent=False)
    b.send(0, 0, 1, type="fail")
    b.poll(1, [(0, 0, 1)], RAW)


@guilty("early-read", (0, 1))
def read_before_commit_was_requested(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=50)
    b.poll(1, [(0, 0, 1)], COMMITTED, at=(30, 49))


@guilty("early-read", (0, 1))
def reads_its_own_uncommitted_send(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0), Poll([(0, 0, 1)])])


@innocent("early-read")
def read_when_commit_was_requested(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=50)
    b.poll(1, [(0, 0, 1)], COMMITTED, at=(30, 50))


@innocent("early-read")
def read_raw_before_commit(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=50)
    b.poll(1, [(0, 0, 1)], RAW, at=(30, 40))


@innocent("early-read")
def earlier_by_no_more_than_the_clocks_err(b: HistoryBuilder) -> None:
    b.worker(1, [0], clock_error_ns=4)
    b.worker(2, [1], clock_error_ns=6)
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=50)
    b.poll(1, [(0, 0, 1)], COMMITTED, at=(30, 40))


@innocent("early-read")
def nobody_noted_when_commit_was_requested(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0)], at=(10, 100), commit_at=None)
    b.poll(1, [(0, 0, 1)], COMMITTED, at=(30, 40))


@guilty("torn-transaction", (0,))
def one_of_two_values_is_there(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [(0, 1)])
    b.scan(1, [])


@guilty("torn-transaction", (0,), fatal=False)
def the_missing_one_was_on_an_unclean_topic(b: HistoryBuilder) -> None:
    b.topic("clean")
    b.topic("unclean", unclean_leader_election=True)
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [(0, 1)])
    b.scan(1, [])


@guilty("torn-transaction", (0,))
def the_one_that_is_there_was_on_an_unclean_topic(b: HistoryBuilder) -> None:
    b.topic("clean")
    b.topic("unclean", unclean_leader_election=True)
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [])
    b.scan(1, [(0, 2)])


@innocent("torn-transaction")
def none_of_two_values_is_there(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [])
    b.scan(1, [])


@innocent("torn-transaction")
def the_other_key_was_not_scanned(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [(0, 1)])
    b.scan(1, [], complete=False)


@innocent("torn-transaction")
def the_other_value_is_below_the_log_start(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 0), Send(1, 2, 0)])
    b.scan(0, [(0, 1)])
    b.scan(1, [], log_start=1)


# Order of polls


@guilty("int-poll-skip", (1, 0, 3, 0, 1))
def skips_inside_one_poll(b: HistoryBuilder) -> None:
    for offset in range(3):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 0, 0), (0, 2, 2)])


@guilty("poll-skip", (1, 0, 4, 0, 0))
def skips_between_two_polls(b: HistoryBuilder) -> None:
    for offset in range(3):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 0, 0)])
    b.poll(1, [(0, 2, 2)])


@guilty("int-poll-skip", (1, 0, 2, 0, 1), fatal=False)
def skips_on_an_unclean_topic(b: HistoryBuilder) -> None:
    b.topic("t", unclean_leader_election=True)
    b.burst(0, [Send(0, 0, 0), Send(0, 1, 1), Send(0, 2, 2)])
    b.poll(2, [(0, 1, 1)])
    b.poll(1, [(0, 0, 0), (0, 2, 2)])


@guilty("int-poll-skip", (1, 0, 3, 0, 1), fatal=False)
def skips_what_one_replica_acknowledged(b: HistoryBuilder) -> None:
    """A new leader may have a marker in its place."""
    b.producer()
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 0, 0)
    b.send(0, 0, 1, 1, producer=1)
    b.send(0, 0, 2, 2)
    b.poll(1, [(0, 0, 0), (0, 2, 2)])


@guilty("int-poll-skip", (1, 0, 3, 0, 1))
def skips_what_another_read_whatever_the_acks(b: HistoryBuilder) -> None:
    b.producer(acks=1, idempotent=False)
    b.burst(0, [Send(0, 0, 0), Send(0, 1, 1), Send(0, 2, 2)])
    b.poll(2, [(0, 1, 1)])
    b.assign(2, [0])
    b.poll(1, [(0, 0, 0), (0, 2, 2)])


@innocent("int-poll-skip")
def offsets_have_gaps(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.send(0, 0, 2, 2)
    b.poll(1, [(0, 0, 0), (0, 2, 2)])


@innocent("int-poll-skip")
def a_committed_reader_leaves_out_aborted_data(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.txn(0, [Send(0, 1, 1, "ok")], type="fail")
    b.send(0, 0, 2, 2)
    b.poll(2, [(0, 1, 1)], RAW)
    b.poll(1, [(0, 0, 0), (0, 2, 2)], COMMITTED)


def _aborted_between(b: HistoryBuilder, first: str, second: str) -> None:
    """Process 1 polls to both sides of a record that only a read_uncommitted poll may return."""
    b.send(0, 0, 0, 0)
    b.txn(0, [Send(0, 1, 1, "ok")], type="fail")
    b.send(0, 0, 2, 2)
    b.poll(2, [(0, 1, 1)], RAW)
    b.poll(1, [(0, 0, 0)], first)
    b.poll(1, [(0, 2, 2)], second)


@innocent("poll-skip")
def from_committed_data_on_to_all_data(b: HistoryBuilder) -> None:
    _aborted_between(b, COMMITTED, RAW)


@innocent("poll-skip")
def from_all_data_on_to_committed_data(b: HistoryBuilder) -> None:
    _aborted_between(b, RAW, COMMITTED)


@guilty("poll-skip", (1, 0, 5, 0, 0))
def an_aborted_record_is_passed_over_by_who_reads_all(b: HistoryBuilder) -> None:
    _aborted_between(b, RAW, RAW)


@innocent("int-poll-skip")
def seeks_inside_one_operation(b: HistoryBuilder) -> None:
    for offset in range(3):
        b.send(0, 0, offset, offset)
    b.operation("poll", 1, [Poll([(0, 0, 0)]), Seek(0, 2), Poll([(0, 2, 2)])], isolation=COMMITTED)


@innocent("poll-skip")
def seeks_between_two_polls(b: HistoryBuilder) -> None:
    for offset in range(3):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 0, 0)])
    b.assign(1, [0], [2])
    b.poll(1, [(0, 2, 2)])


@innocent("poll-skip")
def another_process_reads_on(b: HistoryBuilder) -> None:
    for offset in range(3):
        b.send(0, 0, offset, offset)
    b.poll(1, [(0, 0, 0)])
    b.poll(2, [(0, 2, 2)])


@guilty("int-nonmonotonic-poll", (1, 0, 2, 0, 1))
def goes_back_inside_one_poll(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.send(0, 0, 1, 1)
    b.poll(1, [(0, 1, 1), (0, 0, 0)])


@guilty("int-nonmonotonic-poll", (1, 0, 1, 0, 1))
def reads_one_value_again_further_on(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.poll(1, [(0, 0, 0), (0, 1, 0)])


@guilty("int-nonmonotonic-poll", (1, 0, 1, 0, 1), fatal=False)
def reads_a_retried_copy(b: HistoryBuilder) -> None:
    b.producer(idempotent=False)
    b.send(0, 0, 0, 0)
    b.poll(1, [(0, 0, 0), (0, 1, 0)])


@guilty("int-nonmonotonic-poll", (1, 0, 1, 0, 1), fatal=False)
def reads_what_was_retried_after_an_unclean_election(b: HistoryBuilder) -> None:
    b.topic("t", unclean_leader_election=True)
    b.send(0, 0, 0, 1)
    b.poll(1, [(0, 0, 0), (0, 1, 0)])


@guilty("nonmonotonic-poll", (1, 0, 2, 0, 0))
def reads_one_record_in_two_polls(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.poll(1, [(0, 0, 0)])
    b.poll(1, [(0, 0, 0)])


@innocent("nonmonotonic-poll")
def goes_back_after_a_failure(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.poll(1, [(0, 0, 0)], type="fail")
    b.poll(1, [(0, 0, 0)])


@innocent("nonmonotonic-poll")
def reads_two_keys_in_turn(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 1)
    b.send(0, 1, 2, 0)
    b.poll(1, [(0, 1, 1)])
    b.poll(1, [(1, 0, 2)])


@innocent("int-nonmonotonic-poll")
def resets_inside_one_operation(b: HistoryBuilder) -> None:
    b.send(0, 0, 0, 0)
    b.operation("poll", 1, [Poll([(0, 0, 0)]), Seek(0, 0, "reset"), Poll([(0, 0, 0)])], isolation=COMMITTED)


# Order of sends


@guilty("int-nonmonotonic-send", (0, 0, 0, 1, 0))
def a_burst_is_stored_backwards(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 5), Send(0, 2, 4)])


@guilty("int-nonmonotonic-send", (0, 0, 0, 1, 0), fatal=False)
def a_retry_overtakes_without_idempotence(b: HistoryBuilder) -> None:
    b.producer(idempotent=False, max_in_flight=5)
    b.burst(0, [Send(0, 1, 5), Send(0, 2, 4)])


@guilty("nonmonotonic-send", (0, 0, 1, 0, 0))
def the_next_send_is_stored_lower(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5)
    b.send(0, 0, 2, 4)


@innocent("int-nonmonotonic-send")
def a_burst_to_two_keys(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 5), Send(1, 2, 4)])


@innocent("int-nonmonotonic-send")
def the_second_send_is_unknown(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 5), Send(0, 2, None, "info")])
    b.poll(1, [(0, 4, 2)])


@innocent("nonmonotonic-send")
def an_aborted_transaction_lies_higher(b: HistoryBuilder) -> None:
    b.txn(0, [Send(0, 1, 5, "ok")], type="fail")
    b.send(0, 0, 2, 4)


@innocent("nonmonotonic-send")
def two_processes_send(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5, at=(0, 10))
    b.send(1, 0, 2, 4, at=(5, 15))


@guilty("realtime-order", (0, 2))
def acknowledged_before_the_other_began_and_stored_higher(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5, at=(0, 10))
    b.send(1, 0, 2, 4, at=(11, 20))


@guilty("realtime-order", (0, 2), fatal=False)
def what_was_stored_higher_was_never_safe(b: HistoryBuilder) -> None:
    b.producer()
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1, 5, at=(0, 10), producer=1)
    b.send(1, 0, 2, 4, at=(11, 20))


@guilty("realtime-order", (0, 3))
def the_highest_was_never_safe_but_another_was(b: HistoryBuilder) -> None:
    b.producer()
    b.producer(acks=1, idempotent=False)
    b.send(0, 0, 1, 9, at=(0, 10), producer=1)
    b.send(2, 0, 2, 5, at=(5, 12))
    b.send(1, 0, 3, 4, at=(20, 30))


@innocent("realtime-order")
def the_two_overlap(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5, at=(0, 10))
    b.send(1, 0, 2, 4, at=(10, 20))


@innocent("realtime-order")
def nobody_noted_when_it_was_acknowledged(b: HistoryBuilder) -> None:
    b.send(0, 0, 1, 5, at=(0, None))
    b.send(1, 0, 2, 4, at=(10, 20))


@innocent("realtime-order")
def apart_by_no_more_than_the_clocks_err(b: HistoryBuilder) -> None:
    b.worker(1, [0], clock_error_ns=4)
    b.worker(2, [1], clock_error_ns=6)
    b.send(0, 0, 1, 5, at=(0, 10))
    b.send(1, 0, 2, 4, at=(20, 30))


@innocent("realtime-order")
def acknowledged_of_topics_that_were_deleted_meanwhile(b: HistoryBuilder) -> None:
    """Nobody knows whether that was the same topic."""
    b.send(0, 0, 3, 0)
    b.send(0, -1, 1, 5, at=(10, 20))
    b.send(1, -1, 2, 4, at=(30, 40))


@guilty("realtime-order", (0, 2))
def the_sends_follow_each_other_though_their_operations_overlap(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 5, at=(0, 10))], at=(0, 40))
    b.burst(1, [Send(0, 2, 4, at=(11, 20))], at=(5, 40))


@guilty("int-send-skip", (1, 0, 1, 0), fatal=False)
def anothers_record_lies_between(b: HistoryBuilder) -> None:
    b.send(0, 0, 2, 1, at=(0, 10))
    b.burst(1, [Send(0, 1, 0), Send(0, 3, 2)], at=(1, 9))


@innocent("int-send-skip")
def a_gap_lies_between(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 0), Send(0, 3, 2)])


@innocent("int-send-skip")
def anothers_record_lies_after(b: HistoryBuilder) -> None:
    b.burst(0, [Send(0, 1, 0), Send(0, 3, 1)])
    b.send(1, 0, 2, 2)


@innocent("lost-write")
def sent_without_acks_while_its_topic_was_deleted(b: HistoryBuilder) -> None:
    """Last in this file, so that its key is the last one: a send without a key must not be taken for one to it."""
    b.producer(acks=0, idempotent=False)
    b.send(0, -1, 1, type="info")
    b.scan(0, [])
