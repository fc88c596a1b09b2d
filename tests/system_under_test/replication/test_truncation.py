"""Divergence by leader epochs, on logs that are lists of epochs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from system_under_test.replication.truncation import EpochEnd, diverges, truncation_offset
from system_under_test.storage.epochs import EpochEntry, LeaderEpochCache

Records = list[tuple[int, int]]
"""Epoch and an identity, by offset."""


def cache(log: Records, current_epoch: int | None = None) -> LeaderEpochCache:
    entries: list[EpochEntry] = []
    for offset, (epoch, _) in enumerate(log):
        if not entries or entries[-1].epoch != epoch:
            entries.append(EpochEntry(epoch, offset))
    epochs = LeaderEpochCache(entries, lambda _: None)
    if current_epoch is not None:
        epochs.assign(current_epoch, len(log))
    return epochs


def end_of(log: Records, epochs: LeaderEpochCache, epoch: int, *, claim: bool = False) -> EpochEnd:
    return EpochEnd(*epochs.end_offset_for(epoch, len(log), claim_requested_epoch=claim))


def reconcile(leader: Records, follower: Records, leader_epoch: int, *, claim: bool = False) -> tuple[Records, int]:
    """Fetch until nothing diverges; what the follower keeps, and in how many rounds."""
    epochs = cache(leader, leader_epoch)
    kept, rounds = list(follower), 0
    while kept:
        last = kept[-1][0]
        answer = end_of(leader, epochs, last, claim=claim)
        if not diverges(answer, last, len(kept)):
            break
        own = cache(kept)
        log = kept
        target = truncation_offset(answer, len(kept), lambda epoch, log=log, own=own: end_of(log, own, epoch))  # type: ignore[misc]
        assert target < len(kept), "each round truncates something"
        kept = kept[:target]
        rounds += 1
    return kept, rounds


@st.composite
def histories(draw: st.DrawFn) -> tuple[Records, Records, int]:
    """Two replicas that lead by turns, each epoch once: now copying from each other, now writing alone."""
    logs: tuple[Records, Records] = ([], [])
    identity = 0
    epoch = 0
    for epoch in range(draw(st.integers(1, 8))):
        leader = draw(st.integers(0, 1))
        if draw(st.booleans()):
            # The other one follows for a while: first truncated, then copied in part.
            kept, _ = reconcile(logs[leader], logs[1 - leader], epoch)
            copied = draw(st.integers(len(kept), len(logs[leader])))
            logs[1 - leader][:] = logs[leader][:copied]
        for _ in range(draw(st.integers(0, 3))):
            logs[leader].append((epoch, identity))
            identity += 1
    return logs[0], logs[1], epoch + 1


@given(histories())
def test_a_follower_keeps_exactly_what_it_has_in_common_with_its_leader(case: tuple[Records, Records, int]) -> None:
    leader, follower, epoch = case
    kept, rounds = reconcile(leader, follower, epoch)
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    assert kept == leader[:common]
    assert rounds <= len({each for each, _ in follower}) + 1


def test_answering_for_a_larger_epoch_than_asked_for_keeps_what_diverges() -> None:
    """KIP-279, and that the switch really brings the bug back."""
    leader = [(0, 1), (0, 2), (0, 3), (2, 6)]
    follower = [(0, 1), (1, 4), (1, 5)]
    assert reconcile(leader, follower, 2)[0] == [(0, 1)]
    assert reconcile(leader, follower, 2, claim=True)[0] == follower
