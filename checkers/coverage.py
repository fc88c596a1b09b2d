"""**unavailable-after-heal**: the cluster calls itself healthy, and at the recovery deadline a key is still
not writable, not readable, or its last stable offset stays below its high watermark.

The final scans tell: a scan that is incomplete because the cluster did not serve the key is a case.
One that our own scanner failed on is not (the verdict is unknown instead). Keys deleted on purpose are
exempt; so is a cluster that never became healthy by its own account, which the runner records. Where
storage was destroyed (``void``) it is observed: nobody can serve what is gone.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from checkers.explain import Case
from histories.meta import Meta


def unserved(folder: Path, meta: Meta, void: bool) -> list[Case]:
    cases: dict[int, Case] = {}
    for row in pq.read_table(folder / "coverage").to_pylist():
        key = row["key"]
        if not row["complete"] and row["reason"] == "cluster" and not meta.keys[key].deleted:
            cases[key] = Case("unavailable-after-heal", 1, int(not void), not void, key=key, offset=row["position"])
    return list(cases.values())
