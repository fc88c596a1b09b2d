"""One run, on one screen: plan → up → load → faults → heal → recover → final scans → seal → check → report.

Whatever happens, what was recorded is sealed and nothing is left running: each stage undoes itself on the
way out. Ctrl-C ends the run early; it is then sealed as interrupted and not judged. A second one ends the
healing and waiting as well. While sealing, it takes two to give up, and then the journal is still there.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from harness.clients.registry import producer_settings
from harness.eventlog import EventLog
from harness.events import EventStream, Handler
from harness.fleet.choice import Choice, choose, make_fleet
from harness.interrupts import Interrupts
from harness.keys import Keys, topic_settings
from harness.plan import Plan
from harness.planfile import dump
from harness.planrules import no_hosts_of_their_own
from harness.pool import WorkerPool
from harness.recovery import await_healthy
from harness.replicas import replica_logs
from harness.seed import Seed
from harness.targets import Target, make_target
from harness.targets.watcher import ClusterWatcher
from histories.meta import Exercise, Meta
from histories.recorded import RecordedEvent
from histories.seal import seal
from histories.store import Run, RunStore
from nemesis.faults import by_reason, unavailable
from nemesis.nemesis import Nemesis
from nemesis.schedule import Settings, plan_schedule


@dataclass(frozen=True)
class Recorded:
    """A run that is sealed, ready to be judged."""

    run: Run
    interrupted: bool
    """Whether a person wants no more of it. The recording may be whole all the same: ``Meta.interrupted``."""


class SealError(Exception):
    """The journal could not become a history. It is still there; the message says what to do."""


def record(plan: Plan, store: RunStore, handlers: list[Handler], choice: Choice | None = None) -> Recorded:
    """Do everything up to the sealed history."""
    choice = choice or choose(plan.fleet.kind, no_hosts_of_their_own(plan))
    plan = plan if plan.seed else replace(plan, seed=Seed.drawn().value)
    with Interrupts() as interrupts:
        run = store.create(plan.name, plan.seed)
        started_ns = time.monotonic_ns()
        keys = Keys.of(plan, run.id)
        run.plan.write_text(dump(plan))
        _meta(plan, run, keys).write(run.meta)
        stream = EventStream(started_ns)
        events = EventLog(run.journal, run.id, plan.clients.workers + 1, started_ns)
        stream.subscribe(events)
        for handler in handlers:
            stream.subscribe(handler)
        pool = WorkerPool(plan, run, keys, started_ns, stream)
        whole = False
        try:
            with interrupts.allowed():
                _drive(plan, run, keys, pool, stream, events, choice)
            whole = True
        except KeyboardInterrupt:
            pass  # what was recorded until now is sealed as it is
        finally:
            _phase(stream, "seal")
            _seal(run, replace(Meta.read(run.meta), interrupted=not whole, retries=pool.retries), events)
        shutil.rmtree(run.folder / "data", ignore_errors=True)
        return Recorded(run, interrupts.seen)


def _seal(run: Run, meta: Meta, events: EventLog) -> None:
    events.close()
    try:
        meta.write(run.meta)
        seal(run.journal, run.history, meta, events=events.kept)
        run.drop_journal()
    except OSError as error:
        raise SealError(
            f"the recording in {run.folder} cannot be sealed: {error.strerror or error}. Its journal is whole: "
            f"make room, then seal and judge it with: tidemark check {run.folder}"
        ) from error
    finally:
        run.release()


def _drive(
    plan: Plan, run: Run, keys: Keys, pool: WorkerPool, stream: EventStream, events: EventLog, choice: Choice
) -> None:
    with ExitStack() as undo:
        stream.emit(RecordedEvent("fleet", detail=str(choice)))
        fleet = make_fleet(choice)
        undo.callback(fleet.close)
        target = make_target(plan.target, logs=run.logs, data=run.folder / "data", fleet=fleet)
        undo.callback(target.stop)
        _phase(stream, "up")
        fleet.open()
        target.start()
        for topic in keys.topics:
            target.create_topic(topic, plan.topic)
        replace(Meta.read(run.meta), versions={**target.versions(), "fleet": str(choice)}).write(run.meta)
        watcher = ClusterWatcher(target.view, stream.emit, keys.number)
        watcher.start()
        undo.callback(watcher.stop)
        undo.callback(pool.kill)
        nemesis = _nemesis(plan, target, keys, stream)
        undo.callback(lambda: run.schedule.write_text(json.dumps(nemesis.executed(), indent=1) + "\n"))
        undo.callback(nemesis.heal_all)
        _phase(stream, "load")
        pool.start(target.bootstrap, fleet)
        nemesis.start()
        pool.watch(plan.time_limit_s)
        _phase(stream, "heal")
        for failure in nemesis.heal_all():
            stream.emit(RecordedEvent("unhealed", detail=failure))
        pool.stop()
        _phase(stream, "recover")
        await_healthy(target.view, plan.recovery_s, stream.emit)
        _phase(stream, "final scans")
        pool.scan(target.bootstrap, plan.recovery_s, fleet)
        _phase(stream, "replicas")
        for log in replica_logs(target.log_dirs(), keys.numbered()):
            events.replica(log)


def _nemesis(plan: Plan, target: Target, keys: Keys, stream: EventStream) -> Nemesis:
    seed = Seed(plan.seed).fork("nemesis")
    lacking = unavailable(plan.faults.kinds, target)
    for sentence in by_reason(lacking):
        stream.emit(RecordedEvent("faults-unavailable", source="nemesis", detail=sentence))
    kinds = tuple(kind for kind in plan.faults.kinds if kind not in lacking)
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
