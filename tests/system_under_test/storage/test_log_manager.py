"""All logs of a broker: dirs, deletion, checkpoints, and the work from time to time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from system_under_test.realworld.files import RealFiles
from system_under_test.simulation.world import Host, SimulatedWorld, Simulation, until
from system_under_test.storage.checkpoints import CLEAN_SHUTDOWN, read_offsets
from system_under_test.storage.log_manager import LogDirError, LogManager, generated_broker_id
from system_under_test.types import TopicPartition
from tests.system_under_test.storage.support import PARTITION, SMALL, batch, content, fill, simulated_host

OTHER = TopicPartition("with-dashes_and.dots", 12)


@pytest.fixture
def host() -> Iterator[Host]:
    with simulated_host() as host:
        yield host


def opened(world: SimulatedWorld, *dirs: str, cluster_id: str | None = "c", **defaults: str) -> LogManager:
    settings = {name.replace("_", "."): value for name, value in defaults.items()}
    manager = LogManager(world, dirs or ["/data"], 1, settings, cluster_id=cluster_id)
    manager.load({PARTITION.topic: SMALL})
    return manager


def offsets(world: SimulatedWorld, name: str, log_dir: str = "/data") -> dict[TopicPartition, int]:
    return read_offsets(world.files, f"{log_dir}/{name}-checkpoint")


def test_a_clean_shutdown_and_what_comes_back(host: Host) -> None:
    manager = opened(host.boot())
    for number, partition in enumerate((PARTITION, OTHER)):
        log = manager.get_or_create(partition, SMALL)
        fill(log, 10 + number)
        log.update_high_watermark(15)
    log.increment_start_offset(3)
    manager.shutdown()
    host.kill()

    again = opened(host.boot())
    assert [each.topic_partition for each in again.all_logs()] == [PARTITION, OTHER]
    assert all(not each.recovered_segments and not each.found_damage for each in again.reports)
    log = again.get_or_create(PARTITION, {})
    assert (log.end_offset, log.high_watermark, log.recovery_point, log.config.segment_bytes) == (20, 15, 20, 700)
    assert again.high_watermark_checkpoint(PARTITION) == 15
    other = again.get(OTHER)
    assert other is not None
    assert (other.start_offset, other.end_offset, other.config.segment_bytes) == (3, 22, 2**30)
    host.kill()

    unclean = opened(host.boot())
    assert all(each.recovered_segments for each in unclean.reports)


def test_a_high_watermark_above_the_end_is_lowered(host: Host) -> None:
    world = host.boot()
    manager = opened(world)
    log = manager.get_or_create(PARTITION, SMALL)
    fill(log, 10)
    log.flush()
    fill(log, 10)
    log.update_high_watermark(40)
    manager.checkpoint_high_watermarks()
    host.lose_power()
    log_again = opened(host.boot()).get(PARTITION)
    assert log_again is not None
    assert 20 <= log_again.high_watermark == log_again.end_offset <= 40


def test_new_logs_go_where_the_fewest_are(host: Host) -> None:
    world = host.boot()
    manager = opened(world, "/a", "/b")
    for number in range(6):
        manager.get_or_create(TopicPartition("t", number), {})
    dirs = [manager.dir_of(TopicPartition("t", number)) for number in range(6)]
    assert dirs == ["/a", "/b"] * 3
    manager.shutdown()
    for log_dir, remainder in (("/a", 0), ("/b", 1)):
        assert set(offsets(world, "recovery-point-offset", log_dir)) == {
            TopicPartition("t", each) for each in range(6) if each % 2 == remainder
        }
        assert world.files.exists(f"{log_dir}/.kafka_cleanshutdown")
    host.kill()
    world = host.boot()
    world.files.remove("/a/.kafka_cleanshutdown")
    again = opened(world, "/a", "/b")
    assert [bool(each.recovered_segments) for each in again.reports] == [True] * 3 + [False] * 3


def test_the_same_partition_in_two_dirs(host: Host) -> None:
    world = host.boot()
    for log_dir in ("/a", "/b"):
        world.files.make_folder(f"{log_dir}/t-0")
    with pytest.raises(LogDirError, match="t-0 is in /a and in /b"):
        opened(world, "/a", "/b")


def test_whose_data_it_is(host: Host) -> None:
    world = host.boot()
    assert generated_broker_id(world, ["/data"]) is None
    opened(world, cluster_id=None)
    opened(world, cluster_id="mine")
    assert generated_broker_id(world, ["/data"]) == 1
    with pytest.raises(LogDirError, match="belongs to cluster mine, this is cluster yours"):
        opened(world, cluster_id="yours")
    with pytest.raises(LogDirError, match="belongs to broker 1, this is broker 2"):
        LogManager(world, ["/data"], 2, {}, cluster_id="mine").load({})
    with pytest.raises(LogDirError, match=r"log\.dirs"):
        LogManager(world, ["/data", "/data"], 1, {})


def test_deletion(host: Host) -> None:
    world = host.boot()
    manager = opened(world)
    log = manager.get_or_create(PARTITION, SMALL)
    fill(log, 20)
    log.update_high_watermark(40)
    log.flush()
    for checkpoint in (manager.checkpoint_high_watermarks, manager.checkpoint_recovery_points):
        checkpoint()
    manager.delete(PARTITION)
    manager.delete(PARTITION)
    assert manager.get(PARTITION) is None
    (doomed,) = (each for each in world.files.list("/data") if each.endswith("-delete"))
    assert doomed.startswith("t-0.")
    for name in ("replication-offset", "recovery-point-offset", "log-start-offset"):
        assert offsets(world, name) == {}

    recreated = manager.get_or_create(PARTITION, SMALL)
    assert (recreated.end_offset, recreated.high_watermark, manager.high_watermark_checkpoint(PARTITION)) == (0, 0, 0)
    fill(recreated, 1)
    host.kill()
    again = opened(host.boot())
    assert not [each for each in world.files.list("/data") if each.endswith("-delete")]
    log_again = again.get(PARTITION)
    assert log_again is not None
    assert (log_again.end_offset, log_again.high_watermark) == (2, 0)


def test_a_long_topic_name_can_be_deleted(host: Host) -> None:
    world = host.boot()
    manager = opened(world)
    partition = TopicPartition("x" * 249, 7)
    manager.get_or_create(partition, {})
    manager.delete(partition)
    (doomed,) = (each for each in world.files.list("/data") if each.endswith("-delete"))
    assert len(doomed) == 255


def test_what_is_no_partition_is_left_alone(host: Host) -> None:
    world = host.boot()
    for name in ("lost+found", "t-x", "t-0.abc-stray", "t-0.abc-future", "-3", "t-²"):
        world.files.make_folder(f"/data/{name}")
    world.files.open("/data/file-1", create=True)
    assert opened(world).all_logs() == []
    assert world.files.is_folder("/data/t-0.abc-stray")


def test_a_garbled_checkpoint_costs_time_only(host: Host) -> None:
    world = host.boot()
    manager = opened(world)
    log = manager.get_or_create(PARTITION, SMALL)
    fill(log, 20)
    manager.shutdown()
    for name in ("recovery-point-offset", "replication-offset", "log-start-offset"):
        world.files.write_atomically(f"/data/{name}-checkpoint", b"\0\0\0")
    host.kill()
    again = opened(host.boot()).get(PARTITION)
    assert again is not None
    assert len(content(again)) == 40
    assert (again.high_watermark, again.recovery_point) == (0, 0)


def test_config_updates_reach_open_logs(host: Host) -> None:
    manager = opened(host.boot())
    log = manager.get_or_create(PARTITION, {})
    fill(log, 10)
    assert len(log.segments) == 1
    manager.update_config(PARTITION.topic, {"segment.bytes": "200", "retention.ms": "5"})
    fill(log, 10)
    assert len(log.segments) > 3
    assert log.config.retention_ms == 5
    manager.update_config(PARTITION.topic, {"nonsense": "1", "segment.bytes": "many", "retention.ms": "7"})
    assert (log.config.retention_ms, log.config.segment_bytes) == (7, 2**30), "what is not valid is left out"


def test_an_unreadable_dir_is_left_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    world = host.boot()
    make_folder = world.files.make_folder

    def failing(path: str) -> None:
        if path.startswith("/a"):
            raise OSError(5, "input/output error", path)
        make_folder(path)

    monkeypatch.setattr(world.files, "make_folder", failing)
    manager = opened(world, "/a", "/b")
    assert list(manager.offline_dirs) == ["/a"]
    manager.get_or_create(PARTITION, {})
    assert manager.dir_of(PARTITION) == "/b"
    manager.shutdown()
    with pytest.raises(LogDirError, match="no log dir can be used"):
        opened(world, "/a")


def test_the_work_from_time_to_time() -> None:
    with Simulation(3) as simulation:
        host = simulation.host("disk")

        async def life() -> None:
            world = host.boot()
            manager = opened(world, log_flush_scheduler_interval_ms="300", log_retention_check_interval_ms="2000")
            running = asyncio.get_running_loop().create_task(manager.run())
            log = manager.get_or_create(PARTITION, SMALL | {"flush.ms": "100000", "file.delete.delay.ms": "3000"})
            fill(log, 20)
            rolled_to = log.active_segment.base_offset
            await until(lambda: log.recovery_point == rolled_to, 1, "closed segments are synced after a roll")
            assert offsets(world, "recovery-point-offset") == {}
            await until(lambda: bool(offsets(world, "recovery-point-offset")), 61, "recovery points are checkpointed")
            await until(lambda: log.recovery_point == 40, 101, "flush.ms")

            log.append_as_leader(batch(b"new", timestamp_ms=world.clock.time_ms()), 3)
            log.update_high_watermark(40)
            manager.update_config(PARTITION.topic, SMALL | {"retention.ms": "1000", "file.delete.delay.ms": "3000"})
            await until(lambda: log.start_offset > 0, 3, "retention")
            assert [each for each in world.files.list(log.directory) if each.endswith(".deleted")]
            manager.delete(PARTITION)
            deleted_at = simulation.loop.time()
            await until(
                lambda: not any(each.endswith("-delete") for each in world.files.list("/data")), 5, "the folder is gone"
            )
            assert simulation.loop.time() - deleted_at >= 3
            running.cancel()

        simulation.run(life())


def test_a_start_that_is_refused_leaves_the_dirs_as_they_were(host: Host) -> None:
    """Nothing that was not opened may be called clean, and no checkpoint may forget it."""
    manager = opened(host.boot(), "/data", "/more")
    for partition, log_dir in ((PARTITION, "/data"), (OTHER, "/more")):
        log = manager.get_or_create(partition, SMALL)
        assert manager.dir_of(partition) == log_dir
        fill(log, 10)
        log.update_high_watermark(15)
        log.flush()
    for checkpoint in (manager.checkpoint_high_watermarks, manager.checkpoint_recovery_points):
        checkpoint()
    world = host.boot_again()
    stranger = LogManager(world, ["/more"], 2, {}, cluster_id="c")
    with pytest.raises(LogDirError, match="belongs to broker 1"):
        stranger.load({})
    stranger.shutdown()
    assert not world.files.exists(f"/more/{CLEAN_SHUTDOWN}")
    assert offsets(world, "replication-offset", "/more") == {OTHER: 15}
    assert offsets(world, "recovery-point-offset", "/more") == {OTHER: 20}

    world.files.make_folder(f"/more/{PARTITION}")
    twice = LogManager(world, ["/data", "/more"], 1, {}, cluster_id="c")
    with pytest.raises(LogDirError, match="remove one of them"):
        twice.load({PARTITION.topic: SMALL})
    twice.shutdown()
    assert world.files.exists(f"/data/{CLEAN_SHUTDOWN}"), "all of its logs were opened, so all were closed"
    assert not world.files.exists(f"/more/{CLEAN_SHUTDOWN}")
    assert offsets(world, "replication-offset", "/more") == {OTHER: 15}


_HOLDER = """
import sys
from system_under_test.realworld.files import RealFiles
files = RealFiles()
print(files.lock(sys.argv[1]), files.lock(sys.argv[1]), flush=True)
sys.stdin.read()
"""


def test_a_dir_that_another_broker_uses_is_refused_and_left_alone(host: Host, tmp_path: Path) -> None:
    """It would be recovered while it is written, and called clean after that."""
    world = host.boot()
    world.files = RealFiles()  # type: ignore[assignment]
    lock = str(tmp_path / ".lock")
    command = [sys.executable, "-c", _HOLDER, lock]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True True\n"
        refused = LogManager(world, [str(tmp_path)], 1, {}, cluster_id="c")
        with pytest.raises(LogDirError, match="another broker that runs"):
            refused.load({})
        refused.shutdown()
        assert [each.name for each in tmp_path.iterdir()] == [".lock"]
        holder.kill()
    opened(world, str(tmp_path)).shutdown()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
