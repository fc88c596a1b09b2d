"""The dump, line for line, of a folder that Apache Kafka 3.9.1 wrote, and what it says of damage.

``tests/fixtures/kafka-3.9.1`` holds a partition with all compressions, a committed and an aborted transaction, and the output of
``kafka.tools.DumpLogSegments`` for it, run in that folder.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from system_under_test.realworld.files import RealFiles
from system_under_test.storage.dump import DumpOptions, dump
from tests.system_under_test.storage.support import FOLDER, fill, open_log, simulated_host

KAFKA = Path(__file__).parents[2] / "fixtures" / "kafka-3.9.1"
SEGMENT = "fixture-0/00000000000000000000"


@pytest.mark.parametrize(
    ("expected", "suffixes", "options"),
    [
        ("logs", [".log"], DumpOptions()),
        ("data", [".log"], DumpOptions(print_data_log=True)),
        ("index", [".index", ".timeindex"], DumpOptions()),
    ],
)
def test_as_kafkas_own_tool(
    expected: str, suffixes: list[str], options: DumpOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(KAFKA)
    lines = list(dump(RealFiles(), [SEGMENT + each for each in suffixes], options))
    assert lines == (KAFKA / f"expected.{expected}.txt").read_text().splitlines()


def test_records_without_their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KAFKA)
    lines = list(dump(RealFiles(), [SEGMENT + ".log"], DumpOptions(deep_iteration=True)))
    expected = (KAFKA / "expected.data.txt").read_text().splitlines()
    assert lines == [each.partition(" key: ")[0].partition(" payload: ")[0] for each in expected]


def test_leader_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KAFKA)
    assert list(dump(RealFiles(), ["fixture-0/leader-epoch-checkpoint"])) == [
        "Dumping fixture-0/leader-epoch-checkpoint",
        "epoch: 0 startOffset: 0",
    ]


def test_damage_is_shown() -> None:
    with simulated_host() as host:
        world = host.boot()
        log = open_log(world, segment_bytes="100000")
        fill(log, 12)
        log.close_cleanly()
        path = f"{FOLDER}/{0:020d}"
        file = world.files.open(path + ".log")
        file.write_at(80, b"\xff")
        file.truncate(file.size() - 10)
        index = world.files.open(path + ".index")
        entries = index.size() // 8
        index.write_at(4, (200).to_bytes(4, "big"))
        times = world.files.open(path + ".timeindex")
        times.write_at(0, (77).to_bytes(8, "big"))

        logged = list(dump(world.files, [path + ".log"]))
        assert logged[2].endswith("isvalid: false")
        assert all(each.endswith("isvalid: true") for each in logged[3:-1])
        assert len(logged) == 2 + 11 + 1
        assert logged[-1].startswith(f"Found 85 invalid bytes at the end of {0:020d}.log: position 1035")
        verified = list(dump(world.files, [path + ".index", path + ".timeindex"], DumpOptions(verify_index_only=True)))
        assert verified[2] == f"Mismatches in :{path}.index"
        assert verified[3].startswith("  Index offset: ")
        assert f"Found timestamp mismatch in :{path}.timeindex" in verified
        assert entries > 2
