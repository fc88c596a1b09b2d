"""Each invariant is violated once, by replicas that are put into the state by hand; and once almost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from system_under_test.bugs import Bugs
from system_under_test.config import BrokerConfig
from system_under_test.metadata.cache import PartitionInfo
from system_under_test.protocol import batch
from system_under_test.protocol.batch import Record
from system_under_test.replication.isr import LagLimits
from system_under_test.replication.partition import Partition, StateChange
from system_under_test.simulation.cluster import SimulatedCluster, Topic
from system_under_test.simulation.invariants import Judge, Violation
from system_under_test.simulation.world import SimulatedWorld, Simulation
from system_under_test.storage.config import LogConfig
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition
from system_under_test.world import Create, SetData
from system_under_test.zookeeper.nodes import (
    CONTROLLER_EPOCH,
    PartitionState,
    encode_controller_epoch,
    partition_path,
    partition_state_path,
    partitions_path,
)

T0 = TopicPartition("t", 0)


class Puppet:
    """A broker whose one replica the test moves."""

    def __init__(self, world: SimulatedWorld, config: BrokerConfig, bugs: Bugs) -> None:
        world.files.make_folder("/data/t-0")
        self.log = Log(world, "/data/t-0", T0, LogConfig.of(config.raw, {}))
        self.replica = Partition(T0, config.broker_id, self.log, LagLimits(2.0, None), lambda _: True, bugs)
        self.partitions: Mapping[TopicPartition, Partition] = {T0: self.replica}

        self.info: PartitionInfo | None = None
        self.controller_epoch = 9

    def told(self, partition: TopicPartition) -> PartitionInfo | None:
        assert partition == T0
        return self.info

    async def live(self) -> None:
        pass

    async def shutdown(self) -> None:
        pass

    def lead(self, epoch: int, isr: tuple[int, ...]) -> None:
        self.replica.make_leader(_change(self.replica.broker_id, epoch, isr), 0.0)

    def follow(self, leader: int, epoch: int) -> None:
        self.replica.make_follower(_change(leader, epoch, (leader,)))

    def copy(self, other: Puppet, up_to: int) -> None:
        self.log.append_as_follower(other.log.read(self.log.end_offset, 1 << 20, up_to, at_least_one=True))


def _change(leader: int, epoch: int, isr: tuple[int, ...]) -> StateChange:
    return StateChange(T0, None, 1, leader, epoch, isr, epoch, (1, 2, 3), False)


class Stage:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster = SimulatedCluster(simulation, 3, (Topic("t", ((1, 2, 3),)),), make_broker=Puppet)
        self.judge = Judge(self.cluster, 2)
        self.cluster.start_all()
        simulation.run(asyncio.sleep(0.1))
        zookeeper = simulation.zookeeper
        zookeeper.administer([Create(partitions_path("t"), b""), Create(partition_path("t", 0), b"")])
        zookeeper.administer([Create(partition_state_path("t", 0), b""), Create(CONTROLLER_EPOCH, b"1")])
        self.state(1, 0, (1, 2, 3))
        self.judge.look()

    def state(self, leader: int, epoch: int, isr: tuple[int, ...]) -> None:
        state = PartitionState(leader, epoch, isr, 1)
        self.simulation.zookeeper.administer([SetData(partition_state_path("t", 0), state.encode())])

    def puppet(self, broker_id: int) -> Puppet:
        puppet = self.cluster.brokers[broker_id]
        assert isinstance(puppet, Puppet)
        return puppet

    def commit(self, *values: bytes, replicas: tuple[int, ...] = (2, 3)) -> None:
        """Append at 1, copy, and move its high watermark to the end."""
        leader = self.puppet(1)
        for value in values:
            leader.log.append_as_leader(_batch(value), leader.replica.leader_epoch)
        for each in replicas:
            self.puppet(each).copy(leader, leader.log.end_offset)
        leader.log.update_high_watermark(leader.log.end_offset)
        self.look()

    def look(self) -> None:
        """The test moves replicas behind the loop's back: every node counts as touched."""
        for broker_id in self.cluster.ids:
            node = self.cluster.host(broker_id).node
            assert node is not None
            node.touched = True
        self.judge.look()

    def violates(self, invariant: str) -> None:
        with pytest.raises(Violation) as found:
            self.look()
        assert found.value.invariant == invariant


