"""**replica-divergence**: after recovery, two replicas' logs differ between the larger log start and the smaller high
watermark.

What lies there is committed, so every replica has it, byte for byte: the same batches at the same offsets with the
same leader epochs. The table ``replicas`` tells, read from the brokers' own segments. A case is a pair of replicas
of one key, with the lowest offset at which they differ. Compacted topics are exempt (each broker compacts in its own
time), and so are keys deleted on purpose. Where storage was destroyed (``void``) it is observed.

An unclean election takes back what was committed, and a replica learns of it when it follows again. So where it is allowed,
only replicas are compared that were in the ISR at the end (``events``); else every replica is, as nothing is taken back.

A history whose replicas nobody looked at cannot show it, nor one that has a single replica of each key, or replicas
that know of no high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, groupby
from pathlib import Path

import pyarrow.parquet as pq

from checkers.explain import Case
from checkers.replica_logs import Log, common, first_difference, replica_logs
from histories.meta import Meta

ANOMALY = "replica-divergence"


def diverged(folder: Path, meta: Meta, void: bool, unclean: bool | None = None) -> tuple[list[Case], str | None]:
    """The cases; and why the promise was not observable here, if it was not. ``unclean``: what a person says of it."""
    cases: list[Case] = []
    compared = 0
    logs = replica_logs(folder)
    in_sync = _last_in_sync(folder) if logs else {}
    for key, replicas in groupby(logs, key=lambda log: log.key):
        topic = meta.topics[meta.keys[key].topic]
        if meta.keys[key].deleted or "compact" in topic.cleanup_policy:
            continue
        taken_back = topic.unclean_leader_election if unclean is None else unclean
        pairs = list(combinations((log for log in replicas if not taken_back or log.broker in in_sync.get(key, ())), 2))
        compared += sum(bool(common(one, other)) for one, other in pairs)
        cases += _of_key(pairs, void)
    if not logs:
        return cases, f"{ANOMALY}: not observable: nobody read the replicas' logs after this run"
    if not compared:
        return (
            cases,
            f"{ANOMALY}: not observable: no two replicas of a key have something committed in common to compare",
        )
    return cases, None


def _last_in_sync(folder: Path) -> dict[int, list[int]]:
    """By key, the brokers in its ISR when it was last looked at."""
    events = pq.read_table(folder / "events", columns=["time_ns", "kind", "key", "isr"]).to_pylist()
    seen = [row for row in events if row["kind"] == "isr" and row["key"] is not None]
    return {row["key"]: row["isr"] or [] for row in sorted(seen, key=lambda each: int(each["time_ns"]))}


def _of_key(pairs: Iterable[tuple[Log, Log]], void: bool) -> list[Case]:
    cases = []
    for one, other in pairs:
        offset = first_difference(one, other)
        if offset is not None:
            cases.append(
                Case(
                    ANOMALY, 1, int(not void), not void,
                    key=one.key, offset=offset, broker=one.broker, other_broker=other.broker,
                )
            )  # fmt: skip
    return cases
