"""The loopback fleet, with sleeping processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fleet import proc
from harness.fleet.base import Command, FleetError
from harness.fleet.loopback import LoopbackFleet
from harness.fleet.ports import PortBook
from tests.harness.waiting import wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[LoopbackFleet]:
    with LoopbackFleet(tmp_path / "registry") as fleet:
        yield fleet


def sleeper(tmp_path: Path) -> Command:
    return Command(("sleep", "600"), cwd=tmp_path, log=tmp_path / "logs" / "sleeper.log")


def script(tmp_path: Path, text: str, **env: str) -> Command:
    return Command(("sh", "-c", text), cwd=tmp_path, log=tmp_path / "script.log", env=env)


def test_a_node_lives_and_dies(fleet: LoopbackFleet, tmp_path: Path) -> None:
    assert (fleet.pid("n"), fleet.state("n"), fleet.exit_code("n")) == (None, None, None)
    pid = fleet.start("n", sleeper(tmp_path))
    assert (fleet.pid("n"), fleet.is_alive("n")) == (pid, True)
    with pytest.raises(FleetError, match="already running"):
        fleet.start("n", sleeper(tmp_path))
    assert fleet.signal("n", signal.SIGKILL)
    assert fleet.wait("n", 30)
    assert (fleet.pid("n"), fleet.state("n"), fleet.exit_code("n")) == (None, None, -signal.SIGKILL)
    assert not fleet.signal("n", signal.SIGTERM), "nobody is there"
    assert fleet.start("n", sleeper(tmp_path)) != pid


def test_output_environment_and_folder(fleet: LoopbackFleet, tmp_path: Path) -> None:
    for _ in range(2):
        fleet.start("n", script(tmp_path, 'echo "$GREETING from $PWD"; echo wrong >&2; exit 3', GREETING="hello"))
        assert fleet.wait("n", 30)
    assert fleet.exit_code("n") == 3
    assert (tmp_path / "script.log").read_text() == f"hello from {tmp_path}\nwrong\n" * 2


def test_a_program_that_is_not_there(fleet: LoopbackFleet, tmp_path: Path) -> None:
    fleet.start("n", Command(("no-such-program",), cwd=tmp_path, log=tmp_path / "n.log"))
    assert fleet.wait("n", 30)
    assert fleet.exit_code("n") == 1
    assert "no-such-program: No such file" in (tmp_path / "n.log").read_text()
    with pytest.raises(FleetError, match="cannot be started"):
        fleet.start("m", Command(("true",), cwd=tmp_path / "nowhere", log=tmp_path / "n.log"))


def test_pause_and_resume_are_seen_in_the_state(fleet: LoopbackFleet, tmp_path: Path) -> None:
    fleet.start("n", sleeper(tmp_path))
    fleet.signal("n", signal.SIGSTOP)
    wait_until(lambda: fleet.state("n") == "T", "the process to be paused")
    assert fleet.is_alive("n")
    fleet.signal("n", signal.SIGCONT)
    wait_until(lambda: fleet.state("n") in ("R", "S"), "the process to run again")


def test_stop_ends_the_polite_the_stubborn_and_the_paused(fleet: LoopbackFleet, tmp_path: Path) -> None:
    fleet.start("polite", sleeper(tmp_path))
    fleet.start("paused", sleeper(tmp_path))
    fleet.start("stubborn", script(tmp_path, "trap '' TERM; touch ready; while :; do sleep 0.01; done"))
    wait_until((tmp_path / "ready").exists, "the trap to be set")
    fleet.signal("paused", signal.SIGSTOP)
    for node in ("polite", "paused", "stubborn"):
        fleet.stop(node, grace_s=30 if node != "stubborn" else 0.05)
        fleet.stop(node)
    codes = [fleet.exit_code(node) for node in ("polite", "paused", "stubborn")]
    assert codes == [-signal.SIGTERM, -signal.SIGTERM, -signal.SIGKILL]


def test_close_ends_everything_and_is_idempotent(tmp_path: Path) -> None:
    fleet = LoopbackFleet(tmp_path / "registry")
    pids = [fleet.start(f"n{each}", sleeper(tmp_path)) for each in range(3)]
    fleet.signal("n1", signal.SIGSTOP)
    fleet.close()
    fleet.close()
    assert [proc.state(pid) for pid in pids] == [None] * 3
    assert list((tmp_path / "registry").iterdir()) == []
    with pytest.raises(FleetError, match="closed"):
        fleet.start("n", sleeper(tmp_path))


def test_a_node_outlives_the_thread_that_asked_for_it(fleet: LoopbackFleet, tmp_path: Path) -> None:
    def start() -> None:
        pid = fleet.start("n", sleeper(tmp_path))
        # Not before the launcher has done its part: only then is the node's life tied to a thread's.
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the launcher to finish")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    # A second node is started after the thread is gone; had the first one died with it, it would show.
    fleet.start("m", script(tmp_path, "exit 0"))
    assert fleet.wait("m", 30)
    assert fleet.is_alive("n")


_HARNESS = """
import sys
from pathlib import Path
from harness.fleet.base import Command
from harness.fleet.loopback import LoopbackFleet
folder = Path(sys.argv[1])
fleet = LoopbackFleet(folder / "registry")
command = Command(("sleep", "600"), cwd=folder, log=folder / "log")
print(fleet.start("n", command), fleet.start("m", command), flush=True)
sys.stdin.read()
"""


def test_nodes_die_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with harness:
        assert harness.stdout is not None
        pids = [int(pid) for pid in harness.stdout.readline().split()]
        assert len(pids) == 2
        assert all(proc.state(pid) for pid in pids)
        harness.kill()
    try:
        wait_until(lambda: all(proc.state(pid) in (None, "Z") for pid in pids), "the nodes to die")
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _left_behind(registry: Path, process: subprocess.Popen[bytes], later_ticks: int = 0) -> None:
    """The registry file of a harness that is gone, which has started this process."""
    identity = proc.identify(process.pid)
    assert identity is not None
    document = {
        "world": proc.world(),
        "harness": {"pid": 2**22 + 1, "start_ticks": 1},
        "processes": {"broker-1": {"pid": identity.pid, "start_ticks": identity.start_ticks + later_ticks}},
    }
    registry.mkdir(exist_ok=True)
    (registry / "fleet-left.json").write_text(json.dumps(document))


def test_leftovers_of_a_dead_harness_are_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as left:
        _left_behind(tmp_path, left)
        with LoopbackFleet(tmp_path) as fleet:
            assert fleet.swept == [f"broker-1 (process {left.pid}), left by a harness that is gone"]
        assert left.wait(30) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_a_reused_process_id_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        _left_behind(tmp_path, stranger, later_ticks=1)
        with LoopbackFleet(tmp_path) as fleet:
            assert fleet.swept == []
        assert stranger.poll() is None
        stranger.kill()


def test_a_living_harness_is_left_alone(tmp_path: Path) -> None:
    with LoopbackFleet(tmp_path) as one:
        one.start("n", sleeper(tmp_path))
        with LoopbackFleet(tmp_path) as other:
            assert other.swept == []
        assert one.is_alive("n")


def test_ports_are_free_distinct_and_below_the_outgoing_range() -> None:
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    one, other = PortBook("127.0.0.1", start=os.getpid()), PortBook("127.0.0.1", start=os.getpid())
    ports = [book.reserve() for _ in range(5) for book in (one, other)]
    assert len(set(ports)) == 10, "two books with the same start share no port"
    assert max(ports) < lowest_outgoing
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert not one._is_free(port)
    one.close()
    other.close()
    again = PortBook("127.0.0.1", start=os.getpid())
    assert again.reserve() <= min(ports), "closing gives them back"
    again.close()
