"""``synthesize_transactions``: transactions on lists or registers of a strictly serializable store, and planted anomalies.

Ten processes take turns at random: one invokes a transaction, the store does all of it at one moment, it completes. Some
fail without effect; some end without an answer, with and without effect, and their process goes on under a new number. A key is
given up for a new one after 32 writes, as Jepsen's generator does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from histories.meta import Meta
from histories.schema import ELEMENTS, TXNS, Workload
from histories.synth.gadgets import GADGETS, Gadget
from histories.writer import HistoryWriter

PROCESSES: Final = 10
WRITES_PER_KEY: Final = 32
LONGEST: Final = 4
_BATCH: Final = 20_000
_STEP_NS: Final = 20_000
_FIRST_PLANTED_KEY: Final = 1_000_000_000

Did = list[tuple[str, int, "int | list[int] | None"]]


@dataclass
class _Txn:
    op: int
    process: int
    invoke_at: int
    steps: list[tuple[str, int, int]]
    did: Did | None = None
    type: str = "ok"
    complete_at: int | None = None


def synthesize_transactions(
    out: Path, workload: Workload, ops: int, keys: int = 10, inject: Mapping[str, int] | None = None, seed: int = 0
) -> Meta:
    """Writes a sealed history of ``ops`` transactions to ``out``; ``keys`` is how many are in use at a time."""
    planted = _planted(workload, inject or {}, ops)
    meta = Meta(f"synthetic-{seed}", "synthetic", (), {}, (), seed=seed, workload=workload.value)
    with HistoryWriter(out, workload=workload) as writer:
        _Store(writer, workload, keys, random.Random(seed)).run(ops, planted)
        return writer.close(meta)


def _planted(workload: Workload, inject: Mapping[str, int], ops: int) -> list[Gadget]:
    gadgets: list[Gadget] = []
    for name, count in inject.items():
        gadget = GADGETS.get(name)
        if gadget is None or gadget.only not in (None, workload):
            can = ", ".join(each for each, made in GADGETS.items() if made.only in (None, workload))
            raise ValueError(f"{name} cannot be injected into a history of this kind; what can: {can}")
        gadgets += [gadget] * count
    needed = sum(len(each.txns) for each in gadgets)
    if needed > ops:
        raise ValueError(f"{needed} transactions are needed for these anomalies, and there are {ops}")
    return gadgets


@dataclass
class _Store:
    writer: HistoryWriter
    workload: Workload
    keys: int
    rng: random.Random
    at: int = 0
    next_op: int = 0
    flushed: int = 0
    next_process: int = PROCESSES
    next_planted: int = _FIRST_PLANTED_KEY
    done: dict[int, _Txn] = field(default_factory=dict)
    state: dict[int, list[int]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)

    def run(self, ops: int, gadgets: list[Gadget]) -> None:
        active = list(range(self.keys))
        next_key = self.keys
        for key in active:
            self.state[key], self.written[key] = [], 0
        normal = ops - sum(len(each.txns) for each in gadgets)
        every = max(1, normal // (len(gadgets) + 1))
        waiting = list(gadgets)
        processes = list(range(PROCESSES))
        running: list[_Txn | None] = [None] * PROCESSES
        begun = open_now = 0
        while begun < normal or open_now:
            if waiting and begun >= every * (len(gadgets) - len(waiting) + 1):
                self._plant(waiting.pop(0))
            slot = self.rng.randrange(PROCESSES)
            txn = running[slot]
            if txn is None:
                if begun < normal:
                    steps, next_key = self._draw(active, next_key)
                    running[slot] = self._invoke(processes[slot], steps)
                    begun += 1
                    open_now += 1
            elif txn.did is None:
                self._happen(txn)
            else:
                running[slot] = None
                open_now -= 1
                self._complete(txn)
                if txn.type == "info":
                    processes[slot], self.next_process = self.next_process, self.next_process + 1
            if len(self.done) >= 2 * _BATCH:
                self._flush()
        for gadget in waiting:
            self._plant(gadget)
        self._flush()
        assert not self.done, "every transaction that began has ended"

    def _tick(self) -> int:
        self.at += 1
        return self.at - 1

    def _draw(self, active: list[int], next_key: int) -> tuple[list[tuple[str, int, int]], int]:
        steps = []
        for _ in range(self.rng.randint(1, LONGEST)):
            place = self.rng.randrange(len(active))
            key = active[place]
            if self.rng.random() < 0.5:
                steps.append(("r", key, 0))
                continue
            self.written[key] += 1
            steps.append(("w", key, self.written[key]))
            if self.written[key] == WRITES_PER_KEY:
                active[place] = next_key
                self.state[next_key], self.written[next_key] = [], 0
                next_key += 1
        return steps, next_key

    def _invoke(self, process: int, steps: list[tuple[str, int, int]]) -> _Txn:
        self.next_op += 1
        return _Txn(self.next_op - 1, process, self._tick(), steps)

    def _happen(self, txn: _Txn) -> None:
        chance = self.rng.random()
        txn.type = "fail" if chance < 0.02 else "info" if chance < 0.04 else "ok"
        if txn.type == "fail" or chance < 0.03:
            txn.did = [(kind, key, value) for kind, key, value in txn.steps if kind == "w"]
            return
        txn.did = []
        for kind, key, value in txn.steps:
            if kind == "w":
                self.state[key].append(value)
                txn.did.append((kind, key, value))
            elif txn.type == "ok":
                seen = self.state[key]
                lists = self.workload == Workload.APPEND
                txn.did.append((kind, key, list(seen) if lists else (seen[-1] if seen else None)))

    def _complete(self, txn: _Txn) -> None:
        txn.complete_at = self._tick()
        self.done[txn.op] = txn

    def _plant(self, gadget: Gadget) -> None:
        letters = sorted({key for txn in gadget.txns for _, key, _ in txn.steps})
        key_of = {letter: self.next_planted + number for number, letter in enumerate(letters)}
        self.next_planted += len(letters)
        base = self.next_process
        self.next_process += len(gadget.txns)
        running: dict[int, _Txn] = {}
        for number in gadget.events:
            planted = gadget.txns[number]
            if number in running:
                self._complete(running.pop(number))
                continue
            txn = running[number] = self._invoke(base + planted.process, [])
            txn.type = "fail" if planted.failed else "ok"
            txn.did = []
            for kind, letter, said in planted.steps:
                told: int | list[int] | None = said if isinstance(said, int) else list(said)
                if isinstance(told, list) and self.workload == Workload.REGISTER:
                    told = told[-1] if told else None
                txn.did.append((kind, key_of[letter], told))

    def _flush(self) -> None:
        """Transactions in the order of their numbers; a later one may be complete while an earlier one still runs."""
        txns: list[tuple[object, ...]] = []
        elements: list[tuple[object, ...]] = []
        while self.flushed in self.done:
            txn = self.done.pop(self.flushed)
            self.flushed += 1
            assert txn.did is not None
            assert txn.complete_at is not None
            txns.append((
                txn.op, txn.process, txn.type, txn.invoke_at * _STEP_NS, txn.complete_at * _STEP_NS, txn.invoke_at,
                txn.complete_at, None,
            ))  # fmt: skip
            for number, (kind, key, said) in enumerate(txn.did):
                name = "read" if kind == "r" else "write"
                if said is None or said == []:
                    elements.append((txn.op, number, None, name, key, None, txn.type, txn.complete_at))
                elif isinstance(said, list):
                    elements += [
                        (txn.op, number, pos, name, key, value, txn.type, txn.complete_at)
                        for pos, value in enumerate(said)
                    ]
                else:
                    pos = 0 if kind == "r" else None
                    elements.append((txn.op, number, pos, name, key, said, txn.type, txn.complete_at))
        for table, schema, rows in (("txns", TXNS, txns), ("elements", ELEMENTS, elements)):
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            plain = [
                pa.array(column, pa.string()).cast(each.type)
                if pa.types.is_dictionary(each.type)
                else pa.array(column, each.type)
                for column, each in zip(columns, schema, strict=True)
            ]
            self.writer.write(table, pa.Table.from_arrays(plain, schema=schema))
