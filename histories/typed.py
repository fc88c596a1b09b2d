"""From JSON to frozen dataclasses, every value held to its declared type.

A document that lost a field or has text where a number was must not be judged as if it said something else, so
nothing is converted and nothing unknown is let through. The message names the field by its path.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

_WORDS = {int: "a whole number", str: "text", bool: "true or false"}


def typed(kind: Any, value: Any, path: str) -> Any:
    """The value as ``kind`` declares it, or a ValueError that names the field."""
    if type(value) is kind:  # first, because most values are plain
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, value, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (each for each in arguments if each is not type(None))
        return typed(kind, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(path, "a list", value)
        return tuple(typed(arguments[0], each, f"{path}[{number}]") for number, each in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        return {name: typed(arguments[1], each, f"{path}.{name}") for name, each in value.items()}
    raise _wrong(path, _WORDS[kind], value)


def _record(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    hints, required = _shape(kind)
    prefix = f"{path}." if path else ""
    for name in value:
        if name not in hints:
            raise ValueError(f"unknown field {prefix + name!r}")
    for name in required:
        if name not in value:
            raise ValueError(f"the field {prefix + name!r} is missing")
    return kind(**{name: typed(hints[name], each, prefix + name) for name, each in value.items()})


@cache
def _shape(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Types of all fields, and which have no default; looked up once, because a history may have a million keys."""
    hints = get_type_hints(kind)
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    return hints, tuple(required)


def _wrong(path: str, wanted: str, value: Any) -> ValueError:
    shown = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return ValueError(f"{path}: expected {wanted}, not {shown[:100]}")
