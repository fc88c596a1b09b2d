"""Which faults a run draws from: those of the plan that its fleet can do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from harness.events import EventStream
from harness.keys import Keys
from harness.plan import Plan
from harness.run import _nemesis
from harness.targets import Target
from histories.recorded import RecordedEvent
from nemesis.network import NETWORK_FAULTS
from tests.nemesis.fakes import FakeCluster

NETWORK = {str(each.kind) for each in NETWORK_FAULTS}
LONG = Plan(seed=1, time_limit_s=3600.0)


def drawn(plan: Plan, cluster: FakeCluster) -> tuple[set[str], list[str]]:
    """The kinds in the schedule, and what is said to be unavailable."""
    target = cast(Any, cluster)
    target.view = cluster
    stream, said = EventStream(0), []

    def hear(event: object) -> None:
        assert isinstance(event, RecordedEvent)
        said.append(f"{event.kind}: {event.detail}")

    stream.subscribe(hear)
    nemesis = _nemesis(plan, cast(Target, target), Keys.of(plan, "run"), stream)
    return {str(each.kind) for each in nemesis._schedule}, said


def test_a_fleet_without_links_leaves_network_faults_out_and_says_so() -> None:
    kinds, said = drawn(LONG, FakeCluster())
    assert kinds == {"kill", "pause", "stop", "restart"}
    (sentence,) = said
    assert sentence.startswith("faults-unavailable: isolate, mute, ")
    assert "the hosts have no links of their own" in sentence


def test_a_fleet_with_links_draws_all_of_the_plan() -> None:
    cluster = FakeCluster()
    cluster.with_links()
    kinds, said = drawn(LONG, cluster)
    assert kinds == set(LONG.faults.kinds)
    assert kinds & NETWORK
    assert said == []


def test_one_kind_that_cannot_be_done_is_named_alone() -> None:
    cluster = FakeCluster()
    cluster.with_links().missing = {"delay": "this kernel has no netem"}
    plan = replace(LONG, faults=replace(LONG.faults, kinds=("delay", "ring", "halves")))
    kinds, said = drawn(plan, cluster)
    assert kinds == {"halves"}
    assert said == [
        "faults-unavailable: delay: this kernel has no netem",
        "faults-unavailable: ring: it takes at least 4 brokers, and there are 3",
    ]