def _batch(value: bytes) -> bytes:
    return batch.encode([Record(0, -1, None, value, ())], timestamp_ms=1)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Simulation(1) as simulation:
        stage = Stage(simulation)
        stage.puppet(1).lead(0, (1, 2, 3))
        for follower in (2, 3):
            stage.puppet(follower).follow(1, 0)
        stage.commit(b"a", b"b")
        yield stage


def test_one_leader_per_epoch(stage: Stage) -> None:
    stage.puppet(2).lead(1, (2, 3))
    stage.state(2, 1, (2, 3))
    stage.look()
    stage.puppet(3).lead(1, (2, 3))
    stage.violates("one-leader-per-epoch")


def test_epochs_go_forward(stage: Stage) -> None:
    stage.state(1, 1, (1, 2, 3))
    stage.look()
    stage.state(1, 0, (1, 2, 3))
    stage.violates("epochs-go-forward")


def test_epochs_of_a_replica_go_forward(stage: Stage) -> None:
    stage.puppet(2).follow(1, 5)
    stage.look()
    stage.puppet(2).replica.leader_epoch = 4
    stage.violates("epochs-go-forward")


def test_epochs_of_metadata_go_forward_within_a_life(stage: Stage) -> None:
    def info(epoch: int, controller_epoch: int) -> PartitionInfo:
        return PartitionInfo(1, epoch, (1, 2, 3), (1, 2, 3), (), controller_epoch, 0)

    stage.puppet(2).info = info(4, 8)
    stage.look()
    stage.cluster.host(2).kill()
    stage.cluster.start(2)
    stage.puppet(2).info = info(3, 7)
    stage.look()
    stage.puppet(2).info = info(2, 7)
    stage.look()
    stage.puppet(2).info = info(1, 6)
    stage.violates("epochs-go-forward")


def test_the_controller_epoch_goes_forward(stage: Stage) -> None:
    stage.simulation.zookeeper.administer([SetData(CONTROLLER_EPOCH, encode_controller_epoch(7))])
    stage.look()
    stage.simulation.zookeeper.administer([SetData(CONTROLLER_EPOCH, encode_controller_epoch(6))])
    stage.violates("epochs-go-forward")


def test_the_watermark_stays_within_the_isr(stage: Stage) -> None:
    stage.state(1, 0, (1, 2))
    stage.commit(b"c", replicas=(2,))
    with pytest.raises(Violation, match="watermark-within-isr"):
        stage.commit(b"d", replicas=(3,))


def test_logs_are_equal_below_the_watermark(stage: Stage) -> None:
    follower = stage.puppet(2)
    follower.log.update_high_watermark(2)
    stage.look()
    follower.log.truncate_to(1)
    follower.log.append_as_leader(_batch(b"x"), 0)
    stage.look()
    follower.log.update_high_watermark(2)
    stage.violates("logs-equal-below-watermark")


def test_a_follower_cannot_know_a_watermark_that_no_leader_had(stage: Stage) -> None:
    follower = stage.puppet(2)
    follower.log.append_as_leader(_batch(b"x"), 0)
    follower.log.update_high_watermark(3)
    stage.violates("logs-equal-below-watermark")


def test_a_leader_may_commit_and_be_deposed_in_one_moment(stage: Stage) -> None:
    """It was paused, and found both in its inbox. Others find what it committed when they look next."""
    leader = stage.puppet(1)
    leader.log.append_as_leader(_batch(b"c"), 0)
    for each in (2, 3):
        stage.puppet(each).copy(leader, leader.log.end_offset)
    leader.log.update_high_watermark(leader.log.end_offset)
    leader.follow(2, 1)
    stage.look()
    assert stage.judge.committed[T0].end == leader.log.end_offset


def test_committed_is_kept(stage: Stage) -> None:
    stage.puppet(2).log.truncate_to(1)
    stage.look()
    stage.state(2, 1, (2, 3))
    stage.look()
    stage.puppet(2).lead(1, (2, 3))
    stage.violates("committed-is-kept")


def test_a_zombie_that_does_not_lead_by_zookeeper_loses_nothing(stage: Stage) -> None:
    stage.state(3, 2, (2, 3))
    stage.puppet(2).log.truncate_to(1)
    stage.puppet(2).lead(1, (2, 3))
    stage.look()


def test_acknowledged_and_read_is_committed(stage: Stage) -> None:
    stage.judge.acknowledged(T0, 0, [b"a", b"b"])
    stage.judge.read(T0, 1, b"b")
    stage.look()
    leader = stage.puppet(1)
    leader.log.append_as_leader(_batch(b"c"), 0)
    stage.look()
    stage.judge.acknowledged(T0, 2, [b"c"])
    stage.violates("acknowledged-is-committed")


