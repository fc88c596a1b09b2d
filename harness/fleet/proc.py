"""What ``/proc`` says about a process, and how to name one so that a reused process id is noticed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from any later one with the same number by the time it started."""

    pid: int
    start_ticks: int
    """Since boot, in clock ticks."""


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may itself contain blanks and parentheses.
    return text.rpartition(")")[2].split()


def state(pid: int) -> str | None:
    """``R``, ``S``, ``D``, ``T`` (paused), ``Z`` (dead, not yet reaped); None: no such process."""
    fields = _stat(pid)
    return fields[0] if fields else None


def identify(pid: int) -> ProcessId | None:
    fields = _stat(pid)
    return ProcessId(pid, int(fields[19])) if fields else None


def is_running(process: ProcessId) -> bool:
    return identify(process.pid) == process and state(process.pid) != "Z"


def world() -> str:
    """Names the boot and the process-id namespace in which process ids mean something."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"
