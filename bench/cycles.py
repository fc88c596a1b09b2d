"""What judging transactions costs: a synthetic list-append history, checked in a process of its own.

    python -m bench.cycles [TRANSACTIONS] [--workload append|register]

Spark's start is in the time; the memory is that of all processes together, at its highest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.__main__ import measured
from bench.entry import enter
from histories.schema import Workload
from histories.synth.transactions import synthesize_transactions


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cycles", description=__doc__.splitlines()[0])
    parser.add_argument("transactions", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--workload", choices=("append", "register"), default="append")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "history"
        began = time.monotonic()
        meta = synthesize_transactions(folder, Workload(options.workload), options.transactions, seed=1)
        made = time.monotonic() - began
        cost = measured([sys.executable, "-m", "harness.cli", "check", str(folder)])
    print("| transactions | rows | made in | checked in | µs per transaction | peak memory |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {options.transactions:,} {options.workload} | {meta.counts['elements']:,} | {made:.1f} s | {cost.seconds:.1f} s "
        f"| {1e6 * cost.seconds / options.transactions:.1f} | {cost.peak_mib:.0f} MiB |"
    )
    return 0


if __name__ == "__main__":
    enter(main)
