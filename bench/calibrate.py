"""Seeded chaos runs on a managed Apache Kafka: a correct broker that nobody here wrote must be VALID.

    python -m bench.calibrate [--plan default] [--target kafka] [--seeds 1-20] [--store runs] [--set clients.acks=1 ...]

With ``--target shipped`` the same on the cluster that comes along.

Each seed is recorded with the cluster alone on the machine; then one Spark session judges all recordings.
Prints a line per run and a summary; exits like ``tidemark check``, with the worst of all.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from bench.entry import enter
from harness.cli import main as tidemark
from harness.planfile import load, parse_override
from harness.pool import WorkerError
from harness.report.terminal import TerminalView
from harness.run import record
from harness.targets import TargetError
from histories.store import RunStore


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("--plan", default="default")
    parser.add_argument("--target", default="kafka")
    parser.add_argument("--seeds", default="1-20", help="a range such as 1-20")
    parser.add_argument("--store", default=None)
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="FIELD=VALUE")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    store = RunStore.locate(options.store)
    plan = load(
        options.plan, [parse_override(f"target.kind={options.target}"), *map(parse_override, options.overrides)]
    )
    recorded: list[str] = []
    for seed in range(int(first), int(last or first) + 1):
        with TerminalView(plan.name, seed) as view:
            try:
                result = record(replace(plan, seed=seed), store, [view])
            except (TargetError, WorkerError) as error:
                print(f"seed {seed}: not recorded: {error}", file=sys.stderr)
                return 70
        if result.interrupted:
            return 130
        recorded.append(str(result.run.folder))
        print(f"seed {seed}: recorded {result.run.folder}", flush=True)
    return tidemark(["check", *recorded])


if __name__ == "__main__":
    enter(main)
