"""Apache Kafka's own ``DumpLogSegments`` reads our segments and indexes, and says of them what our dump says.

The other way round is ``test_dump.py``. This needs a virtual machine and Kafka's jars, so it is skipped where none are at hand.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from checkers.java import JavaError, find_java
from harness.targets.kafka_home import cached_kafka, find_kafka
from system_under_test.protocol.batch import encode
from system_under_test.protocol.compression import Compression
from system_under_test.realworld.files import RealFiles
from system_under_test.storage.config import LogConfig
from system_under_test.storage.dump import DumpOptions, dump
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition
from tests.system_under_test.storage.test_kafkas_folder import RealDisk

_PATIENCE_S = 120


def _written(folder: Path) -> list[str]:
    """Several segments and epochs, every compression, keys and none; the names of what it consists of."""
    config = LogConfig.of({}, {"segment.bytes": "2048", "index.interval.bytes": "256"})
    log = Log(RealDisk(), str(folder), TopicPartition(folder.name.removesuffix("-0"), 0), config)
    for number in range(60):
        compression = list(Compression)[number % len(Compression)]
        records = [(b"key" if number % 3 else None, b"%d of %d" % (each, number)) for each in range(1 + number % 4)]
        batch = encode(records, timestamp_ms=1_799_999_000_000 + 10 * number, compression=compression)
        log.append_as_leader(batch, leader_epoch=number // 20)
    assert len(log.segments) >= 3
    log.close_cleanly()
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("data", [False, True])
def test_kafkas_own_tool_reads_our_files(tmp_path: Path, data: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get("KAFKA_HOME") and cached_kafka() is None:
        pytest.skip("no Apache Kafka at hand: set KAFKA_HOME, or let 'tidemark run' fetch one by Maven first")
    try:
        java = find_java()
    except JavaError as error:
        pytest.skip(str(error))
    names = _written(tmp_path / "ours-0")
    suffixes = (".log",) if data else (".log", ".index", ".timeindex")
    files = [f"ours-0/{name}" for name in names if name.endswith(suffixes)]
    libs = find_kafka("", java).libs
    command = [str(java.executable), "-Xmx256m", "-cp", f"{libs}/*", "kafka.tools.DumpLogSegments"]
    command += ["--files", ",".join(files), *(["--print-data-log"] if data else [])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    monkeypatch.chdir(tmp_path)
    theirs = [line for line in done.stdout.splitlines() if not line.startswith("log4j:")]
    assert list(dump(RealFiles(), files, DumpOptions(print_data_log=data))) == theirs
    assert sum("isvalid: true" in line for line in theirs) == 60
