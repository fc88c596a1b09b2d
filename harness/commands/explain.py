"""``tidemark explain``: everything a history knows about one value."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="everything known about one value of a run",
        description="Who sent a value, who acknowledged it, where it lay, who read it, which faults were in force.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's id or folder, 'latest', a sealed history or a Jepsen file")
    parser.add_argument("value", metavar="VALUE", type=_value, help="the value, as the findings name it")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--store", metavar="DIR", help="where runs are kept; default: $TIDEMARK_STORE, else ./runs")
    parser.set_defaults(execute=execute)


def _value(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


_value.__name__ = "64-bit whole number"  # argparse names the function in "invalid … value"


def execute(options: argparse.Namespace) -> int:
    import json

    from harness.commands.sources import opened
    from harness.report.explain import explain, rendered
    from histories.errors import HistoryError
    from histories.read import open_history
    from histories.schema import Workload
    from histories.store import RunStore

    with opened(options.run, RunStore.locate(options.store)) as source:
        meta, _ = open_history(source.history)  # what is no history is said as such
        if meta.workload != Workload.LOG:
            raise HistoryError(
                f"{options.run}: a history of transactions on keys, and explain tells of a log's values; "
                "tidemark check shows the transactions of each anomaly"
            )
        told = explain(source.history, options.value)
    if options.json:
        print(json.dumps(told.document(), ensure_ascii=False))
    else:
        sys.stdout.write(rendered(told))
    return 0
