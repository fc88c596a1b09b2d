"""How values of Jepsen, unique within a key, are made unique within the run; and back."""

from __future__ import annotations

from typing import Final

from histories.meta import Meta

VALUE_BITS: Final = 40
VALUE_LIMIT: Final = 1 << VALUE_BITS


def original_value(meta: Meta, key: int, value: int) -> int:
    """The value as the history had it that was imported; the value itself if none was."""
    return value - (key << VALUE_BITS) if meta.origin == "jepsen" else value


def original_key(meta: Meta, key: int) -> int:
    return meta.keys[key].partition if meta.origin == "jepsen" else key
