"""``make run``: make a history with known anomalies, judge it, say where the report is.

The anomalies are injected, so the verdict is INVALID and finding exactly them is the success: the exit code
is 0 when the checkers found what was put in, and 1 when they did not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from harness.cli import main as tidemark
from histories.store import RunStore
from histories.synth import ENTAILS

SEED = 20
OPERATIONS = 50_000
INJECTED = {"lost-write": 3, "duplicate": 2, "aborted-read": 1, "nonmonotonic-poll": 2}
NORMAL = {"int-send-skip"}


def main() -> int:
    store = RunStore.locate(None)
    run = store.create("demo", SEED)
    try:
        injected = ",".join(f"{name}:{count}" for name, count in INJECTED.items())
        print(f"Making a history of {OPERATIONS} operations with {injected} (seed {SEED}).", flush=True)
        made = tidemark(
            [
                "synth",
                "log",
                "--ops",
                str(OPERATIONS),
                "--out",
                str(run.history),
                "--inject",
                injected,
                "--seed",
                str(SEED),
            ]
        )
        if made:
            return made
        print("Judging it with Spark.", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch) / "judgement.json"
            tidemark(["check", str(run.history), "--json", str(result), "--html", str(run.report_html)])
            document = json.loads(result.read_text())
        run.report_json.write_text(json.dumps(document) + "\n")
    finally:
        run.release()
    found = {name: each["count"] for name, each in document["anomalies"].items()}
    expected = set(INJECTED).union(NORMAL, *(ENTAILS[name] for name in INJECTED))
    wrong = [name for name, count in INJECTED.items() if found.get(name, 0) < count]
    wrong += [name for name in found if name not in expected]
    if wrong:
        print(f"The checkers did not find what was put in: {', '.join(wrong)}; found {found}", file=sys.stderr)
        return 1
    print(f"\nThe checkers found what was put in. The report: {run.report_html}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
