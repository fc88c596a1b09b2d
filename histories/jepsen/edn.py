"""A reader of EDN: all of it that can occur in a history, one value from one text.

Keywords and symbols become strings without their colon, vectors, lists and sets become lists, maps become
dictionaries (a map with a collection as a key cannot be one, and is refused), tags are dropped: a record
``#jepsen.history.Op{...}`` is read as its map.
"""

from __future__ import annotations

import re
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""[\s,]*(?:;[^\n]*[\s,]*)*(?:
      (?P<open>\#?[{(\[])
    | (?P<close>[])}])
    | (?P<string>"(?:[^"\\]++|\\.)*+")
    | (?P<char>\\(?:newline|space|tab|return|u[0-9a-fA-F]{4}|.))
    | (?P<discard>\#_)
    | (?P<tag>\#[^\s,"(){}\[\]]+)
    | (?P<atom>[^\s,"(){}\[\];]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "#{": "}", "#(": ")", "#[": "]"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?\d+N?")
_FLOAT: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_DEEPEST: Final = 200


class EdnError(ValueError):
    """Not EDN. The message says what is wrong, and at which character."""


def loads(text: str) -> Any:
    """The one value that the text holds."""
    value, end = _value(text, 0, 0)
    if text[end:].strip(" \t\r\n,") and not text[end:].lstrip(" \t\r\n,").startswith(";"):
        raise EdnError(f"more after the value, at character {end + 1}")
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise EdnError(f"nested deeper than {_DEEPEST}, at character {at + 1}")
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise EdnError(f"a value was expected at character {at + 1}")
        kind, word, at = str(token.lastgroup), token[str(token.lastgroup)], token.end()
        if kind == "discard":
            _, at = _value(text, at, depth + 1)
        elif kind != "tag":
            break
    if kind == "open":
        return _collection(text, word, at, depth)
    if kind == "close":
        raise EdnError(f"unexpected {word!r} at character {at}")
    if kind == "string":
        return _ESCAPE.sub(_unescape, word[1:-1]), at
    if kind == "char":
        return word[1:], at
    return _atom(word), at


def _collection(text: str, opening: str, at: int, depth: int) -> tuple[Any, int]:
    items: list[Any] = []
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise EdnError(f"{opening!r} is never closed")
        if token.lastgroup == "close":
            if token["close"] != _CLOSING[opening]:
                raise EdnError(f"{_CLOSING[opening]!r} was expected at character {token.end()}")
            at = token.end()
            break
        if token.lastgroup == "discard":
            _, at = _value(text, token.end(), depth + 1)
            continue
        item, at = _value(text, at, depth + 1)
        items.append(item)
    if opening != "{":
        return items, at
    if len(items) % 2:
        raise EdnError(f"a map with a key but no value, at character {at}")
    try:
        made = dict(zip(items[::2], items[1::2], strict=True))
    except TypeError:
        raise EdnError(f"a map with a collection as a key, at character {at}") from None
    if len(made) < len(items) // 2:
        raise EdnError(f"a map with the same key twice, at character {at}")
    return made, at


def _atom(word: str) -> Any:
    if word[0] == ":":
        return word[1:]
    if _INTEGER.fullmatch(word):
        return int(word.rstrip("N"))
    if _FLOAT.fullmatch(word):
        return float(word.rstrip("M"))
    return {"nil": None, "true": True, "false": False}.get(word, word)


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _ESCAPES.get(escaped, escaped)
