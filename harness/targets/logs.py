"""The last words of a process that ended too early."""

from __future__ import annotations

from pathlib import Path

_LINES = 15
_BYTES = 64_000


def tail(folder: Path) -> str:
    """The ends of the process' output and of its server log, for an error message."""
    parts = []
    for name in ("stdout.log", "server.log"):
        path = folder / name
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _BYTES))
                text = file.read().decode(errors="replace")
            parts.append(f"--- {path}\n" + "\n".join(text.splitlines()[-_LINES:]))
    return "\n".join(parts) or f"(no output in {folder})"
