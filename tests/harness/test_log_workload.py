"""The workload *log* on a client in memory: what is recorded, and when a process ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan import ClientPlan, Plan, TopicPlan
from harness.workloads.base import Key, KeySpace, TokenBucket
from harness.workloads.log import clients, topic_count
from harness.workloads.log_consumer import LogConsumer
from harness.workloads.log_producer import LogProducer
from histories.schema import Isolation, Outcome
from tests.harness.fake_clients import FakeClock, make_world

CALM = ClientPlan(rate=0, crash_every_s=0, burst=5, workers=1)
COMMITTED = Isolation.READ_COMMITTED


def test_sends_are_recorded_with_unique_values_offsets_and_times(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    producer = LogProducer(world.context, 0, 0)
    assert all(producer.step() for _ in range(30))
    ops, mops, _ = world.history()
    assert {(op["f"], op["type"], op["process"], op["acks"]) for op in ops} == {("send", "ok", 0, -1)}
    assert len({mop["value"] for mop in mops}) == len(mops) == producer.tally.acknowledged > 30
    assert {mop["status"] for mop in mops} == {"ok"}
    assert sorted((mop["key"], mop["offset"]) for mop in mops) == [
        (key.key, offset) for key in world.keys for offset in range(len(world.library.logs[key.address]))
    ]
    assert all(mop["invoke_ns"] < mop["complete_ns"] for mop in mops)


def test_an_unknown_outcome_ends_the_process_and_its_client(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=0, burst=1))
    world.library.outcomes = [None, (Outcome.INFO, "_MSG_TIMED_OUT"), None]
    producer = LogProducer(world.context, 0, 0)
    assert all(producer.step() for _ in range(3))
    ops, mops, _ = world.history()
    assert [(op["process"], op["type"], op["error"]) for op in ops] == [
        (0, "ok", None),
        (0, "info", "_MSG_TIMED_OUT"),
        (1, "ok", None),
    ]
    assert [client.abandoned for client in world.library.producers] == [True, False]
    assert [mop["offset"] is None for mop in mops] == [False, True, False]
    assert producer.tally.retries == 4


def test_a_certain_failure_goes_on_with_the_same_process(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=0, burst=1))
    world.library.outcomes = [(Outcome.FAIL, "_QUEUE_FULL"), None]
    producer = LogProducer(world.context, 0, 0)
    assert producer.step()
    assert producer.step()
    ops, _, _ = world.history()
    assert [(op["process"], op["type"]) for op in ops] == [(0, "fail"), (0, "ok")]


def test_a_burst_with_one_unknown_send_is_unknown_and_keeps_the_others(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    producer = LogProducer(world.context, 0, 0)
    assert producer.renew()
    world.library.outcomes = [None, (Outcome.INFO, "_TIMED_OUT"), (Outcome.FAIL, "_QUEUE_FULL")]
    producer.send(producer.prepare([world.keys[0]] * 3))
    ops, mops, _ = world.history()
    assert (ops[0]["type"], ops[0]["error"]) == ("info", "_TIMED_OUT")
    assert [(mop["status"], mop["offset"]) for mop in mops] == [("ok", 0), ("info", None), ("fail", None)]


@pytest.mark.parametrize("outcome", [Outcome.INFO, Outcome.FAIL])
def test_on_error_stop(tmp_path: Path, outcome: Outcome) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=0, burst=1, on_error="stop"))
    world.library.outcomes = [None, (outcome, "whatever")]
    producer = LogProducer(world.context, 0, 0)
    assert producer.step()
    assert not producer.step()


def test_without_acknowledgements_sends_are_unknown_and_the_process_goes_on(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=0, acks="0", idempotence=False, burst=3))
    producer = LogProducer(world.context, 0, 0)
    assert all(producer.step() for _ in range(5))
    ops, mops, _ = world.history()
    assert {(op["process"], op["type"], op["acks"]) for op in ops} == {(0, "info", 0)}
    assert {(mop["status"], mop["offset"]) for mop in mops} == {("info", None)}
    assert len(world.library.producers) == 1


def test_crashes_come_idle_and_in_the_middle_of_a_burst(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=1e-5, burst=2))
    producer = LogProducer(world.context, 0, 0)
    assert all(producer.step() for _ in range(200))
    ops, _, _ = world.history()
    crashes = [op for op in ops if op["f"] == "crash"]
    last = {op["process"]: op["f"] for op in ops}
    assert crashes
    assert all(last[op["process"]] == "crash" for op in crashes)
    assert set(last.values()) == {"crash", "send"}
    assert len(world.library.producers) > len(crashes)


def test_a_cluster_that_cannot_be_reached_is_tried_again(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    world.library.unreachable = 2
    producer = LogProducer(world.context, 0, 0)
    assert all(producer.step() for _ in range(3))
    assert producer.tally.acknowledged


def test_a_prepared_burst_never_outlives_its_process(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    world.library.outcomes = [(Outcome.INFO, "_TIMED_OUT")] * 5
    producer = LogProducer(world.context, 0, 0)
    for _ in range(10):
        producer.step()
    world.library.outcomes.clear()
    consumer = LogConsumer(world.context, 0, 0, COMMITTED)
    for _ in range(5):
        consumer.step()
    _, mops, _ = world.history()
    sent = {mop["value"] for mop in mops if mop["kind"] == "send"}
    polled = [mop for mop in mops if mop["kind"] == "poll"]
    assert polled
    assert all(mop["value"] in sent and mop["defect"] is None for mop in polled)


def test_topics_retire_after_their_share_of_writes(tmp_path: Path) -> None:
    plan = TopicPlan(partitions=2, writes_per_key=10)
    world = make_world(tmp_path, CALM, topics=3, topic=plan)
    producer = LogProducer(world.context, 0, 0)
    while len(world.context.keys.readable()) < 6:
        assert producer.step()
    for _ in range(20):
        producer.step()
    _, mops, _ = world.history()
    per_topic = [sum(mop["key"] // 2 == topic for mop in mops) for topic in range(3)]
    # A burst that was under way, and one that was prepared, still go to the old topic.
    assert all(20 <= count <= 30 for count in per_topic[:2])
    assert per_topic[2] >= 20
    order = [mop["key"] // 2 for mop in mops]
    assert order == sorted(order)


def test_the_last_topic_never_retires() -> None:
    keys = KeySpace([Key(0, "a", 0), Key(1, "b", 0)], writes_per_key=10, workers=2)
    keys.sent(5)
    assert keys.writable()[0].topic == "b"
    keys.sent(500)
    assert keys.writable()[0].topic == "b"


def test_enough_topics_are_asked_for() -> None:
    assert topic_count(Plan()) == 1
    plan = Plan(time_limit_s=10, topic=TopicPlan(partitions=2, writes_per_key=500), clients=ClientPlan(rate=1000))
    assert topic_count(plan) == 11


def test_a_consumer_reads_everything_in_order_under_recorded_seeks(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    producer, consumer = LogProducer(world.context, 0, 0), LogConsumer(world.context, 0, 0, COMMITTED)
    for _ in range(300):
        producer.step()
        consumer.step()
    ops, mops, _ = world.history()
    assert {op["isolation"] for op in ops if op["f"] in ("poll", "assign")} == {"read_committed"}
    position: dict[int, int] = {}
    for mop in mops:
        if mop["kind"] == "seek":
            position[mop["key"]] = mop["offset"]
        if mop["kind"] == "poll":
            assert mop["offset"] == position[mop["key"]]
            position[mop["key"]] += 1
    assert consumer.tally.polled == sum(mop["kind"] == "poll" for mop in mops) > 0


def test_a_failed_poll_keeps_what_it_saw_and_goes_back(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    producer, consumer = LogProducer(world.context, 0, 0), LogConsumer(world.context, 0, 0, COMMITTED)
    for _ in range(10):
        producer.step()
    consumer.step()
    begin = world.library.consumers[0].assigned[0]
    world.library.polls = ["_TRANSPORT"]
    consumer.step()
    consumer.step()
    assert world.library.consumers[0].assigned == [begin, begin]
    ops, mops, _ = world.history()
    consumed = [op for op in ops if op["f"] != "send"]
    assert [(op["f"], op["type"], op["error"]) for op in consumed] == [
        ("assign", "ok", None),
        ("poll", "fail", "_TRANSPORT"),
        ("assign", "ok", None),
        ("poll", "ok", None),
    ]
    failed, again = (
        [(mop["key"], mop["offset"]) for mop in mops if mop["op"] == consumed[number]["op"]] for number in (1, 3)
    )
    assert failed == again != []


def test_a_position_below_the_log_start_is_reset_to_it(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    producer, consumer = LogProducer(world.context, 0, 0), LogConsumer(world.context, 0, 0, COMMITTED)
    for _ in range(20):
        producer.step()
    consumer.step()
    world.library.log_starts = {key.address: 3 for key in world.keys}
    world.library.consumers[0].positions = dict.fromkeys(world.library.consumers[0].positions, 0)
    consumer.step()
    _, mops, _ = world.history()
    resets = [mop for mop in mops if mop["kind"] == "reset"]
    assert {mop["offset"] for mop in resets} == {3}
    assert {mop["key"] for mop in resets} == {
        key.key for key in world.keys if key.address in world.library.consumers[0].positions
    }


def test_five_failed_polls_in_a_row_end_the_process(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    consumer = LogConsumer(world.context, 0, 0, COMMITTED)
    consumer.step()
    world.library.polls = ["_BAD_MSG"] * 5
    for _ in range(7):
        consumer.step()
    ops, _, _ = world.history()
    assert [op["process"] for op in ops if op["f"] == "poll" and op["type"] == "fail"] == [0] * 5
    assert ops[-1]["process"] == 1
    assert world.library.consumers[0].abandoned


def test_a_consumer_that_crashes_comes_back_as_another_process(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(rate=0, crash_every_s=1e-4))
    consumer = LogConsumer(world.context, 0, 0, COMMITTED)
    for _ in range(100):
        consumer.step()
    ops, _, _ = world.history()
    crashed = [op["process"] for op in ops if op["f"] == "crash"]
    last = {op["process"]: op["f"] for op in ops}
    first = {op["process"]: op["f"] for op in reversed(ops)}
    assert len(crashed) > 1
    assert all(last[process] == "crash" for process in crashed)
    assert {first[process] for process in crashed} <= {"assign", "crash"}


def test_half_of_the_consumers_read_committed(tmp_path: Path) -> None:
    world = make_world(tmp_path, ClientPlan(consumers=2, crash_every_s=0, rate=0))
    everyone = clients(world.context)
    assert len(everyone) == 5
    for client in everyone:
        client.step()
    assert {consumer.isolation for consumer in world.library.consumers} == set(Isolation)


def test_the_same_seed_does_the_same(tmp_path: Path) -> None:
    bursts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        world = make_world(tmp_path / name, CALM, seed=seed)
        producer = LogProducer(world.context, 0, 0)
        for _ in range(20):
            producer.step()
        bursts.append(world.library.producers[0].bursts)
    assert bursts[0] == bursts[1] != bursts[2]


def test_the_bucket_keeps_the_rate_and_forgives_an_outage_only_in_part() -> None:
    clock = FakeClock()
    bucket = TokenBucket(100, clock)
    assert bucket.reserve(100) < 0.001
    assert 0.99 < bucket.reserve(1) <= 1.0
    clock.ns += int(60e9)
    assert bucket.reserve(100) == 0.0
    assert bucket.reserve(1) < 0.001
    assert 0.0 < bucket.reserve(1) < 0.02
    assert TokenBucket(0, clock).reserve(10**9) == 0.0
