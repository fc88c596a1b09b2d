"""Structured log lines: ``time=… level=… broker=… epoch=… logger=… msg="…"``, one event each (logfmt)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

_PACKAGE = "system_under_test."


class LogfmtFormatter(logging.Formatter):
    def __init__(self, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        super().__init__()
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = [
            f"time={at}",
            f"level={record.levelname.lower()}",
            f"broker={self._broker_id}",
            f"epoch={self._broker_epoch()}",
            f"logger={record.name.removeprefix(_PACKAGE)}",
            f"msg={_quoted(record.getMessage())}",
        ]
        if record.exc_info:
            parts.append(f"error={_quoted(self.formatException(record.exc_info))}")
        return " ".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def configure(stream: TextIO, broker_id: int, broker_epoch: Callable[[], int], level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogfmtFormatter(broker_id, broker_epoch))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
