"""``synthesize``: a whole history, stretch by stretch, so that memory does not grow with its length."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings
from histories.schema import EVENTS
from histories.synth.final import FinalPhase, Spill
from histories.synth.inject import checked, too_many
from histories.synth.log import Partitions, Positions, consumers_for
from histories.synth.misread import MISREADS, Misreader, misplace
from histories.synth.plant import Planter
from histories.synth.stretch import Run, Stretch, begin, finish
from histories.synth.timeline import PRODUCERS, Clients
from histories.writer import HistoryWriter

STRETCH_OPS: Final = 160_000
_TOPICS: Final = ("orders", "payments")


def synthesize(
    out: Path,
    ops: int,
    keys: int = 10,
    rotate: int = 0,
    inject: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Meta:
    """Writes a sealed history of ``ops`` operations to ``out``. With ``rotate`` a key is given up for a new
    one after about that many writes; ``keys`` is how many are in use at a time."""
    if keys < 1 or rotate < 0:
        raise ValueError("keys must be at least 1, and rotate at least 0")
    least = smallest(keys)
    if ops < least:
        raise ValueError(f"{ops} operations are too few for {keys} keys: at least {least} are needed")
    wanted = checked(inject, ops)
    consumers = consumers_for(keys)
    run = Run(
        rng=np.random.default_rng(seed),
        clients=Clients(consumers),
        partitions=Partitions(keys, rotate, unread="unseen" in wanted),
        positions=Positions(np.full((consumers, keys + 1), -1, np.int64)),
    )
    with HistoryWriter(out) as writer, tempfile.TemporaryDirectory(dir=out, prefix="log-") as folder:
        spill = Spill(Path(folder))
        left = dict(wanted)
        last = False
        while not last:
            rounds, last = _rounds(ops, run, spill)
            stretch = begin(run, rounds)
            _inject(run, stretch, wanted, left, 1.0 if last else rounds * 2 * PRODUCERS / (ops - run.next_op))
            tables = finish(run, stretch)
            writer.write("ops", tables.ops)
            writer.write("mops", tables.mops)
            spill.add(tables.log)
        if any(left.values()):
            total = sum(wanted.values())
            raise too_many(total, ops, total - sum(left.values()))
        writer.write("events", _events(run))
        final = FinalPhase(
            writer.write,
            spill,
            run.partitions.keys,
            run.partitions.unread_key,
            run.now,
            run.next_op,
            run.clients.next_process,
            run.next_value,
        )
        final.run(ops)
        spill.parts.clear()
        return writer.close(_meta(run, seed))


def smallest(keys: int) -> int:
    """How many operations a history of so many keys has at least."""
    return 8 * keys + 100


def _rounds(ops: int, run: Run, spill: Spill) -> tuple[int, bool]:
    """How many rounds of the producers the next stretch has, and whether it is the last."""
    full = STRETCH_OPS // (2 * PRODUCERS)
    left = ops - run.next_op - spill.operations(run.partitions.keys)
    # What a stretch costs besides its own sends and polls: assignments, one more poll of each consumer,
    # and the final phase of what it writes (for each new key, two partial polls more and its sentinel).
    positions = run.partitions.slots * 2 if run.next_op == 0 else 0
    per_round = 2 * PRODUCERS * 1.03
    if run.partitions.rotate:
        per_round += PRODUCERS * 1.5 * 14 / run.partitions.rotate
    spare = positions + 3 * run.clients.consumers + 2 * run.partitions.slots + 8
    rounds = max(1, int((left - spare) / per_round))
    if rounds <= full:
        return rounds, True
    return (full if rounds > 2 * full else rounds // 2), False


def _inject(run: Run, stretch: Stretch, wanted: dict[str, int], left: dict[str, int], share: float) -> None:
    """Settles the stretch with its share of what is left to inject; counts down ``left``."""
    if not wanted:
        stretch.settle(run)
        return
    quota = {name: count if share >= 1 else int(run.rng.binomial(count, share)) for name, count in left.items()}
    planter = Planter(run, stretch)
    if wanted.keys() & {"early-read", "torn-transaction"}:
        planter.healthy_transactions()
    for name, count in quota.items():
        if name not in MISREADS:
            left[name] -= planter.plant(name, count)
    planter.finish()
    stretch.settle(run)
    misplace(stretch, planter)
    misreader = Misreader(stretch, planter.sites.touched, run.rng)
    for name in MISREADS:
        if quota.get(name):
            left[name] -= misreader.plant(name, quota[name])
    misreader.finish()


def _events(run: Run) -> pa.Table:
    """Three faults that did no harm, each with the leader change that it caused."""
    events = [{"time_ns": 0, "kind": "phase", "detail": "main"}]
    names = ("kill", "pause", "restart")
    for number, fault in enumerate(names):
        start = run.now * (2 * number + 1) // 8
        length = run.now // 16
        node = f"broker-{number + 1}"
        of_fault = {"fault_id": number, "fault": fault, "node": node}
        leader = (number + 1) % 3 + 1
        key = number % run.partitions.slots
        events += [
            {"time_ns": start - length // 8, "kind": "fault-planned", **of_fault},
            {"time_ns": start, "kind": "fault-injected", **of_fault},
            {"time_ns": start + length // 8, "kind": "fault-evidence", **of_fault, "detail": "no answer"},
            {
                "time_ns": start + length // 4,
                "kind": "leader",
                "key": key,
                "leader": leader,
                "leader_epoch": number + 1,
                "controller_epoch": 1,
                "isr": [each for each in (1, 2, 3) if each != number + 1],
                "source": "zookeeper",
            },
            {"time_ns": start + length, "kind": "fault-healed", **of_fault},
        ]
    events.append({"time_ns": run.now, "kind": "phase", "detail": "final"})
    return pa.Table.from_pylist(events, schema=EVENTS)


def _meta(run: Run, seed: int) -> Meta:
    keys = tuple(KeyInfo(_TOPICS[key % 2], key // 2) for key in range(run.partitions.keys))
    return Meta(
        run_id=f"synthetic-{seed}",
        origin="synthetic",
        keys=keys,
        topics={
            name: TopicSettings(
                partitions=sum(key.topic == name for key in keys), replication_factor=3, min_insync_replicas=2
            )
            for name in _TOPICS
        },
        producers=(ProducerSettings(acks=-1, idempotent=True, retries=2_147_483_647, max_in_flight=5),),
        seed=seed,
        retries=0,
    )
