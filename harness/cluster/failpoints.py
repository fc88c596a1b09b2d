"""Arms and releases the failpoints of a shipped broker, by JSON lines on its control socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from harness.targets.base import TargetError

TIMEOUT_S = 10.0


class FailpointControl:
    """``path`` is the broker's ``control.sock``. Each order has a connection of its own: the broker may die any time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, point: str, action: str, count: int | None = None, **match: str | int) -> int:
        """Arm a point; its number."""
        answer = self._ask({"do": "set", "point": point, "action": action, "match": match, "count": count})
        return int(answer["id"])

    def release(self, number: int | None = None) -> int:
        """Disarm one point or all, and let go what they hold; how many there were."""
        return int(self._ask({"do": "release", "id": number})["released"])

    def hits(self, number: int) -> int:
        """How often an armed point has acted."""
        armed = {each["id"]: each["hits"] for each in self._ask({"do": "hits"})["armed"]}
        return int(armed.get(number, 0))

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(TIMEOUT_S)
                connection.connect(str(self._path))
                connection.sendall(json.dumps(order).encode() + b"\n")
                line = connection.makefile("rb").readline()
        except OSError as error:
            raise TargetError(f"{self._path}: the broker does not answer: {error}") from None
        if not line:
            raise TargetError(f"{self._path}: the broker closed its control socket")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise TargetError(f"{self._path}: {answer['error']}")
        return answer
