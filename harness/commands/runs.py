"""``tidemark runs``: what the run store holds."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "runs", help="list or delete stored runs", description="List the stored runs, or delete some of them."
    )
    parser.add_argument("--store", metavar="DIR", help="where runs are kept; default: $TIDEMARK_STORE, else ./runs")
    parser.add_argument("--json", action="store_true", help="print one JSON document per run")
    parser.set_defaults(execute=execute_list)
    # The same option after the action; suppressed, so that it does not undo what stood before it.
    store = {"metavar": "DIR", "default": argparse.SUPPRESS, "help": "as above"}
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    listing = actions.add_parser("list", help="all runs, the newest first (also without an action)")
    listing.add_argument("--store", **store)
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as above")
    listing.set_defaults(execute=execute_list)
    deleting = actions.add_parser("delete", help="delete runs with everything in their folders")
    deleting.add_argument("runs", nargs="+", metavar="ID", help="a run's id, its beginning, or 'latest'")
    deleting.add_argument("--store", **store)
    deleting.set_defaults(execute=execute_delete)


def execute_list(options: argparse.Namespace) -> int:
    from histories.store import RunStore

    store = RunStore.locate(options.store)
    found = store.list()
    if options.json:
        for each in found:
            document = {
                "id": each.id,
                "plan": each.plan,
                "seed": each.seed,
                "started": each.started.isoformat(),
                "state": each.state.value,
                "verdict": each.verdict,
            }
            print(json.dumps(document))
        return 0
    if not found:
        print(f"no runs in {store.root}; make one with: tidemark run smoke")
        return 0
    width = max(len(each.id) for each in found)
    print(f"{'run':{width}}  {'started (UTC)':19}  {'state':8}  {'verdict':13}  seed")
    for each in found:
        started = each.started.strftime("%Y-%m-%d %H:%M:%S")
        seed = "" if each.seed is None else str(each.seed)
        print(f"{each.id:{width}}  {started}  {each.state.value:8}  {each.verdict or '–':13}  {seed}".rstrip())
    return 0


def execute_delete(options: argparse.Namespace) -> int:
    from histories.store import RunStore

    store = RunStore.locate(options.store)
    # All names are looked up before anything is deleted: a typing error in the second keeps the first.
    for name in [store.get(each).id for each in options.runs]:
        store.delete(name)
        print(f"deleted {name}")
    return 0
