"""What importing a Jepsen history costs: one that our own exporter wrote, as EDN and JSON, plain and packed.

    python -m bench.importing [OPERATIONS]

The time is that of ``import_jepsen`` with its worker processes, the better of two.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

from bench.entry import enter
from histories.jepsen import export_jepsen, import_jepsen
from histories.synth import synthesize

OPERATIONS: Final = 200_000
FORMS: Final = (".edn", ".edn.gz", ".json", ".json.gz")


def measure(source: Path, out: Path) -> tuple[float, int]:
    """Seconds, and the operations that were imported."""
    began = time.perf_counter()
    meta = import_jepsen(source, out)
    return time.perf_counter() - began, meta.counts["ops"]


def report(operations: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        synthesize(scratch / "made", operations, inject={}, seed=1)
        print(f"| {operations:,} operations as | size | imported in | µs per operation |")
        print("|---|---|---|---|")
        for form in FORMS:
            source = scratch / f"history{form}"
            export_jepsen(scratch / "made", source)
            seconds, ops = min(measure(source, scratch / f"out{form}{attempt}") for attempt in range(2))
            size = source.stat().st_size / 1e6
            print(f"| {form} | {size:.0f} MB | {seconds:.2f} s | {1e6 * seconds / ops:.1f} |", flush=True)


def main(arguments: list[str]) -> int:
    report(int(arguments[0]) if arguments else OPERATIONS)
    return 0


if __name__ == "__main__":
    enter(main)
