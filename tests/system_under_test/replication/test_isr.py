"""Rules of the ISR and the high watermark, without any I/O."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from system_under_test.replication.isr import (
    NEVER,
    IsrState,
    LagLimits,
    RemoteReplica,
    high_watermark_allowed,
    is_caught_up,
    may_join,
    out_of_sync,
)

LIMITS = LagLimits(10.0)
LEADER = 0

offsets = st.integers(-1, 20)
times = st.one_of(st.just(NEVER), st.floats(0, 100))
followers = st.integers(1, 4)


@st.composite
def replica_sets(draw: st.DrawFn) -> dict[int, RemoteReplica]:
    return {
        each: RemoteReplica(each, draw(offsets), last_caught_up_time=draw(times))
        for each in sorted(draw(st.sets(followers)))
    }


@st.composite
def isr_states(draw: st.DrawFn) -> IsrState:
    isr = (LEADER, *sorted(draw(st.sets(followers))))
    proposed = draw(st.one_of(st.none(), st.sets(followers).map(lambda each: (LEADER, *sorted(each)))))
    return IsrState(isr, 3, proposed)


@given(replica_sets(), isr_states(), st.integers(0, 20), st.floats(0, 100), st.sets(followers))
def test_nothing_is_committed_that_a_possible_member_lacks(
    replicas: dict[int, RemoteReplica], state: IsrState, end: int, now: float, alive: set[int]
) -> None:
    allowed = high_watermark_allowed(end, replicas.values(), state.maximal, now, LIMITS, alive.__contains__)
    assert allowed <= end
    for each in (*state.isr, *(state.proposed or ())):
        if each in replicas:
            assert allowed <= replicas[each].log_end_offset
    # And nothing is held back without a reason.
    ends = [end] + [
        each.log_end_offset
        for each in replicas.values()
        if each.broker_id in state.maximal or (each.broker_id in alive and is_caught_up(each, end, now, LIMITS))
    ]
    assert allowed == min(ends)


@given(isr_states())
def test_the_maximal_isr_holds_both_sets_and_nobody_twice(state: IsrState) -> None:
    assert set(state.maximal) == set(state.isr) | set(state.proposed or ())
    assert len(state.maximal) == len(set(state.maximal))


@given(replica_sets(), isr_states(), st.integers(0, 20), st.floats(0, 100))
def test_only_members_that_lag_are_dropped_and_none_while_a_change_is_pending(
    replicas: dict[int, RemoteReplica], state: IsrState, end: int, now: float
) -> None:
    leaving = out_of_sync(replicas.values(), state, end, now, LIMITS)
    if state.is_pending:
        assert leaving == ()
    for each in replicas.values():
        lags = each.log_end_offset != end and now - each.last_caught_up_time > LIMITS.time_s
        expected = each.broker_id in state.isr and lags and not state.is_pending
        assert (each.broker_id in leaving) == expected


@given(offsets, isr_states(), st.integers(0, 20), st.integers(0, 20))
def test_who_joins_has_all_that_is_committed(end: int, state: IsrState, high_watermark: int, start: int) -> None:
    joins = may_join(RemoteReplica(1, end), state, high_watermark, start)
    assert joins == (end >= high_watermark and end >= start and 1 not in state.isr and not state.is_pending)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.floats(0.1, 5)), max_size=20))
def test_caught_up_time_is_the_last_moment_at_which_the_follower_had_all(steps: list[tuple[int, int, float]]) -> None:
    """Against a model that remembers every fetch: at the time of a fetch a follower had all, if some later fetch
    begins at or beyond the leader's end of that time."""
    replica = RemoteReplica(1)
    now, end = 0.0, 0
    fetches: list[tuple[float, int, int]] = []
    for fetch_offset, appended, passed in steps:
        now += passed
        offset = min(fetch_offset, end)
        replica.fetched(offset, 0, end, now, 1)
        fetches.append((now, offset, end))
        proven = [
            at
            for index, (at, _, leader_end) in enumerate(fetches)
            # Kafka looks back by one fetch only.
            if any(later >= leader_end for _, later, _ in fetches[index : index + 2])
        ]
        assert replica.last_caught_up_time == max(proven, default=NEVER)
        end += appended


def test_a_follower_that_is_always_one_fetch_behind_is_in_sync() -> None:
    replica = RemoteReplica(1)
    for second in range(100):
        replica.fetched(10 * second, 0, 10 * (second + 1), float(second), 1)
    assert replica.last_caught_up_time == 98.0
    assert is_caught_up(replica, 1000, 99.0, LIMITS)


def test_a_follower_that_reads_slower_than_the_leader_writes_is_not() -> None:
    replica = RemoteReplica(1, last_caught_up_time=0.0)
    for second in range(100):
        replica.fetched(9 * second, 0, 10 * (second + 1), float(second), 1)
    assert not is_caught_up(replica, 1000, 99.0, LIMITS)


def test_the_older_rule_counts_messages() -> None:
    limits = LagLimits(10.0, messages=4)
    replica = RemoteReplica(1, 5, last_caught_up_time=100.0)
    assert is_caught_up(replica, 9, 100.0, limits)
    assert not is_caught_up(replica, 10, 100.0, limits)
