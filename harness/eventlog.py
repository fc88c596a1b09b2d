"""The run's own journal: phases, faults and what the cluster did, in the kernel as soon as they are told.

Without it a harness that is killed would take with it which faults were in force, and its recording could
only be judged as one without faults. It is a journal like a worker's, of a worker that has no operations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.events import Event
from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.recorded import RecordedEvent, ReplicaLog

NAME: Final = "harness.journal"


class EventLog:
    """A handler of the event stream."""

    def __init__(self, folder: Path, run_id: str, worker: int, started_ns: int) -> None:
        self._journal = JournalWriter(folder / NAME, run_id, worker, started_ns)
        self.kept: list[RecordedEvent] = []
        """Events that could not be written. A full disk ends the run by its workers; until then, and while
        everything is undone, events still come, and sealing may find space again."""

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RecordedEvent):
            return
        try:
            self._journal.event(event)
        except HistoryError:
            self.kept.append(event)

    def replica(self, log: ReplicaLog) -> None:
        """What a broker had at the end; without it, replicas are not compared."""
        self._journal.replica(log)

    def close(self) -> None:
        self._journal.close()
