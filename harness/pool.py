"""All workers of a run: the load, and afterwards the final scans."""

from __future__ import annotations

import functools
import time

from harness.clients.registry import retries_observable
from harness.events import EventStream, Progress
from harness.fleet.base import Fleet
from harness.keys import Keys
from harness.plan import Plan
from harness.worker_spec import FINAL, LOAD, WorkerSpec
from harness.workers import WorkerHandle, WorkerResult, stop_all, total
from harness.workloads.base import Key
from histories.store import Run

_LOOK_EVERY_S = 0.5
_SPARE_S = 30.0
"""What a scan may take beyond its own deadline before it counts as hung."""


class WorkerError(Exception):
    """A worker ended other than asked. The message carries its last words."""


class WorkerPool:
    def __init__(self, plan: Plan, run: Run, keys: Keys, started_ns: int, stream: EventStream) -> None:
        self._plan = plan
        self._run = run
        self._keys = tuple(Key(*each) for each in keys.numbered())
        self._started_ns = started_ns
        self._stream = stream
        self._workers: list[WorkerHandle] = []
        self._results: list[WorkerResult] = []

    @property
    def retries(self) -> int | None:
        """As the clients counted them; None where one of them does not tell."""
        if not retries_observable(self._plan.clients):
            return None
        return sum(result.tally.retries for result in self._results)

    def start(self, bootstrap: str, fleet: Fleet) -> None:
        for number in range(self._plan.clients.workers):
            self._launch(self._spec(number, bootstrap, LOAD), fleet)

    def _launch(self, spec: WorkerSpec, fleet: Fleet) -> WorkerHandle:
        """Each worker is a group of clients on a host of its own."""
        spawn = functools.partial(fleet.on_host, f"worker-{spec.worker}")
        worker = WorkerHandle(spec, self._run.logs, spawn=spawn)
        self._workers.append(worker)
        return worker

    def watch(self, limit_s: float) -> None:
        """Follow the load until its time is up. A worker that dies before is an error."""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < limit_s:
            tally = total([worker.tally for worker in self._workers])
            self._stream.emit(Progress(elapsed, limit_s, tally.acknowledged, tally.polled, tally.failed, tally.unknown))
            for worker in self._workers:
                if not worker.running:
                    worker.join(5.0)
                    raise WorkerError(worker.result().error or f"worker {worker.worker} stopped by itself")
            time.sleep(min(_LOOK_EVERY_S, max(0.0, limit_s - elapsed)))

    def stop(self) -> None:
        """End the load; what is open then becomes info."""
        results = stop_all(self._workers)
        self._results += results
        self._workers = []
        self._raise(results)

    def scan(self, bootstrap: str, deadline_s: float, fleet: Fleet) -> None:
        """Sentinels and final scans, by a worker of their own."""
        spec = self._spec(self._plan.clients.workers, bootstrap, FINAL, deadline_s)
        worker = self._launch(spec, fleet)
        if not worker.join(2 * deadline_s + _SPARE_S):
            raise WorkerError(f"the final scans are still running {_SPARE_S:.0f} s after their deadline")
        self._workers = []
        self._raise([worker.result()])

    def kill(self) -> None:
        """Nothing is left running. Idempotent."""
        for worker in self._workers:
            worker.kill()
            worker.join(5.0)
        self._results += [worker.result() for worker in self._workers]
        self._workers = []

    def _raise(self, results: list[WorkerResult]) -> None:
        failed = [result.error for result in results if result.error is not None]
        if failed:
            raise WorkerError(failed[0])

    def _spec(self, number: int, bootstrap: str, mode: str, deadline_s: float = 60.0) -> WorkerSpec:
        journal = self._run.journal / f"worker-{number}.journal"
        return WorkerSpec(
            run_id=self._run.id,
            worker=number,
            started_ns=self._started_ns,
            bootstrap=bootstrap,
            plan=self._plan,
            keys=self._keys,
            journal=str(journal),
            mode=mode,
            deadline_s=deadline_s,
        )
