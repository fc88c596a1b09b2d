"""``tidemark synth``: a synthetic history, valid but for the anomalies that were asked for."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
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
    log.add_argument(
        "--inject",
        action="append",
        default=[],
        metavar="NAME:COUNT,…",
        help="anomalies, such as lost-write:3,duplicate:1; may be given again",
    )
    log.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")
    log.set_defaults(execute=execute, workload="log")
    for name, what in (("append", "transactions on lists"), ("register", "transactions on registers")):
        made = workloads.add_parser(
            name,
            help=what,
            description=f"A history of {what}: strictly serializable by construction, but for what --inject asks for.",
        )
        made.add_argument("--ops", type=_positive, required=True, metavar="N", help="transactions")
        made.add_argument("--out", type=Path, required=True, metavar="PATH", help="a new folder for a sealed history")
        made.add_argument("--keys", type=_positive, default=10, metavar="N", help="keys in use at a time; default: 10")
        made.add_argument(
            "--inject",
            action="append",
            default=[],
            metavar="NAME:COUNT,…",
            help="anomalies, such as G1c:3,lost-update:1; may be given again",
        )
        made.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")
        made.set_defaults(execute=execute, workload=name, rotate=0)


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
    inject = injections(",".join(options.inject))
    out: Path = options.out
    try:
        if not _is_new(out):
            raise UsageError(f"--out {out}: is already there; name a new folder or file")
        count = _made(options, out, inject)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    print(f"{out}: {count} operations", file=sys.stderr)
    return 0


def _is_new(out: Path) -> bool:
    """Nothing there, or an empty folder, or what a synth that was killed has left."""
    from histories.schema import TABLES, TRANSACTION_TABLES

    ours = {*TABLES, *TRANSACTION_TABLES}
    return not os.path.lexists(out) or (out.is_dir() and {each.name for each in out.iterdir()} <= ours)


def _made(options: argparse.Namespace, out: Path, inject: dict[str, int]) -> int:
    """Make it whole or not at all. Returns the number of operations."""
    if not out.name.endswith(JEPSEN_SUFFIXES):
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, out, ignore_errors=True)
            count = _synthesize(options, out, inject)
            undo.pop_all()
        return count
    if options.workload != "log":
        raise UsageError(f"--out {out}: a history of transactions is made as a folder, not in Jepsen's format")
    from histories.jepsen import export_jepsen  # type: ignore[import-not-found, unused-ignore]

    with tempfile.TemporaryDirectory(prefix="tidemark-synth-") as scratch, ExitStack() as undo:
        count = _synthesize(options, Path(scratch) / "history", inject)
        # Beside it, for the rename; the end of the name stays, because it says the format.
        unfinished = out.with_name(f".unfinished-{out.name}")
        undo.callback(unfinished.unlink, missing_ok=True)
        export_jepsen(Path(scratch) / "history", unfinished)
        unfinished.replace(out)
    return count


def _synthesize(options: argparse.Namespace, out: Path, inject: dict[str, int]) -> int:
    from histories.schema import Workload
    from histories.synth import synthesize
    from histories.synth.transactions import synthesize_transactions

    try:
        if options.workload != "log":
            workload = Workload(options.workload)
            made = synthesize_transactions(out, workload, options.ops, options.keys, inject, options.seed)
            return made.counts["txns"]
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
        name, colon, count = each.partition(":")
        if name not in ANOMALIES:
            hint = nearest(name, ANOMALIES) or f"; known are {', '.join(ANOMALIES)}"
            raise UsageError(f"--inject {each}: unknown anomaly {name!r}{hint}")
        if name in wanted:
            raise UsageError(f"--inject {text}: {name} is given twice")
        if colon and not (count.isdecimal() and int(count)):
            raise UsageError(f"--inject {each}: expected NAME:COUNT, such as lost-write:3")
        wanted[name] = int(count) if colon else 1
    return wanted
