"""What the log costs over the bare disk: MB/s of append and read, beside plain writes and reads of the same bytes.

    python -m bench.storage [--megabytes 512] [--partitions 12] [--batch-kib 64 1024]

Both sides go through the same page cache, in turns, in one run; the better of three turns counts. Nothing is synced.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from system_under_test.protocol.batch import encode
from system_under_test.realworld.files import RealFiles
from system_under_test.storage.config import LogConfig
from system_under_test.storage.log import Log
from system_under_test.types import TopicPartition

_FETCH_BYTES = 1 << 20
_TURNS = 3


class _Clock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return int(time.time() * 1000)


@dataclass(frozen=True)
class _World:
    clock: _Clock = field(default_factory=_Clock)
    files: RealFiles = field(default_factory=RealFiles)
    random: random.Random = field(default_factory=lambda: random.Random(1))


def _rate(total_bytes: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return total_bytes / (time.perf_counter() - began) / 1e6


def _turn(folder: str, batch: bytes, count: int, partitions: int) -> dict[str, float]:
    world, config = _World(), LogConfig.of({}, {"max.message.bytes": str(4 << 20)})
    logs = [Log(world, f"{folder}/t-{each}", TopicPartition("t", each), config) for each in range(partitions)]
    raw = [os.open(f"{folder}/raw-{each}", os.O_RDWR | os.O_CREAT) for each in range(partitions)]
    total = count * len(batch)

    def write_raw() -> None:
        for number in range(count):
            os.write(raw[number % partitions], batch)

    def append() -> None:
        for number in range(count):
            logs[number % partitions].append_as_leader(batch, 0)

    def read_raw() -> None:
        for each in raw:
            position = 0
            while data := os.pread(each, _FETCH_BYTES, position):
                position += len(data)

    def read() -> None:
        for log in logs:
            offset = 0
            while data := log.read(offset, _FETCH_BYTES, log.end_offset, at_least_one=True):
                offset += len(data) // len(batch) * per_batch

    per_batch = int.from_bytes(batch[57:61], "big")
    rates = {
        "raw write": _rate(total, write_raw),
        "append": _rate(total, append),
        "raw read": _rate(total, read_raw),
        "read": _rate(total, read),
    }
    assert sum(log.size_bytes for log in logs) == total
    for each in raw:
        os.close(each)
    for log in logs:
        log.close()
    return rates


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.storage", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--batch-kib", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--folder", default=None, help="where to write; a temporary folder by default")
    options = parser.parse_args(arguments)
    print(f"{'batch':>9} {'raw write':>10} {'append':>10} {'raw read':>10} {'read':>10}   MB/s, best of {_TURNS}")
    for kib in options.batch_kib:
        value = random.Random(kib).randbytes(1000)
        batch = encode([(None, value)] * max(1, kib * 1024 // 1010), timestamp_ms=int(time.time() * 1000))
        count = options.megabytes * 10**6 // len(batch)
        best: dict[str, float] = {}
        for _ in range(_TURNS):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                for name, rate in _turn(folder, batch, count, options.partitions).items():
                    best[name] = max(best.get(name, 0.0), rate)
        print(f"{kib:>5} KiB " + " ".join(f"{rate:>10.0f}" for rate in best.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
