"""What happened, in order. Equal seeds give equal hashes; the last lines explain a failure."""

from __future__ import annotations

import hashlib
import marshal
from collections import deque
from collections.abc import Callable

Detail = str | int | float | bool | None | tuple["Detail", ...]
Line = tuple[float, str, str, tuple[Detail, ...]]

_CHUNK = 2048
_MARSHAL_VERSION = 2
"""The last one whose output depends on values only, not on which objects happen to be shared."""


class Trace:
    """Cheap to write: lines stay tuples until somebody prints them, and are hashed by the thousand."""

    def __init__(self, now: Callable[[], float], keep: int = 4000) -> None:
        self._now = now
        self._chunk: list[Line] = []
        self._kept: deque[Line] = deque(maxlen=keep)
        self._hash = hashlib.blake2b(digest_size=8)
        self.count = 0

    def add(self, node: str, event: str, *details: Detail) -> None:
        self._chunk.append((self._now(), node, event, details))
        if len(self._chunk) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self._hash.update(marshal.dumps(self._chunk, _MARSHAL_VERSION))
        self._kept.extend(self._chunk)
        self.count += len(self._chunk)
        self._chunk.clear()

    def digest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def last(self, count: int) -> list[str]:
        self._flush()
        lines = list(self._kept)[-count:] if count else []
        return [
            f"{when:10.4f} {node:<12} {event} {' '.join(map(str, details))}".rstrip()
            for when, node, event, details in lines
        ]
