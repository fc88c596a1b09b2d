"""Which processes a harness has started, on disk, so that the next harness can end what a dead one left.

One file per harness. The kernel already kills the children of a dead harness (see
:mod:`harness.fleet.launcher`); this catches what slips through. A process is killed only when its start
time matches too: process ids are reused.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.fleet.base import FleetError
from harness.fleet.proc import ProcessId, identify, is_running, world


def default_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"tidemark-{os.getuid()}"


class Registry:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise FleetError(f"{folder} belongs to somebody else; remove it or set TMPDIR to a folder of your own")
        me = identify(os.getpid())
        if me is None:
            raise FleetError("/proc is not there: the loopback fleet needs Linux with /proc mounted")
        self._folder = folder
        self._harness = me
        # The object's own number: one harness may have several fleets.
        self._path = folder / f"fleet-{me.pid}-{me.start_ticks}-{id(self)}.json"
        self._processes: dict[str, ProcessId] = {}

    def add(self, node: str, process: ProcessId) -> None:
        self._processes[node] = process
        document = {
            "world": world(),
            "harness": asdict(self._harness),
            "processes": {name: asdict(each) for name, each in self._processes.items()},
        }
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(document))
        fresh.replace(self._path)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)

    def sweep(self) -> list[str]:
        """Kill what dead harnesses left; what was killed, one sentence each."""
        killed: list[str] = []
        for path in sorted(self._folder.glob("fleet-*.json")):
            document = _read(path)
            if document is None or document["world"] != world() or is_running(ProcessId(**document["harness"])):
                continue
            for node, each in sorted(document["processes"].items()):
                process = ProcessId(**each)
                if is_running(process) and _kill(process):
                    killed.append(f"{node} (process {process.pid}), left by a harness that is gone")
            path.unlink(missing_ok=True)
        return killed


def _read(path: Path) -> dict[str, Any] | None:
    """None: gone meanwhile, or not one of ours."""
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if isinstance(document, dict) and {"world", "harness", "processes"} <= document.keys():
        return document
    return None


def _kill(process: ProcessId) -> bool:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
