"""``make bench``: what checking costs, beside the time of an empty Spark session in the same run.

    python -m bench [--ops 50000 1000000] [--large] [--checking]

Every figure is of a whole process, Spark's start included, with the peak memory of all its processes.
``--large`` adds 10 M operations (some minutes and 1 GB of disk). Then, unless only ``--checking`` is asked for, importing,
recording and the shipped cluster are measured (:mod:`bench.importing`, :mod:`bench.record`, :mod:`bench.broker`); the last
two need an Apache Kafka, and say so where none is.

The empty session is started as the checks start theirs, exchanges 1,000 rows and stops. Beside it stands the same as
PySpark does it by default.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.entry import enter
from histories.synth import synthesize

EMPTY = (
    "from checkers.session import start; s = start(); "
    "s.parallelize(range(1000)).map(lambda n: (n, 1)).partitionBy(2).count(); s.stop()"
)
STOCK = (
    "from pyspark.sql import SparkSession; s = SparkSession.builder.getOrCreate(); "
    "s.range(1000).groupBy('id').count().count(); s.stop()"
)
ROTATE = 1024


@dataclass(frozen=True)
class Cost:
    seconds: float
    peak_mib: float


def measured(command: list[str]) -> Cost:
    """Run to the end; sample the memory of the whole process tree."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        time.sleep(0.1)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(time.monotonic() - began, peak / 2**20)


def _resident(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        return sum(int(each.memory_info().rss) for each in [root, *root.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


def _quickest(program: str) -> Cost:
    return min((measured([sys.executable, "-c", program]) for _ in range(2)), key=lambda cost: cost.seconds)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--large", action="store_true", help="10 M operations too")
    parser.add_argument("--checking", action="store_true", help="nothing else")
    options = parser.parse_args(arguments)
    sizes = [*options.ops, *([10_000_000] if options.large else [])]
    measured([sys.executable, "-c", EMPTY])  # leaves the archive of classes that the others find
    stock, empty = _quickest(STOCK), _quickest(EMPTY)
    print(f"empty Spark session: {empty.seconds:.1f} s, {empty.peak_mib:.0f} MiB")
    print(f"PySpark's own, by default: {stock.seconds:.1f} s, {stock.peak_mib:.0f} MiB", flush=True)
    print("| operations | keys | made in | checked in | of an empty session | µs per operation | peak memory |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for ops in sizes:
            for keys, rotate in (("10 fixed", 0), (f"rotating, {ROTATE} writes", ROTATE)):
                folder = Path(scratch) / f"{ops}-{rotate}"
                began = time.monotonic()
                synthesize(folder, ops, 10, rotate, {}, 1)
                made = time.monotonic() - began
                cost = measured([sys.executable, "-m", "harness.cli", "check", str(folder)])
                print(
                    f"| {ops} | {keys} | {made:.1f} s | {cost.seconds:.1f} s | {cost.seconds / empty.seconds:.1f} × "
                    f"| {1e6 * cost.seconds / ops:.1f} | {cost.peak_mib:.0f} MiB |",
                    flush=True,
                )
    if options.checking:
        return 0
    # Imported here: the worker processes of an import load this module too, and need none of it.
    from bench import broker, cycles, importing, record

    print("\ncycles of transactions:", flush=True)
    cycles.main([])

    print("\nimporting a Jepsen history:", flush=True)
    importing.main([])
    print("\nrecording:", flush=True)
    record.main([])
    print("\nthe shipped cluster beside Apache Kafka:", flush=True)
    return broker.main([])


if __name__ == "__main__":
    enter(main)
