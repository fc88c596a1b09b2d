"""A worker: an operating-system process that runs logical clients and journals what they do.

``python -m harness.worker SPEC.json`` (:class:`harness.worker_spec.WorkerSpec`). Each logical client has a
thread; librdkafka works outside of Python's lock.

Protocol. Standard output carries JSON lines with running totals, every half second, and a last one with
``"done": true``. A line ``stop`` on standard input, its end, or SIGTERM: the clients finish what they are doing,
within the grace of the spec; what is open then is journalled as unknown, and the worker ends. SIGINT is ignored: a person's
Ctrl-C reaches the runner, and the runner decides. A thread that fails ends the worker; the last line says why, and
standard error has the traceback.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from harness.clients.base import Library, Patience
from harness.clients.registry import LIBRARIES, libraries_of
from harness.final import FinalScans
from harness.worker_spec import FINAL, WorkerSpec
from harness.workloads import log
from harness.workloads.base import Context, KeySpace, LogicalClient, Tally, TokenBucket
from histories.errors import HistoryError
from histories.journal import JournalWriter

REPORT_EVERY_S: Final = 0.5
CLOSING_S: Final = 4.0
"""Beyond the grace: closing client objects may wait for their connections."""

WORKLOADS: Final[dict[str, Callable[[Context], Sequence[LogicalClient]]]] = {"log": log.clients}


@dataclass
class Crashes:
    """Why threads ended with an exception: one line each. The tracebacks are in the worker's log."""

    patience: Patience
    texts: list[str] = field(default_factory=list)
    closed: bool = False
    """The journal is closed: a thread that is still busy and finds it so has not failed."""

    def hook(self, failure: threading.ExceptHookArgs) -> None:
        if self.closed:
            return
        if issubclass(failure.exc_type, HistoryError):  # the journal cannot be written; that is a message, not a bug
            self.texts.append(str(failure.exc_value))
        else:
            self.texts.append(traceback.format_exception_only(failure.exc_type, failure.exc_value)[-1].strip())
        traceback.print_exception(failure.exc_type, failure.exc_value, failure.exc_traceback)
        self.patience.stop()


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spec = WorkerSpec.read(Path(arguments[0]))
    patience = Patience(spec.grace_s)
    signal.signal(signal.SIGTERM, lambda *_: patience.stop())
    threading.Thread(target=_listen, args=(sys.stdin, patience), daemon=True).start()
    return run(spec, patience, sys.stdout)


def run(spec: WorkerSpec, patience: Patience, out: IO[str]) -> int:
    crashes = Crashes(patience)
    threading.excepthook = crashes.hook
    journal = JournalWriter(Path(spec.journal), spec.run_id, spec.worker, spec.started_ns)
    context = _context(spec, patience, journal)
    clients: Sequence[LogicalClient]
    if spec.mode == FINAL:
        clients = [FinalScans(context, spec.keys, spec.deadline_s)]
    else:
        clients = WORKLOADS[spec.plan.workload](context)
    threads = [threading.Thread(target=_drive, args=(each, patience), daemon=True) for each in clients]
    for thread in threads:
        thread.start()
    while not patience.stopped and any(thread.is_alive() for thread in threads):
        _report(out, clients, patience)
        patience.wait(REPORT_EVERY_S) if spec.mode != FINAL else threads[0].join(REPORT_EVERY_S)
    patience.stop()
    end = time.monotonic() + spec.grace_s + CLOSING_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    # A thread that is still busy finds the journal closed: its open operation is unknown when sealed.
    crashes.closed = True
    journal.close()
    _report(out, clients, patience, done=True, error=crashes.texts[0] if crashes.texts else None)
    return 1 if crashes.texts else 0


def _context(spec: WorkerSpec, patience: Patience, journal: JournalWriter) -> Context:
    plan = spec.plan
    names = ("librdkafka",) if spec.mode == FINAL else libraries_of(plan.clients)
    libraries: list[Library] = [LIBRARIES[name](spec.bootstrap) for name in names]
    return Context(
        run_id=spec.run_id,
        worker=spec.worker,
        plan=plan,
        journal=journal,
        keys=KeySpace(spec.keys, plan.topic.writes_per_key, plan.clients.workers),
        patience=patience,
        bucket=TokenBucket(plan.clients.rate / plan.clients.workers),
        libraries=libraries,
        started_ns=spec.started_ns,
    )


def _drive(client: LogicalClient, patience: Patience) -> None:
    try:
        while not patience.stopped and client.step():
            pass
    finally:
        client.close()


def _listen(lines: IO[str], patience: Patience) -> None:
    for line in lines:
        if line.strip() == "stop":
            break
    patience.stop()


def _report(out: IO[str], clients: Sequence[LogicalClient], patience: Patience, **more: Any) -> None:
    total = Tally()
    for client in clients:
        for name, count in asdict(client.tally).items():
            setattr(total, name, getattr(total, name) + count)
    try:
        print(json.dumps({**asdict(total), **more}), file=out, flush=True)
    except BrokenPipeError:
        patience.stop()  # nobody listens any more


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Not sys.exit: the interpreter would wait for clients that are still closing their connections.
    os._exit(code)
