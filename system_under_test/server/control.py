"""The control socket of a broker: JSON lines on ``<data folder>/control.sock``, to arm and release failpoints.

    {"do": "set", "point": "produce.before_ack", "action": "hold", "match": {"topic": "t"}, "count": 1}
    {"do": "release", "id": 3}        without an id: everything
    {"do": "list"}                    every point there is, with its meaning
    {"do": "hits"}                    what is armed, and how often each acted

Each line is answered by one line: ``{"ok": true, …}`` or ``{"ok": false, "error": "…"}``. Only the user who runs the
broker can connect: the file's mode says so.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from system_under_test.failpoints import POINTS, Action, Failpoints

_LONGEST_LINE = 64 * 1024


class ControlSocket:
    def __init__(self, path: Path, failpoints: Failpoints) -> None:
        self._path = path
        self._failpoints = failpoints
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=_LONGEST_LINE)
        finally:
            os.umask(before)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):  # ValueError: a line longer than the limit
            pass
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            return {"ok": True, **self._do(json.loads(line))}
        except (ValueError, TypeError, KeyError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    def _do(self, order: Any) -> dict[str, Any]:
        if not isinstance(order, dict):
            raise TypeError("expected a JSON object")
        match order.get("do"):
            case "set":
                number = self._failpoints.arm(
                    order["point"],
                    Action(order["action"]),
                    order.get("match") or {},
                    order.get("count"),
                    int(order.get("delay_ms", 0)),
                )
                return {"id": number}
            case "release":
                return {"released": self._failpoints.release(order.get("id"))}
            case "list":
                return {"points": POINTS}
            case "hits":
                return {
                    "armed": [
                        {"id": each.id, "point": each.point, "action": each.action.value, "hits": each.hits}
                        for each in self._failpoints.armed()
                    ]
                }
            case other:
                raise ValueError(f"cannot do {other!r}; there are set, release, list, hits")
