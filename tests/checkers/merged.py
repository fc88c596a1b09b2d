"""Several hand-written histories, each with settings of its own, as one: one Spark job judges them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings
from tests.checkers.rows import Coverage, History, Mop, Op

STRIDE = 1000
"""Of operations, values and workers; no history of these is that large."""
PROCESS_STRIDE = 2_000_000
"""The scanners of the builder start at a million."""


def merged(histories: Iterable[History]) -> History:
    ops: list[Op] = []
    mops: list[Mop] = []
    coverage: list[Coverage] = []
    keys: list[KeyInfo] = []
    topics: dict[str, TopicSettings] = {}
    producers: list[ProducerSettings] = []
    clock_error_ns: dict[str, int] = {}
    for number, each in enumerate(histories):
        ops += [_moved(row, number) for row in each.ops]
        mops += [_moved_mop(row, number, len(keys), len(producers)) for row in each.mops]
        coverage += [replace(row, key=row.key + len(keys)) for row in each.coverage]
        keys += [replace(key, topic=f"{number}/{key.topic}") for key in each.meta.keys]
        topics |= {f"{number}/{name}": topic for name, topic in each.meta.topics.items()}
        producers += each.meta.producers
        errors = each.meta.clock_error_ns.items()
        clock_error_ns |= {str(int(worker) + number * STRIDE): error for worker, error in errors}
    meta = Meta("merged", "synthetic", tuple(keys), topics, tuple(producers), clock_error_ns=clock_error_ns)
    return History(tuple(ops), tuple(mops), tuple(coverage), meta)


def _moved(row: Op, number: int) -> Op:
    return replace(
        row,
        op=row.op + number * STRIDE,
        process=row.process + number * PROCESS_STRIDE,
        worker=row.worker + number * STRIDE,
    )


def _moved_mop(row: Mop, number: int, first_key: int, first_producer: int) -> Mop:
    return replace(
        row,
        op=row.op + number * STRIDE,
        process=row.process + number * PROCESS_STRIDE,
        worker=row.worker + number * STRIDE,
        key=row.key if row.key < 0 else row.key + first_key,
        value=None if row.value is None else row.value + number * STRIDE,
        producer=None if row.producer is None else row.producer + first_producer,
    )
