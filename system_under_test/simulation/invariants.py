"""What must hold at every moment of a simulated cluster, whatever happens to it.

==========================  ======================================================================================
one-leader-per-epoch        no two brokers ever lead a partition in the same leader epoch
epochs-go-forward           leader epochs (of a broker's replica, in ZooKeeper) and the controller epoch never go back,
                            nor does a broker's metadata from a newer controller's leader to an older one's
watermark-within-isr        a leader's high watermark never passes the end of any in-sync replica's log
logs-equal-below-watermark  what any replica has below its high watermark is what was committed there first
committed-is-kept           whoever becomes leader has everything that was ever committed
acknowledged-is-committed   acks=all is answered only for records below the leader's high watermark
read-is-committed           consumers see only records below the leader's high watermark
written-once                no value is committed at two offsets of a partition, however often it was sent
sequences-without-gaps      the committed batches of a producer id have every sequence once and in order
producers-are-known         who becomes leader knows the producers of its log: what its batches say, not less or other
producer-id-given-once      no two producers get the same id
no-task-dies                no task of a broker ends with an exception that nobody looks at
==========================  ======================================================================================

*Committed* is what a leader's high watermark has passed; the first leader to do so defines the bytes. Acknowledged records
are committed, so *committed-is-kept* says that they are never lost, as soon as anybody leads without them.

Power loss is the design's known limit (KIP-966) and *voids* a partition, which is judged no further then:

* It hits the last in-sync replica.
* It hits as many replicas as min.insync.replicas before the ISR was full again.
* The replica that it hit leads without having been out of the ISR in between. A controller takes a broker that
  came back under a new epoch out of its ISRs, but only if it knew the old epoch: its memory is all it compares with. Where
  the broker is back before the controller looks, and another controller is elected meanwhile, the new one reads a live
  broker and an ISR that names it, and nothing that says that they do not belong together. Kafka 3.9 with ZooKeeper has
  the same hole (``processBrokerChange`` compares with the context, ``initializeControllerContext`` fills it anew); it
  could be closed by comparing the registration's czxid with the state's mzxid at failover.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from system_under_test.protocol import batch
from system_under_test.simulation.sequences import CommittedSequences, misknown
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition
from system_under_test.zookeeper.nodes import (
    CONTROLLER_EPOCH,
    PartitionState,
    decode_controller_epoch,
    partition_state_path,
)

if TYPE_CHECKING:
    from system_under_test.metadata.cache import PartitionInfo
    from system_under_test.replication.partition import Partition
    from system_under_test.simulation.cluster import SimulatedCluster
    from system_under_test.simulation.loop import Node

_READ_BYTES = 1 << 20


class Violation(AssertionError):
    def __init__(self, invariant: str, partition: TopicPartition | None, what: str) -> None:
        super().__init__(f"{invariant}: {f'{partition}: ' if partition else ''}{what}")
        self.invariant = invariant


@dataclass(slots=True)
class Committed:
    """A partition's batches as they were first committed, one after the other."""

    ends: list[int] = field(default_factory=list)
    batches: dict[int, bytes] = field(default_factory=dict)
    """By base offset."""
    values: dict[int, bytes | None] = field(default_factory=dict)
    sequences: CommittedSequences = field(default_factory=CommittedSequences)

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else 0

    def extend(self, log: Log, to: int) -> tuple[str, str] | None:
        """The invariant that a new batch breaks, and how."""
        problem = None
        for base, data in read_batches(log, self.end, to):
            header = batch.read_header(data)
            self.batches[base] = data
            self.ends.append(header.next_offset)
            records = batch.decode(data)
            self.values.update((record.offset, record.value) for record in records)
            problem = problem or self.sequences.problem(header, records)
        return problem

    def difference(self, log: Log, start: int, to: int) -> str | None:
        """What ``log`` has otherwise between these offsets; None: nothing."""
        offset = max(start, log.start_offset)
        for base, data in read_batches(log, offset, to):
            expected = self.batches.get(base)
            if expected != data:
                return f"at offset {base} it has {_described(data)}, committed was {_described(expected)}"
            offset = batch.read_header(data).next_offset
        return None if offset >= to else f"it has nothing at offset {offset}, committed was up to {to}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A replica as it was looked at last."""

    leader_epoch: int
    high_watermark: int
    end_offset: int
    is_leader: bool
    life: int


