"""``tidemark synth log``: a synthetic history, valid but for the anomalies that were asked for."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.exits import UsageError

JEPSEN_SUFFIXES = (".edn", ".edn.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz")


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "synth",
        help="make a synthetic history, valid or with known anomalies",
        description="Make a synthetic history, for trying the checkers and for measuring them.",
    )
    workloads = parser.add_subparsers(title="workloads", metavar="WORKLOAD", required=True)
    log = workloads.add_parser(
        "log",
        help="sends and polls of partitions",
        description="A history of sends and polls: valid by construction, but for what --inject asks for.",
    )
    log.add_argument("--ops", type=_positive, required=True, metavar="N", help="operations")
    log.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="PATH",
        help="a new folder for a sealed history, or a file *.edn, *.json (also .gz) in Jepsen's format",
    )
    log.add_argument("--keys", type=_positive, default=10, metavar="N", help="partitions in use at a time; default: 10")
    log.add_argument(
        "--rotate",
        type=_natural,
        default=0,
        metavar="N",
        help="give a partition up for a new one after about N writes; 0: never",
    )
    log.add_argument("--inject", metavar="NAME:COUNT,…", default="", help="anomalies, such as lost-write:3,duplicate:1")
    log.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")
    log.set_defaults(execute=execute)


def _natural(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 0:
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = _natural(text)
    if value == 0:
        raise ValueError(text)
    return value


# argparse names the function in "invalid … value"; these are words for a person.
_natural.__name__ = "whole number"
_positive.__name__ = "positive whole number"


def execute(options: argparse.Namespace) -> int:
    inject = injections(options.inject)
    out: Path = options.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: is already there; name a new folder or file")
    if not out.name.endswith(JEPSEN_SUFFIXES):
        counts = _synthesize(options, out, inject)
        print(f"{out}: {counts} operations", file=sys.stderr)
        return 0
    from histories.jepsen import export_jepsen  # type: ignore[import-not-found, unused-ignore]

    folder = Path(tempfile.mkdtemp(prefix="tidemark-synth-"))
    try:
        counts = _synthesize(options, folder / "history", inject)
        export_jepsen(folder / "history", out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{out}: {counts} operations", file=sys.stderr)
    return 0


def _synthesize(options: argparse.Namespace, out: Path, inject: dict[str, int]) -> int:
    from histories.synth import synthesize

    try:
        meta = synthesize(out, options.ops, options.keys, options.rotate, inject, options.seed)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return meta.counts["ops"]


def injections(text: str) -> dict[str, int]:
    """``lost-write:3,duplicate:1``; a name alone is injected once."""
    from checkers.names import ANOMALIES
    from harness.planrules import nearest

    wanted: dict[str, int] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, count = each.partition(":")
        if name not in ANOMALIES:
            raise UsageError(f"--inject {each}: unknown anomaly {name!r}{nearest(name, ANOMALIES)}")
        if name in wanted:
            raise UsageError(f"--inject {text}: {name} is given twice")
        if count and not count.isdecimal():
            raise UsageError(f"--inject {each}: expected NAME:COUNT, such as lost-write:3")
        wanted[name] = int(count or 1)
    return wanted
