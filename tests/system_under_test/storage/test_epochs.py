"""Leader epochs: small cases by hand, and all operations against a list of who wrote which offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from system_under_test.storage.epochs import EpochEntry, LeaderEpochCache


def cache(*entries: tuple[int, int]) -> tuple[LeaderEpochCache, list[list[EpochEntry]]]:
    stored: list[list[EpochEntry]] = []
    return LeaderEpochCache([EpochEntry(*each) for each in entries], stored.append), stored


def test_assigning_the_same_epoch_again_writes_nothing() -> None:
    epochs, stored = cache((2, 10))
    epochs.assign(2, 10)
    epochs.assign(2, 15)
    assert stored == []
    epochs.assign(3, 20)
    assert stored == [[(2, 10), (3, 20)]]


def test_an_epoch_that_wrote_nothing_vanishes() -> None:
    epochs, _ = cache((2, 10))
    epochs.assign(3, 20)
    epochs.assign(4, 20)
    assert epochs.entries() == [(2, 10), (4, 20)]


def test_what_contradicts_a_new_entry_is_forgotten() -> None:
    epochs, _ = cache((2, 10), (4, 20), (6, 30))
    epochs.assign(5, 15)
    assert epochs.entries() == [(2, 10), (5, 15)]


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than everything known
        (2, (2, 20)),
        (3, (2, 20)),  # unknown: the largest known one below it (KIP-279)
        (4, (4, 30)),
        (5, (4, 30)),
        (6, (6, 99)),  # the last one ends at the log's end
        (7, (-1, -1)),  # newer than everything known
    ],
)
def test_end_offset_for(requested: int, expected: tuple[int, int]) -> None:
    epochs, _ = cache((2, 10), (4, 20), (6, 30))
    assert epochs.end_offset_for(requested, 99) == expected


def test_end_offset_as_before_kip_279() -> None:
    epochs, _ = cache((2, 10), (4, 20), (6, 30))
    assert epochs.end_offset_for(3, 99, claim_requested_epoch=True) == (3, 20)
    assert epochs.end_offset_for(4, 99, claim_requested_epoch=True) == (4, 30)
    assert epochs.end_offset_for(7, 99, claim_requested_epoch=True) == (-1, -1)


def test_without_entries_nothing_is_defined() -> None:
    epochs, _ = cache()
    assert epochs.end_offset_for(0, 5) == (-1, -1)
    assert epochs.latest_epoch() is None
    assert epochs.epoch_for_offset(3) is None


def test_truncation_from_both_ends() -> None:
    epochs, stored = cache((2, 10), (4, 20), (6, 30))
    epochs.truncate_from_end(31)
    assert stored == []
    epochs.truncate_from_end(30)
    assert epochs.entries() == [(2, 10), (4, 20)]
    epochs.truncate_from_start(5)
    assert epochs.entries() == [(2, 10), (4, 20)]
    epochs.truncate_from_start(15)
    assert epochs.entries() == [(2, 15), (4, 20)]
    epochs.truncate_from_start(25)
    assert epochs.entries() == [(4, 25)]
    epochs.clear()
    assert stored[-1] == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("end"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("start"), st.integers(0, 40), st.just(0)),
    ),
    max_size=25,
)


@given(steps)
def test_against_who_wrote_which_offset(steps: list[tuple[str, int, int]]) -> None:
    """The entries must be what the records themselves say; epochs only rise."""
    epochs, stored = cache()
    start, wrote, epoch = 0, list[int](), 0
    for kind, number, count in steps:
        end = start + len(wrote)
        if kind == "append":
            epoch += number
            epochs.assign(epoch, end)
            wrote += [epoch] * count
        elif kind == "end" and start <= number <= end:
            del wrote[number - start :]
            epochs.truncate_from_end(number)
        elif kind == "start" and start <= number < end:
            del wrote[: number - start]
            start = number
            epochs.truncate_from_start(number)
        expected: list[tuple[int, int]] = []
        for offset, each in enumerate(wrote, start):
            if not expected or expected[-1][0] != each:
                expected.append((each, offset))
        assert epochs.entries() == expected
        assert not stored or stored[-1] == expected
        for offset, each in enumerate(wrote, start):
            assert epochs.epoch_for_offset(offset) == each