class Judge:
    """Looks at the cluster whenever a moment is over. Raises :class:`Violation`."""

    def __init__(self, cluster: SimulatedCluster, min_insync_replicas: int) -> None:
        self._cluster = cluster
        self._tree = cluster.simulation.zookeeper.tree
        self._hosts = [(each, cluster.host(each)) for each in cluster.ids]
        self._partitions = sorted(cluster.partitions)
        self._infos: dict[tuple[int, TopicPartition], PartitionInfo] = {}
        self._ahead: set[tuple[int, TopicPartition]] = set()
        """What in ``_infos`` was elected by a newer controller than the one that told of it."""
        self._informed: dict[int, Node] = {}
        """In which life a broker was told what is in ``_infos``."""
        self._min_insync_replicas = min_insync_replicas
        self.committed = {partition: Committed() for partition in cluster.partitions}
        self.void: set[TopicPartition] = set()
        self.acknowledged_count = 0
        self.read_count = 0
        self.leader_changes = 0
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._seen: dict[tuple[int, TopicPartition], Seen] = {}
        self._states: dict[TopicPartition, PartitionState] = {}
        self._mzxids: dict[TopicPartition, int] = {}
        self._zxid = -1
        self._told: Violation | None = None
        self._producer_ids: set[int] = set()
        self._controller_epoch = -1
        self._damaged: dict[TopicPartition, set[int]] = {partition: set() for partition in cluster.partitions}
        self._unseen: dict[TopicPartition, set[int]] = {partition: set() for partition in cluster.partitions}
        """Replicas that lost power while in the ISR, and have not been out of it since."""
        for broker_id in cluster.ids:
            cluster.host(broker_id).before_death = self._look_once_more

    # What clients tell.

    def acknowledged(self, partition: TopicPartition, first_offset: int, values: list[bytes]) -> None:
        """A produce with acks=all succeeded."""
        self.acknowledged_count += len(values)
        self._is_committed("acknowledged-is-committed", partition, first_offset, values)

    def numbered(self, producer_id: int) -> None:
        """A producer got this id."""
        if producer_id in self._producer_ids:
            self._told = self._told or Violation("producer-id-given-once", None, f"{producer_id} was given before")
        self._producer_ids.add(producer_id)

    def read(self, partition: TopicPartition, offset: int, value: bytes | None) -> None:
        self.read_count += 1
        self._is_committed("read-is-committed", partition, offset, [value])

    def _is_committed(
        self, invariant: str, partition: TopicPartition, first_offset: int, values: list[bytes] | list[bytes | None]
    ) -> None:
        if partition in self.void:
            return
        committed = self.committed[partition]
        for offset, value in enumerate(values, first_offset):
            if offset not in committed.values:
                problem = f"{value!r} at {offset}, committed is up to {committed.end}"
            elif committed.values[offset] != value:
                problem = f"{value!r} at {offset}, not {committed.values[offset]!r}"
            else:
                continue
            # Raised when this moment is over, from the loop itself: here it would end a client's task only.
            self._told = self._told or Violation(invariant, partition, problem)

    # Power loss.

    def lost_power(self, broker_id: int) -> None:
        """To be told when it happens, perhaps in the middle of the broker's work."""
        if self._tree.zxid != self._zxid:
            self._look_at_coordination()
        for partition, replicas in self._cluster.partitions.items():
            state = self._states.get(partition)
            if broker_id not in replicas or state is None:
                continue
            damaged = self._damaged[partition]
            damaged.add(broker_id)
            if broker_id in state.isr:
                self._unseen[partition].add(broker_id)
            if set(state.isr) == {broker_id} or len(damaged) >= self._min_insync_replicas:
                self._void(partition, f"broker {broker_id} lost power")

    def _void(self, partition: TopicPartition, why: str) -> None:
        self._cluster.simulation.trace.add("judge", "void", str(partition), why)
        self.void.add(partition)

    # Every moment.

    def look(self) -> None:
        if self._told is not None:
            raise self._told
        if self._cluster.simulation.loop.failures:
            raise Violation("no-task-dies", None, str(self._cluster.simulation.loop.failures[0]))
        if self._tree.zxid != self._zxid:
            self._look_at_coordination()
        seen = self._seen
        for broker_id, host in self._hosts:
            node = host.node
            if node is None or not node.touched or not node.alive:
                continue
            node.touched = False
            broker = self._cluster.brokers[broker_id]
            for partition, replica in broker.partitions.items():
                log = replica.log
                last = seen.get((broker_id, partition))
                if (
                    last is None
                    or last.end_offset != log.end_offset
                    or last.high_watermark != log.high_watermark
                    or last.leader_epoch != replica.leader_epoch
                    or last.is_leader is (replica.leadership is None)
                ):
                    self._changed(broker_id, partition, replica, last)
            for partition in self._partitions:
                info = broker.told(partition)
                if info is not None and info is not self._infos.get((broker_id, partition)):
                    self._look_at_metadata(broker_id, node, partition, info, broker.controller_epoch)

    def _look_at_metadata(
        self, broker_id: int, node: Node, partition: TopicPartition, info: PartitionInfo, controller_epoch: int
    ) -> None:
        last = self._infos.get((broker_id, partition))
        # A controller that is being replaced may read its successor's state in ZooKeeper and pass it on, before the
        # successor's own first request, which knows less, comes: that is no step back to an older controller.
        was_ahead = (broker_id, partition) in self._ahead
        (self._ahead.add if info.controller_epoch > controller_epoch else self._ahead.discard)((broker_id, partition))
        same_life = self._informed.get(broker_id) is node
        self._infos[broker_id, partition] = info
        if not same_life:
            self._informed[broker_id] = node
            for other in self._partitions:
                if other != partition:
                    self._infos.pop((broker_id, other), None)
        elif (
            last is not None
            and not was_ahead
            and info.leader_epoch < last.leader_epoch
            and info.controller_epoch < last.controller_epoch
        ):
            # Of one and the same controller a request may come late: it timed out, was sent again on a new connection,
            # and the old connection's bytes get through after all. Nothing in UpdateMetadata fences that, in Kafka neither.
            raise Violation(
                "epochs-go-forward",
                partition,
                f"metadata of broker {broker_id} showed epoch {last.leader_epoch}, then {info.leader_epoch}",
            )

    def _look_once_more(self) -> None:
        """What a broker did in the moment of its death may have got out, and counts."""
        try:
            self.look()
        except Violation as found:
            self._told = found  # here it would end no more than the task that was struck

    def _look_at_coordination(self) -> None:
        self._zxid = self._tree.zxid
        node = self._tree.nodes.get(CONTROLLER_EPOCH)
        if node is not None:
            epoch = decode_controller_epoch(node.data)
            if epoch < self._controller_epoch:
                raise Violation("epochs-go-forward", None, f"controller epoch {self._controller_epoch}, then {epoch}")
            self._controller_epoch = epoch
        for partition in self._cluster.partitions:
            node = self._tree.nodes.get(partition_state_path(*partition))
            if node is not None and node.mzxid != self._mzxids.get(partition):
                self._mzxids[partition] = node.mzxid
                self._state_changed(partition, PartitionState.decode(node.data))

    def _state_changed(self, partition: TopicPartition, state: PartitionState) -> None:
        last = self._states.get(partition)
        self._states[partition] = state
        if last is not None and state.leader_epoch < last.leader_epoch:
            raise Violation(
                "epochs-go-forward", partition, f"in ZooKeeper {last.leader_epoch}, then {state.leader_epoch}"
            )
        if last is not None and state.leader != last.leader:
            self.leader_changes += 1
        unseen = self._unseen[partition]
        unseen.intersection_update(state.isr)
        if not unseen and set(state.isr) == set(self._cluster.partitions[partition]):
            self._damaged[partition].clear()

    def _changed(self, broker_id: int, partition: TopicPartition, replica: Partition, last: Seen | None) -> None:
        log = replica.log
        life = self._cluster.host(broker_id).lives
        now = Seen(replica.leader_epoch, log.high_watermark, log.end_offset, replica.is_leader, life)
        self._seen[broker_id, partition] = now
        if now.is_leader and broker_id in self._unseen[partition] and partition not in self.void:
            self._void(partition, f"broker {broker_id} leads after a loss of power that no controller saw")
        if partition in self.void:
            return
        same_life = last is not None and last.life == life
        if last is not None and same_life and now.leader_epoch < last.leader_epoch:
            raise Violation(
                "epochs-go-forward", partition, f"broker {broker_id} at {last.leader_epoch}, then {now.leader_epoch}"
            )
        if now.is_leader:
            self._check_leader(broker_id, partition, replica, last)
        known = last.high_watermark if last is not None and same_life else 0
        committed = self.committed[partition]
        if now.high_watermark > committed.end:
            if not now.is_leader and not _may_have_led(last if same_life else None, now):
                raise Violation(
                    "logs-equal-below-watermark",
                    partition,
                    f"follower {broker_id} has {now.high_watermark} as high watermark, committed is {committed.end}",
                )
            broken = committed.extend(log, now.high_watermark)
            if broken is not None:
                raise Violation(broken[0], partition, broken[1])
        if now.high_watermark > known:
            different = committed.difference(log, known, now.high_watermark)
            if different:
                raise Violation("logs-equal-below-watermark", partition, f"broker {broker_id}: {different}")
            if now.is_leader:
                self._check_isr(broker_id, partition, now)

    def _check_leader(self, broker_id: int, partition: TopicPartition, replica: Partition, last: Seen | None) -> None:
        epoch = replica.leader_epoch
        first = self._leaders.setdefault((partition, epoch), broker_id)
        if first != broker_id:
            raise Violation(
                "one-leader-per-epoch", partition, f"brokers {first} and {broker_id} both led in epoch {epoch}"
            )
        state = self._states.get(partition)
        is_news = last is None or not last.is_leader or last.leader_epoch != epoch
        if is_news:
            self._check_producers(broker_id, partition, replica.log)
        if is_news and state is not None and (state.leader, state.leader_epoch) == (broker_id, epoch):
            committed = self.committed[partition]
            different = committed.difference(replica.log, 0, committed.end)
            if different:
                raise Violation(
                    "committed-is-kept", partition, f"broker {broker_id} leads in epoch {epoch}, but {different}"
                )

    def _check_producers(self, broker_id: int, partition: TopicPartition, log: Log) -> None:
        wrong = misknown(log)
        if wrong is not None:
            raise Violation("producers-are-known", partition, f"broker {broker_id}: {wrong}")

    def _check_isr(self, leader_id: int, partition: TopicPartition, leader: Seen) -> None:
        state = self._states.get(partition)
        if state is None or (state.leader, state.leader_epoch) != (leader_id, leader.leader_epoch):
            return
        for member in state.isr:
            replica = self._cluster.replica(member, partition)
            last = self._seen.get((member, partition))
            if member in self._damaged[partition] or (replica is None and last is None):
                continue
            end = replica.log.end_offset if replica is not None else last.end_offset if last is not None else 0
            if end < leader.high_watermark:
                raise Violation(
                    "watermark-within-isr",
                    partition,
                    f"leader {leader_id} has {leader.high_watermark}, {member} of ISR {state.isr} ends at {end}",
                )

    # At the end.

    def lagging(self) -> list[TopicPartition]:
        """Partitions of which some replica does not have all that was committed."""
        found = []
        for partition, replicas in self._cluster.partitions.items():
            present = [self._cluster.replica(each, partition) for each in replicas]
            end = self.committed[partition].end
            if partition not in self.void and any(each is None or each.log.end_offset < end for each in present):
                found.append(partition)
        return found

    def describe(self, partition: TopicPartition) -> str:
        replicas = {each: self._cluster.replica(each, partition) for each in self._cluster.partitions[partition]}
        logs = ", ".join(f"{broker_id}: {replica} {replica and replica.log}" for broker_id, replica in replicas.items())
        return f"{partition} {self._cluster.state(partition)} committed {self.committed[partition].end} [{logs}]"

    def check_replicas(self) -> None:
        """After recovery: every replica has exactly what was committed."""
        for partition, replicas in self._cluster.partitions.items():
            if partition in self.void:
                continue
            committed = self.committed[partition]
            for broker_id in replicas:
                replica = self._cluster.replica(broker_id, partition)
                assert replica is not None
                different = committed.difference(replica.log, 0, committed.end)
                if different:
                    raise Violation("committed-is-kept", partition, f"at the end broker {broker_id}: {different}")
                self._check_producers(broker_id, partition, replica.log)


def _may_have_led(last: Seen | None, now: Seen) -> bool:
    """Since it was looked at, though it follows now. A broker that was paused finds followers' fetches and then its own
    deposition in its inbox, all in one moment: what it commits in between is committed, and may be acknowledged."""
    return last is not None and (last.is_leader or now.leader_epoch > last.leader_epoch + 1)


def read_batches(log: Log, start: int, to: int) -> list[tuple[int, bytes]]:
    """(base offset, bytes) of each batch between two offsets, as far as the log has them."""
    found: list[tuple[int, bytes]] = []
    offset = start
    to = min(to, log.end_offset)
    while offset < to:
        data = log.read(offset, _READ_BYTES, to, at_least_one=True)
        if not data:
            break
        for position, header in batch.headers(data):
            found.append((header.base_offset, bytes(data[position : position + header.size_bytes])))
            offset = header.next_offset
    return found


def _described(data: bytes | None) -> str:
    if data is None:
        return "no such batch"
    header = batch.read_header(data)
    values = [record.value for record in batch.decode(data)]
    return f"{values} of epoch {header.partition_leader_epoch}"
