"""The final scans on clients in memory: sentinels, both isolations, and what incomplete means."""

from __future__ import annotations

from pathlib import Path

from harness.clients.base import Batch, ClientError, TopicPartition
from harness.final import FinalScans
from harness.plan import ClientPlan
from harness.workloads.log_producer import LogProducer
from histories.schema import Isolation, Outcome
from tests.harness.fake_clients import FakeClock, FakeConsumer, FakeLibrary, World, make_world

CALM = ClientPlan(rate=0, crash_every_s=0, workers=1)


def loaded(folder: Path) -> World:
    world = make_world(folder, CALM)
    producer = LogProducer(world.context, 0, 0)
    for _ in range(20):
        producer.step()
    return world


def scan(world: World, deadline_s: float = 30.0) -> FinalScans:
    scans = FinalScans(world.context, world.keys, deadline_s)
    assert not scans.step()
    return scans


def test_every_key_is_read_twice_up_to_its_sentinel(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    scan(world)
    ops, mops, coverage = world.history()
    final = [mop for mop in mops if mop["phase"] == "final"]
    sentinels = {mop["key"]: mop for mop in final if mop["kind"] == "send"}
    assert {mop["status"] for mop in sentinels.values()} == {"ok"}
    assert {op["acks"] for op in ops if op["phase"] == "final" and op["f"] == "send"} == {-1}
    assert {mop["producer"] for mop in sentinels.values()} == {1}
    for isolation in Isolation:
        for key in world.keys:
            read = [
                mop["offset"]
                for mop in final
                if mop["kind"] == "poll" and (mop["key"], mop["isolation"]) == (key.key, isolation)
            ]
            assert read == list(range(sentinels[key.key]["offset"] + 1))
    assert len(coverage) == 4
    for row in coverage:
        end = len(world.library.logs[world.keys[row["key"]].address])
        assert (row["complete"], row["reason"], row["log_start"]) == (True, None, 0)
        assert (row["position"], row["high_watermark"], row["last_stable_offset"]) == (end, end, end)


def test_a_refused_sentinel_is_recorded_and_repeated_with_a_new_value(tmp_path: Path) -> None:
    world = make_world(tmp_path, CALM)
    world.library.outcomes = [(Outcome.INFO, "NOT_LEADER_OR_FOLLOWER"), None]
    scan(world)
    ops, mops, coverage = world.history()
    sends = [mop for mop in mops if mop["kind"] == "send"]
    assert [(mop["key"], mop["status"]) for mop in sends] == [(0, "info"), (1, "ok"), (0, "ok")]
    assert len({mop["value"] for mop in sends}) == 3
    assert len({op["process"] for op in ops if op["f"] == "send"}) == 2
    assert all(row["complete"] for row in coverage)


def test_a_key_that_takes_no_sentinel_is_not_served_by_the_cluster(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    # Key 0 always fails; key 1 succeeds at the first attempt.
    world.library.outcomes = [(Outcome.INFO, "_TIMED_OUT"), None, *[(Outcome.INFO, "_TIMED_OUT")] * 1000]
    scan(world, deadline_s=20)
    _, _, coverage = world.history()
    assert {(row["key"], row["complete"], row["reason"]) for row in coverage} == {
        (0, False, "cluster"),
        (1, True, None),
    }


def test_a_failed_poll_begins_the_unfinished_keys_again_under_a_new_process(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.library.polls = ["_TRANSPORT"]
    scan(world)
    ops, mops, coverage = world.history()
    failed = [op for op in ops if op["type"] == "fail"]
    assert len(failed) == 1
    again = [
        op
        for op in ops
        if op["f"] == "assign" and op["isolation"] == failed[0]["isolation"] and op["op"] > failed[0]["op"]
    ]
    assert len(again) == 1
    assert again[0]["process"] != failed[0]["process"]
    assert {mop["offset"] for mop in mops if mop["op"] == again[0]["op"]} == {0}
    assert all(row["complete"] for row in coverage)


class _Short(FakeConsumer):
    """Serves nothing of partition 0, as below a last stable offset that does not move."""

    def poll(self, max_records: int, timeout_s: float) -> Batch:
        self.positions.pop(("t0", 0), None)
        batch = super().poll(max_records, timeout_s)
        if not batch.offsets:
            clock = self.library.clock
            assert isinstance(clock, FakeClock)
            clock.ns += int(timeout_s * 1e9)
        return batch


class _ShortLibrary(FakeLibrary):
    def consumer(self, isolation: Isolation, client_id: str) -> FakeConsumer:
        return _Short(self, isolation, client_id)


def test_a_key_whose_records_never_come_is_not_served_by_the_cluster(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.context.libraries = [_ShortLibrary(world.clock, world.library.logs)]
    scan(world, deadline_s=30)
    _, _, coverage = world.history()
    assert {(row["key"], row["complete"], row["reason"]) for row in coverage} == {
        (0, False, "cluster"),
        (1, True, None),
    }


def test_a_scan_that_ran_out_of_time_blames_the_scanner(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.context.libraries = [_ShortLibrary(world.clock, world.library.logs)]
    scan(world, deadline_s=2)
    _, _, coverage = world.history()
    assert {row["reason"] for row in coverage if not row["complete"]} == {"scanner"}


def test_a_scan_that_was_told_to_stop_blames_the_scanner(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.context.patience.stop()
    world.clock.ns += int(60e9)
    scan(world)
    _, _, coverage = world.history()
    assert {(row["complete"], row["reason"]) for row in coverage} == {(False, "scanner")}


class _Mute(FakeConsumer):
    def watermarks(self, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:  # noqa: ARG002
        raise ClientError("_TIMED_OUT")


class _MuteLibrary(FakeLibrary):
    def consumer(self, isolation: Isolation, client_id: str) -> FakeConsumer:
        return _Mute(self, isolation, client_id)


def test_without_a_log_start_nothing_is_complete(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.context.libraries = [_MuteLibrary(world.clock, world.library.logs)]
    scan(world, deadline_s=30)
    _, _, coverage = world.history()
    assert {(row["complete"], row["log_start"], row["reason"]) for row in coverage} == {(False, None, "cluster")}
