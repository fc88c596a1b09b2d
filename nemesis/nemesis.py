"""Carries a schedule out: select, inject, prove, hold, heal; and heals whatever happens.

One thread fires the faults in order, one thread per fault in force sees it through. Healing takes time that no
schedule knows; when it takes more than the quiet time, the next fault strikes as soon as there is a place
(also while the healed broker still catches up), and all later ones are delayed by as much.

Events, each with ``fault_id``, ``fault`` and ``node``: fault-planned (the target is chosen), fault-injected
(just before the deed), fault-evidence or fault-not-landed, fault-healed or fault-not-healed.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from harness.fleet.base import FleetError, Link
from histories.recorded import RecordedEvent
from nemesis.control import ControlError, NodeControl
from nemesis.fault import Aim, Fault
from nemesis.faults import FAULTS
from nemesis.schedule import PlannedFault, replay_schedule
from nemesis.selectors import Key, Selection, select
from nemesis.shapes import told
from nemesis.view import ClusterView

_POLL_S = 0.05
_LOOK_S = 0.25
_HEAL_ATTEMPTS = 3
_JOIN_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Patience:
    """How long the nemesis waits for what should come at once."""

    selection_s: float = 5.0
    evidence_s: float = 5.0
    settle_s: float = 15.0
    """For the cluster to be whole again after the last fault. A fault that strikes while nothing can be
    written anyway puts nothing to the test; one that strikes a cluster which never heals is due all the same."""
    calm_s: float = 1.5
    """From then on, so that load flows before the next fault."""


@dataclass(frozen=True)
class Execution:
    """What became of one planned fault; ``schedule.json`` is a list of these."""

    fault_id: int
    kind: str
    role: str
    node: str | None
    planned_at_s: float
    at_s: float
    """When it was injected, since the start of the nemesis."""
    hold_s: float
    """From injection to the beginning of healing."""
    landed: bool
    evidence: str | None
    links: tuple[Link, ...] = ()
    """On which packets were dropped, as source and destination."""


class Nemesis:
    def __init__(
        self,
        control: NodeControl,
        view: ClusterView,
        schedule: Sequence[PlannedFault],
        keys: Callable[[], list[Key]],
        emit: Callable[[RecordedEvent], None],
        *,
        seed: int = 0,
        at_once: int = 1,
        clock: Callable[[], float] = time.monotonic,
        patience: Patience = Patience(),
    ) -> None:
        self._control = control
        self._view = view
        self._schedule = list(schedule)
        self._keys = keys
        self._emit = emit
        self._seed = seed
        self._at_once = at_once
        self._clock = clock
        self._patience = patience
        self._started_s = 0.0
        self._changed = threading.Condition()
        # All below are guarded by _changed.
        self._stopped = False
        self._in_force: dict[int, tuple[Fault, Aim]] = {}
        self._running: dict[int, threading.Thread] = {}
        self._executed: dict[int, Execution] = {}
        self._dispatcher: threading.Thread | None = None

    @classmethod
    def replay(
        cls,
        executed: Iterable[Mapping[str, Any]],
        control: NodeControl,
        view: ClusterView,
        keys: Callable[[], list[Key]],
        emit: Callable[[RecordedEvent], None],
        **options: Any,
    ) -> Self:
        """One that does again what ``executed`` of another has recorded."""
        return cls(control, view, replay_schedule(executed), keys, emit, **options)

    def start(self) -> None:
        with self._changed:
            if self._dispatcher is not None:
                raise RuntimeError("a nemesis runs once")
            self._started_s = self._clock()
            self._dispatcher = threading.Thread(target=self._dispatch, name="nemesis", daemon=True)
            self._dispatcher.start()

    def stop(self) -> None:
        """Fire nothing more; what is in force heals now. Returns at once."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def heal_all(self) -> list[str]:
        """Stop, and undo everything. What could not be undone, one sentence each. Idempotent."""
        self.stop()
        with self._changed:
            threads = [*self._running.values(), *([self._dispatcher] if self._dispatcher else [])]
        for thread in threads:
            thread.join(_JOIN_TIMEOUT_S)
        with self._changed:
            left = dict(self._in_force)
        failures = [self._heal(fault_id, fault, aim) for fault_id, (fault, aim) in left.items()]
        return [failure for failure in failures if failure is not None]

    def is_running(self) -> bool:
        """Whether faults are still to come or in force."""
        dispatcher = self._dispatcher
        with self._changed:
            return (dispatcher is not None and dispatcher.is_alive()) or bool(self._running)

    def executed(self) -> list[dict[str, Any]]:
        """What was really done, in order, JSON-ready."""
        with self._changed:
            done = sorted(self._executed.values(), key=lambda each: (each.at_s, each.fault_id))
        return [asdict(each) for each in done]

    def _dispatch(self) -> None:
        slip_s = 0.0
        for planned in self._schedule:
            due_s = planned.at_s + slip_s
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, timeout=max(0.0, due_s - self._elapsed_s()))
                # A fault that could not be healed is in force without a thread, and keeps its place.
                self._changed.wait_for(lambda: self._stopped or self._occupied() < self._at_once)
            self._let_settle()
            with self._changed:
                if self._stopped:
                    return
                slip_s += max(0.0, self._elapsed_s() - due_s)
                thread = threading.Thread(
                    target=self._see_through, args=(planned,), name=f"fault-{planned.fault_id}", daemon=True
                )
                self._running[planned.fault_id] = thread
                thread.start()

    def _let_settle(self) -> None:
        deadline_s = self._clock() + self._patience.settle_s
        waited = False
        while not self._occupied() and self._clock() < deadline_s and self._view.unhealthy():
            waited = True
            with self._changed:
                if self._changed.wait_for(lambda: self._stopped, timeout=_LOOK_S):
                    return
        if waited:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, timeout=self._patience.calm_s)

    def _occupied(self) -> int:
        return len(self._running.keys() | self._in_force.keys())

    def _elapsed_s(self) -> float:
        return self._clock() - self._started_s

    def _see_through(self, planned: PlannedFault) -> None:
        try:
            self._execute(planned)
        finally:
            with self._changed:
                del self._running[planned.fault_id]
                self._changed.notify_all()

    def _execute(self, planned: PlannedFault) -> None:
        fault = FAULTS[planned.kind]
        unavailable = fault.unavailable(self._control)
        found = unavailable if unavailable is not None else self._select(planned, fault)
        if isinstance(found, str):
            self._report("fault-planned", planned, None, f"{planned.kind} {planned.role}")
            self._report("fault-not-landed", planned, None, f"{planned.kind} {planned.role}: {found}")
            self._record(planned, None, self._elapsed_s(), 0.0, None)
            return
        selection, aim = found
        what = f"{planned.kind} {aim.node} ({selection.reason})"
        self._report("fault-planned", planned, selection, f"{what}: {told(aim.links)}" if aim.links else what)
        at_s = self._elapsed_s()
        try:
            self._report("fault-injected", planned, selection, what)
            proof, reason = self._inject(fault, aim)
            if proof is not None:
                self._report("fault-evidence", planned, selection, f"{what}: {proof}")
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped, timeout=planned.hold_s)
            else:
                self._report("fault-not-landed", planned, selection, f"{what}: {reason}")
            self._record(planned, aim, at_s, self._elapsed_s() - at_s, proof)
        finally:
            self._heal_persistently(planned.fault_id, fault, aim)

    def _select(self, planned: PlannedFault, fault: Fault) -> tuple[Selection, Aim] | str:
        """The node, already marked as in force, so that no other fault chooses it too."""
        rng = random.Random(f"{self._seed}/{planned.fault_id}")
        deadline_s = self._clock() + self._patience.selection_s
        while True:
            with self._changed:
                busy = self._busy()
            # Asked without the lock: an answer may take its time, and stop() must not.
            found = select(planned.role, self._view, self._control.nodes, self._keys(), rng, busy)
            aim = self._aim(planned, fault, found.node) if isinstance(found, Selection) else None
            with self._changed:
                if self._stopped:
                    return "the nemesis was stopped"
                if isinstance(found, Selection) and aim is not None:
                    if found.node not in self._busy():
                        self._in_force[planned.fault_id] = (fault, aim)
                        return found, aim
                elif self._clock() >= deadline_s:
                    return str(found)
                self._changed.wait(_POLL_S)

    def _aim(self, planned: PlannedFault, fault: Fault, node: str) -> Aim:
        links = planned.links
        if links is None:
            rng = random.Random(f"{self._seed}/{planned.fault_id}/links")
            links = tuple(sorted(fault.draw(self._control, node, rng)))
        return Aim(f"fault-{planned.fault_id}", node, self._control.pid(node), links)

    def _busy(self) -> set[str]:
        return {aim.node for _, aim in self._in_force.values()}

    def _inject(self, fault: Fault, aim: Aim) -> tuple[str | None, str]:
        """The proof, or None and why there is none."""
        if aim.pid is None:
            return None, "there was no process to hit"
        try:
            fault.inject(self._control, aim)
        except (ControlError, FleetError) as error:
            return None, str(error)
        deadline_s = self._clock() + self._patience.evidence_s
        while True:
            reason = "no evidence that anything changed"
            try:
                proof = fault.evidence(self._control, aim)
            except (ControlError, FleetError) as error:
                proof, reason = None, f"no evidence: {error}"
            if proof is not None:
                return proof, ""
            # Not cut short by stop(): what has been done must be told as it was.
            if self._clock() >= deadline_s:
                return None, reason
            with self._changed:
                self._changed.wait(_POLL_S)

    def _heal_persistently(self, fault_id: int, fault: Fault, aim: Aim) -> None:
        for _ in range(_HEAL_ATTEMPTS):
            if self._heal(fault_id, fault, aim) is None:
                return

    def _heal(self, fault_id: int, fault: Fault, aim: Aim) -> str | None:
        """Why it could not be healed; None: it is."""
        common = {"fault_id": fault_id, "fault": str(fault.kind), "node": aim.node, "source": "nemesis"}
        try:
            detail = fault.heal(self._control, aim)
        except (ControlError, FleetError) as error:
            self._emit(RecordedEvent("fault-not-healed", detail=str(error), **common))  # type: ignore[arg-type]
            return f"{aim.node} could not be healed of {fault.kind}: {error}"
        with self._changed:
            self._in_force.pop(fault_id, None)
            self._changed.notify_all()
        self._emit(RecordedEvent("fault-healed", detail=detail, **common))  # type: ignore[arg-type]
        return None

    def _report(self, kind: str, planned: PlannedFault, selection: Selection | None, detail: str) -> None:
        self._emit(
            RecordedEvent(
                kind,
                fault_id=planned.fault_id,
                fault=str(planned.kind),
                node=selection.node if selection else None,
                key=selection.key if selection else None,
                source="nemesis",
                detail=detail,
            )
        )

    def _record(
        self,
        planned: PlannedFault,
        aim: Aim | None,
        at_s: float,
        hold_s: float,
        proof: str | None,
    ) -> None:
        execution = Execution(
            fault_id=planned.fault_id,
            kind=str(planned.kind),
            role=planned.role,
            node=aim.node if aim else None,
            planned_at_s=planned.at_s,
            at_s=round(at_s, 3),
            hold_s=round(hold_s, 3),
            landed=proof is not None,
            evidence=proof,
            links=aim.links if aim else (),
        )
        with self._changed:
            self._executed[planned.fault_id] = execution
