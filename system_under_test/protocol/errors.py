"""Kafka's error codes, and the one exception that carries one."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

__all__ = ["ApiError", "ErrorCode", "MalformedRequest"]


class ApiError(Exception):
    """A refusal with Kafka's code for it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message


class MalformedRequest(Exception):
    """Bytes that are no request: the connection that sent them is closed."""
