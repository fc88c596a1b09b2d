"""``import_jepsen``: parse in parallel, pair, then write.

Two passes over chunks. The first parses each chunk in a worker process, which leaves the columns in a
file, and pairs invocations with completions from the few columns that it hands back. The second has every
completion at hand, however late it came, and writes the tables in the order of invocation. What is held
in memory is a few chunks.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from histories.errors import HistoryError
from histories.jepsen.pairing import Pairing
from histories.jepsen.parse import Ints, Parsed, parse_to_file
from histories.jepsen.source import Chunk, chunks, is_json
from histories.jepsen.tables import Chunks, RowMaker
from histories.jepsen.transaction_rows import TransactionRows
from histories.jepsen.transactions import PARSERS, workload_of
from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings
from histories.schema import EVENTS, Isolation, Workload
from histories.writer import HistoryWriter

Parser = Callable[[str, Chunk, bool, str], tuple[Parsed, Ints]]

_TOPIC: Final = "jepsen"
_IN_FLIGHT: Final = 8
_ALONE_CHUNKS: Final = 2
"""A file of no more chunks than this is parsed here: starting processes would take longer."""


def import_jepsen(source: Path, out: Path, isolation: str = Isolation.READ_COMMITTED) -> Meta:
    """Writes the history of ``source`` to the folder ``out``. ``isolation`` is that of its consumers."""
    workload = workload_of(source)
    if workload != Workload.LOG:
        return _import_transactions(source, out, workload)
    with HistoryWriter(out) as writer, tempfile.TemporaryDirectory(dir=out, prefix="import-") as folder:
        found = _first_pass(source, Path(folder))
        rows = RowMaker(source, Path(folder), found.keys, Isolation(isolation))
        stored = Chunks(Path(folder), found.starts, found.late)
        for number in range(len(found.starts)):
            ops, mops = rows.chunk(stored, number)
            writer.write("ops", ops)
            writer.write("mops", mops)
        rows.check_unique()
        writer.write("events", _events(found.events))
        return writer.close(_meta(source, found.keys))


def _import_transactions(source: Path, out: Path, workload: Workload) -> Meta:
    writer = HistoryWriter(out, workload=workload)
    with writer, tempfile.TemporaryDirectory(dir=out, prefix="import-") as folder:
        found = _first_pass(source, Path(folder), PARSERS[workload])
        rows = TransactionRows()
        stored = Chunks(Path(folder), found.starts, found.late)
        for number in range(len(found.starts)):
            txns, elements = rows.chunk(stored, number)
            writer.write("txns", txns)
            writer.write("elements", elements)
        return writer.close(Meta(source.name, "jepsen", (), {}, (), workload=workload.value))


@dataclass
class _Found:
    keys: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    starts: list[int] = field(default_factory=list)
    late: dict[int, int] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)


def _first_pass(source: Path, folder: Path, parse: Parser = parse_to_file) -> _Found:
    found = _Found()
    pairing = Pairing(source)
    for number, (heads, keys) in enumerate(_parsed(source, folder, parse)):
        matched = pairing.add(heads)
        found.starts.append(matched.start)
        found.keys = np.union1d(found.keys, keys)
        found.events += heads.events
        with (folder / f"{number}.matched").open("wb") as file:
            pickle.dump(matched, file, protocol=5)
    if not pairing.known:
        raise HistoryError(
            f"{source}: no operation of a Kafka workload in it; expected :f :send, :poll, :txn or :assign"
        )
    found.late = pairing.late
    return found


def _parsed(source: Path, folder: Path, parse: Parser) -> Iterator[tuple[Parsed, Ints]]:
    """Heads and keys of each chunk, in order."""
    json_lines = is_json(source)
    waiting: deque[tuple[int, Chunk]] = deque()
    reader = enumerate(chunks(source))
    for numbered in reader:
        waiting.append(numbered)
        if len(waiting) > _ALONE_CHUNKS:
            break
    else:
        for number, chunk in waiting:
            yield parse(str(source), chunk, json_lines, str(folder / f"{number}.parsed"))
        return
    yield from _shared_out(str(source), folder, chain(waiting, reader), json_lines, parse)


def _shared_out(
    source: str, folder: Path, numbered: Iterable[tuple[int, Chunk]], json_lines: bool, parse: Parser
) -> Iterator[tuple[Parsed, Ints]]:
    """Parsed by worker processes, and by this one whenever they have enough to do: from the first moment on,
    while they are still starting, no core waits."""
    workers = max(1, min(4, os.cpu_count() or 1) - 1)
    # Spawned, not forked: the caller may have threads.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: deque[Future[tuple[Parsed, Ints]]] = deque()
        try:
            for number, chunk in numbered:
                work = (source, chunk, json_lines, str(folder / f"{number}.parsed"))
                if sum(not each.done() for each in running) <= workers:
                    with _deaf():
                        running.append(pool.submit(parse, *work))
                else:
                    running.append(_done_here(parse, *work))
                while running and (len(running) >= _IN_FLIGHT or running[0].done()):
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for each in running:
                each.cancel()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start in here do not hear a terminal's Ctrl-C, which is for the command; it ends them. One that
    comes meanwhile waits, so it is not lost."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _done_here(parse: Parser, source: str, chunk: Chunk, json_lines: bool, out: str) -> Future[tuple[Parsed, Ints]]:
    """What is wrong with the chunk waits for its turn: the first bad line of a file is the one that is named."""
    done: Future[tuple[Parsed, Ints]] = Future()
    try:
        done.set_result(parse(source, chunk, json_lines, out))
    except HistoryError as error:
        done.set_exception(error)
    return done


def _events(events: list[tuple[int, str]]) -> pa.Table:
    rows = [{"time_ns": time, "kind": "nemesis", "source": "jepsen", "detail": said} for time, said in events]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: int(str(row["time_ns"]))), schema=EVENTS)


def _meta(source: Path, keys: Ints) -> Meta:
    return Meta(
        run_id=source.name,
        origin="jepsen",
        keys=tuple(KeyInfo(_TOPIC, key) for key in keys.tolist()),
        topics={_TOPIC: TopicSettings(len(keys), replication_factor=3, min_insync_replicas=2)},
        producers=(ProducerSettings(-1, True, 2_147_483_647, 5, client="jepsen"),),
    )
