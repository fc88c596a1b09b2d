"""``tidemark run``: one run, from a plan to a verdict."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.exits import Exit

if TYPE_CHECKING:
    from harness.plan import Plan
    from harness.planfile import Override


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="one run: load, faults, recording, verdict, report",
        description="Drive a cluster with load, break it with faults, record everything, judge the recording.",
    )
    parser.add_argument(
        "plan",
        nargs="?",
        help="a plan that comes along (default, smoke, acks-one, unclean, existing) or a TOML file; "
        "default: 'default', or 'existing' with --target existing or --bootstrap",
    )
    parser.add_argument(
        "--target",
        metavar="KIND",
        help="what is tested: shipped (Tidemark's own, the default), kafka (managed) or existing",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", help="servers of an existing cluster")
    parser.add_argument("--kafka-home", metavar="DIR", help="an unpacked Apache Kafka for the managed target")
    parser.add_argument("--seed", metavar="N", help="seed of everything random; 0: drawn and printed")
    parser.add_argument("--time-limit", metavar="SECONDS", help="how long the load runs under faults")
    parser.add_argument(
        "--fleet", metavar="KIND", help="where it runs: auto, namespaces (hosts of their own) or loopback"
    )
    parser.add_argument("--faults", metavar="KIND,…", help="faults to draw from, such as kill,isolate,halves; or none")
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="override a field of the plan, such as clients.acks=1 (again for more)",
    )
    parser.add_argument("--store", metavar="DIR", help="where runs are kept; default: $TIDEMARK_STORE, else ./runs")
    parser.add_argument("--json", action="store_true", help="print the judgement as one JSON document")
    parser.add_argument("--dry-run", action="store_true", help="print the plan as resolved, and stop")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    plan = resolve(options)
    if options.dry_run:
        from harness.planfile import dump

        print(dump(plan), end="")
        return 0
    return _run(plan, options)


def _run(plan: Plan, options: argparse.Namespace) -> int:
    # Before anything else: some of what follows starts threads, and then it may be too late.
    from harness.fleet.choice import choose
    from harness.planrules import no_hosts_of_their_own

    choice = choose(plan.fleet.kind, no_hosts_of_their_own(plan))

    from harness.commands.check import Checking, Request
    from harness.report.terminal import TerminalView
    from harness.run import record
    from harness.seed import Seed
    from histories.store import RunStore

    if not plan.seed:
        plan = replace(plan, seed=Seed.drawn().value)
    store = RunStore.locate(options.store)
    with TerminalView(plan.name, plan.seed) as view:
        recorded = record(plan, store, [view], choice)
    folder = recorded.run.folder
    if recorded.interrupted:
        print(f"tidemark: interrupted; sealed but not judged. Judge it with: tidemark check {folder}", file=sys.stderr)
        return Exit.INTERRUPTED
    print(f"recorded in {folder}; judging it", file=sys.stderr, flush=True)
    request = Request(master=None, only=None, promises=None, html=None, quiet=options.json)
    with ExitStack() as cleanup:
        return Checking(request, store, sys.stdout if options.json else None, cleanup).all([str(folder)])


def resolve(options: argparse.Namespace) -> Plan:
    """The plan that the command line asks for."""
    from harness.planfile import load, parse_override

    existing = options.bootstrap is not None or options.target == "existing"
    name = options.plan or ("existing" if existing else "default")
    return load(name, [*_flags(options), *map(parse_override, options.overrides)])


def _flags(options: argparse.Namespace) -> list[Override]:
    from harness.planfile import Override, parse_override

    flags = []
    for flag, path, value in (
        ("--target", "target.kind", options.target),
        ("--fleet", "fleet.kind", options.fleet),
        ("--kafka-home", "target.kafka_home", options.kafka_home),
        ("--bootstrap", "target.bootstrap", options.bootstrap),
    ):
        if value is not None:
            flags.append(Override(path, value, f"{flag} {value}"))
    if options.bootstrap is not None and options.target is None:
        flags.append(Override("target.kind", "existing", f"--bootstrap {options.bootstrap}"))
    for flag, path, value in (
        ("--seed", "seed", options.seed),
        ("--time-limit", "time_limit_s", options.time_limit),
    ):
        if value is not None:
            flags.append(Override(path, parse_override(f"{path}={value}").value, f"{flag} {value}"))
    if options.faults is not None:
        kinds = [] if options.faults == "none" else [each.strip() for each in options.faults.split(",")]
        flags.append(Override("faults.kinds", kinds, f"--faults {options.faults}"))
    return flags
