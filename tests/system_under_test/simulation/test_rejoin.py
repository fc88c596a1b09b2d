"""A replica whose files were damaged while it was down: its broker starts, serves what is valid, fetches the rest again,
and ends with the same bytes as the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from system_under_test.simulation.cluster import SETTINGS, SimulatedCluster, Topic
from system_under_test.simulation.world import Simulation, until
from system_under_test.types import TopicPartition
from system_under_test.world import Files

T0 = TopicPartition("t", 0)
FOLDER = f"/data/{T0}"
_BATCHES = 60

Damage = Callable[[Files, list[str]], None]
"""Of the names of the segments' logs, in order."""


def _cut(which: int, share: float) -> Damage:
    def damage(files: Files, logs: list[str]) -> None:
        file = files.open(f"{FOLDER}/{logs[which]}")
        file.truncate(int(file.size() * share))

    return damage


def _flip(which: int, share: float) -> Damage:
    def damage(files: Files, logs: list[str]) -> None:
        file = files.open(f"{FOLDER}/{logs[which]}")
        at = int(file.size() * share)
        file.write_at(at, bytes([file.read_at(at, 1)[0] ^ 0x10]))

    return damage


def _remove(which: int) -> Damage:
    return lambda files, logs: files.remove(f"{FOLDER}/{logs[which]}")


def _remove_indexes(files: Files, logs: list[str]) -> None:
    for name in logs:
        for suffix in ("index", "timeindex"):
            files.remove(f"{FOLDER}/{name.removesuffix('log')}{suffix}")


def _garbage_in_indexes(files: Files, logs: list[str]) -> None:
    for name in logs:
        files.write_atomically(f"{FOLDER}/{name.removesuffix('log')}index", b"\xff\x01" * 41)


def _garbage(name: str) -> Damage:
    return lambda files, _: files.write_atomically(f"/data/{name}", b"\0garbage\xff")


def _remove_folder(files: Files, _: list[str]) -> None:
    files.remove(FOLDER)


DAMAGES: dict[str, tuple[Damage, str | None]] = {
    # With what the log of the broker must speak of; None: nothing is wrong with what is left.
    "the first segment is cut in the middle": (_cut(0, 0.5), "position"),
    "a bit of the first batch is flipped": (_flip(0, 0.01), "position"),
    "a bit in the middle is flipped": (_flip(1, 0.5), "position"),
    "the last byte is gone": (_cut(-1, 0.999), "position"),
    "the last segment is empty": (_cut(-1, 0.0), None),
    "the first segment is empty": (_cut(0, 0.0), "should begin at"),
    "a segment in the middle is gone": (_remove(1), "should begin at"),
    "the last segment is gone": (_remove(-1), None),
    "no index is left": (_remove_indexes, None),
    "indexes are garbage": (_garbage_in_indexes, None),
    "leader epochs are garbage": (_garbage(f"{T0}/leader-epoch-checkpoint"), "leader-epoch-checkpoint"),
    "the topic id is garbage": (_garbage(f"{T0}/partition.metadata"), "partition.metadata"),
    "the recovery point is garbage": (_garbage("recovery-point-offset-checkpoint"), "recovery-point"),
    "the high watermark is garbage": (_garbage("replication-offset-checkpoint"), "replication-offset"),
    "the log start is garbage": (_garbage("log-start-offset-checkpoint"), "log-start-offset"),
    "the whole folder is gone": (_remove_folder, None),
}


def _isr(cluster: SimulatedCluster) -> tuple[int, ...]:
    state = cluster.state(T0)
    assert state is not None
    return state.isr


def _bytes(cluster: SimulatedCluster, broker_id: int) -> bytes:
    """Of the whole log. Segments may begin elsewhere where it was fetched again."""
    replica = cluster.replica(broker_id, T0)
    assert replica is not None
    return b"".join(each.file.read_at(0, each.size) for each in replica.log.segments)


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_replica_rejoins(what: str, caplog: pytest.LogCaptureFixture) -> None:
    damage, told = DAMAGES[what]

    async def play(cluster: SimulatedCluster) -> None:
        cluster.start_all()
        await until(lambda: cluster.is_whole(T0), 30, "a whole cluster")
        client = cluster.client("client")
        await client.refresh()
        for number in range(_BATCHES):
            await client.produce(T0, [b"%d" % number, b"x" * 60], acks=-1)
        state = cluster.state(T0)
        assert state is not None
        victim = next(each for each in cluster.ids if each != state.leader)
        host = cluster.host(victim)
        # Nothing has told yet that any of it is safe: all of it will be read.
        host.kill()
        files = host.boot().files
        damage(files, sorted(name for name in files.list(FOLDER) if name.endswith(".log")))
        host.kill()
        await client.produce(T0, [b"meanwhile"], acks=1)
        await until(lambda: victim not in _isr(cluster), 20, "the broken replica leaves the ISR")
        with caplog.at_level(logging.INFO, "system_under_test.storage"):
            cluster.start(victim)
            await until(lambda: cluster.is_whole(T0), 30, "the mended replica is back in the ISR")
        await client.produce(T0, [b"afterwards"], acks=-1)
        await until(lambda: len({len(_bytes(cluster, each)) for each in cluster.ids}) == 1, 10, "equal lengths")
        assert len({_bytes(cluster, each) for each in cluster.ids}) == 1
        if told is not None:
            assert any(told in record.getMessage() for record in caplog.records), caplog.messages

    with Simulation(11) as simulation:
        settings = {**SETTINGS, "log.flush.offset.checkpoint.interval.ms": "600000"}
        cluster = SimulatedCluster(simulation, 3, (Topic("t", ((1, 2, 3),)),), settings=settings)
        simulation.run(asyncio.wait_for(play(cluster), 200), 300)
        assert not simulation.loop.failures, simulation.loop.failures
