"""One run, on one screen: plan → up → load → faults → heal → recover → final scans → seal → check → report.

Whatever happens, what was recorded is sealed and nothing is left running: each stage undoes itself on the
way out. Ctrl-C ends the load early; the run is then sealed as interrupted and not judged. A second one ends
the waiting for clients as well.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from harness.clients.registry import producer_settings
from harness.events import EventStream, Handler
from harness.fleet.loopback import LoopbackFleet
from harness.keys import Keys, topic_settings
from harness.plan import Plan
from harness.planfile import dump
from harness.pool import WorkerPool
from harness.recovery import await_healthy
from harness.seed import Seed
from harness.targets import Target, make_target
from harness.targets.watcher import ClusterWatcher
from histories.meta import Exercise, Meta
from histories.recorded import RecordedEvent
from histories.seal import seal
from histories.store import Run, RunStore
from nemesis.nemesis import Nemesis
from nemesis.schedule import Settings, plan_schedule


@dataclass(frozen=True)
class Recorded:
    """A run that is sealed, ready to be judged."""

    run: Run
    interrupted: bool


def record(plan: Plan, store: RunStore, handlers: list[Handler]) -> Recorded:
    """Do everything up to the sealed history."""
    plan = plan if plan.seed else replace(plan, seed=Seed.drawn().value)
    run = store.create(plan.name, plan.seed)
    run.claim()
    started_ns = time.monotonic_ns()
    stream = EventStream(started_ns)
    events: list[RecordedEvent] = []
    stream.subscribe(lambda event: events.append(event) if isinstance(event, RecordedEvent) else None)
    for handler in handlers:
        stream.subscribe(handler)
    keys = Keys.of(plan, run.id)
    meta = _meta(plan, run, keys)
    for folder in (run.journal, run.logs):
        folder.mkdir(exist_ok=True)
    run.plan.write_text(dump(plan))
    meta.write(run.meta)
    interrupted = False
    pool = WorkerPool(plan, run, keys, started_ns, stream)
    try:
        meta = _drive(plan, run, keys, meta, pool, stream)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        meta = replace(meta, interrupted=interrupted, retries=pool.retries)
        meta.write(run.meta)
        _phase(stream, "seal")
        seal(run.journal, run.history, meta, events=events)
        run.drop_journal()
        run.release()
    shutil.rmtree(run.folder / "data", ignore_errors=True)
    return Recorded(run, interrupted)


def _drive(plan: Plan, run: Run, keys: Keys, meta: Meta, pool: WorkerPool, stream: EventStream) -> Meta:
    with ExitStack() as undo:
        fleet = undo.enter_context(LoopbackFleet())
        target = make_target(plan.target, logs=run.logs, data=run.folder / "data", fleet=fleet)
        undo.callback(target.stop)
        _phase(stream, "up")
        target.start()
        for topic in keys.topics:
            target.create_topic(topic, plan.topic)
        meta = replace(meta, versions=target.versions())
        meta.write(run.meta)
        watcher = ClusterWatcher(target.view, stream.emit, keys.number)
        watcher.start()
        undo.callback(watcher.stop)
        undo.callback(pool.kill)
        nemesis = _nemesis(plan, target, keys, stream)
        undo.callback(lambda: run.schedule.write_text(json.dumps(nemesis.executed(), indent=1) + "\n"))
        undo.callback(nemesis.heal_all)
        _phase(stream, "load")
        pool.start(target.bootstrap)
        nemesis.start()
        pool.watch(plan.time_limit_s)
        _phase(stream, "heal")
        for failure in nemesis.heal_all():
            stream.emit(RecordedEvent("unhealed", detail=failure))
        pool.stop()
        _phase(stream, "recover")
        await_healthy(target.view, plan.recovery_s, stream.emit)
        _phase(stream, "final scans")
        pool.scan(target.bootstrap, plan.recovery_s)
    return meta


def _nemesis(plan: Plan, target: Target, keys: Keys, stream: EventStream) -> Nemesis:
    seed = Seed(plan.seed).fork("nemesis")
    kinds = plan.faults.kinds if target.supports_faults else ()
    settings = Settings(kinds, plan.faults.roles, plan.faults.interval_s, plan.faults.hold_s, plan.faults.at_once)
    schedule = plan_schedule(settings, seed.random(), plan.time_limit_s)
    places = [(topic, partition, key) for key, topic, partition in keys.numbered()]
    return Nemesis(
        target, target.view, schedule, lambda: places, stream.emit, seed=seed.value, at_once=plan.faults.at_once
    )


def _meta(plan: Plan, run: Run, keys: Keys) -> Meta:
    managed = plan.target.kind != "existing"
    return Meta(
        run_id=run.id,
        origin="run",
        keys=keys.keys,
        topics=topic_settings(plan, keys),
        producers=producer_settings(plan.clients),
        seed=plan.seed,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        exercise=Exercise(bool(plan.faults.kinds) and managed, plan.exercise.min_acknowledged, plan.exercise.subject),
        expect=plan.exercise.expect,
    )


def _phase(stream: EventStream, name: str) -> None:
    stream.emit(RecordedEvent("phase", detail=name))