def test_reading_what_is_not_committed(stage: Stage) -> None:
    stage.judge.read(T0, 1, b"other")
    stage.violates("read-is-committed")


def test_a_dead_task_is_told(stage: Stage) -> None:
    stage.simulation.loop.call_exception_handler({"message": "died"})
    stage.violates("no-task-dies")


def _lose_power(stage: Stage, broker_id: int) -> None:
    stage.judge.lost_power(broker_id)
    stage.cluster.host(broker_id).lose_power()
    stage.cluster.start(broker_id)


def test_power_loss_of_one_of_several_excuses_nothing(stage: Stage) -> None:
    _lose_power(stage, 2)
    stage.state(1, 0, (1, 3))
    stage.look()
    stage.state(2, 1, (2, 3))
    stage.look()
    stage.puppet(2).lead(1, (2, 3))
    assert stage.puppet(2).log.end_offset < 2
    stage.violates("committed-is-kept")


@pytest.mark.parametrize("how", ["last in the ISR", "two of three", "not seen to leave"])
def test_power_loss_voids(stage: Stage, how: str) -> None:
    if how == "last in the ISR":
        stage.state(2, 1, (2,))
        _lose_power(stage, 2)
    elif how == "two of three":
        _lose_power(stage, 3)
        stage.state(1, 0, (1, 2))
        _lose_power(stage, 2)
    else:
        _lose_power(stage, 2)
        stage.state(2, 1, (2, 3))
        stage.puppet(2).lead(1, (2, 3))
    stage.look()
    assert stage.judge.void == {T0}
    stage.puppet(2).lead(2, (2,))
    stage.look()


def test_power_loss_is_forgotten_when_the_isr_is_full_again(stage: Stage) -> None:
    _lose_power(stage, 3)
    stage.state(1, 0, (1, 2))
    stage.look()
    stage.state(1, 0, (1, 2, 3))
    stage.look()
    _lose_power(stage, 2)
    assert stage.judge.void == set()


def _numbered(value: bytes, sequence: int) -> bytes:
    return batch.encode(
        [Record(0, 1, None, value, ())], producer_id=5, producer_epoch=0, base_sequence=sequence, timestamp_ms=1
    )


def test_a_value_is_committed_once(stage: Stage) -> None:
    stage.commit(b"c")
    leader = stage.puppet(1)
    leader.log.append_as_leader(_batch(b"a"), 0)
    stage.puppet(2).copy(leader, 4)
    stage.puppet(3).copy(leader, 4)
    leader.log.update_high_watermark(4)
    stage.violates("written-once")


@pytest.mark.parametrize("second", [0, 2])
def test_committed_sequences_have_no_gap(stage: Stage, second: int) -> None:
    leader = stage.puppet(1)
    for value, sequence in ((b"c", 0), (b"d", second)):
        leader.log.producers.clear()
        leader.log.append_as_leader(_numbered(value, sequence), 0)
    for each in (2, 3):
        stage.puppet(each).copy(leader, 4)
    leader.log.update_high_watermark(4)
    stage.violates("sequences-without-gaps")


def test_a_new_leader_has_to_know_its_producers(stage: Stage) -> None:
    leader = stage.puppet(1)
    leader.log.append_as_leader(_numbered(b"c", 0), 0)
    for each in (2, 3):
        stage.puppet(each).copy(leader, 3)
    leader.log.update_high_watermark(3)
    stage.look()
    stage.state(2, 1, (2, 3))
    stage.puppet(2).log.producers.clear()
    stage.puppet(2).lead(1, (2, 3))
    stage.violates("producers-are-known")


def test_a_producer_id_is_given_once(stage: Stage) -> None:
    stage.judge.numbered(7)
    stage.judge.numbered(8)
    stage.look()
    stage.judge.numbered(7)
    stage.violates("producer-id-given-once")


def test_what_an_outgoing_controller_tells_ahead_of_its_successor_is_no_step_back(stage: Stage) -> None:
    def info(leader_epoch: int, controller_epoch: int) -> PartitionInfo:
        return PartitionInfo(1, leader_epoch, (1, 2, 3), (1, 2, 3), (), controller_epoch, 0)

    puppet = stage.puppet(2)
    puppet.controller_epoch, puppet.info = 7, info(5, 8)
    stage.look()
    puppet.controller_epoch, puppet.info = 8, info(4, 7)
    stage.look()
    puppet.info = info(5, 8)
    stage.look()
    puppet.info = info(4, 7)
    stage.violates("epochs-go-forward")
