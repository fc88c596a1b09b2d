"""Reads a history file as chunks of whole lines, one operation on each, in bounded memory.

A file is either one operation per line, or one vector (EDN) or array (JSON) of operations; the second is
taken apart here into lines. ``.gz`` is read through. No line is held that is longer than ``MAX_LINE``.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from histories.errors import HistoryError

MAX_LINE: Final = 32 * 1024 * 1024
CHUNK: Final = 2 * 1024 * 1024
# Possessive: what is inside a string is never tried again, so even a huge one takes no memory.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|;[^\n]*|\\.|[{}()\[\]]|["\\]', re.DOTALL)


@dataclass(frozen=True)
class Chunk:
    text: bytes
    lines: tuple[int, ...] | None
    """The line of the file that each line of the text is from; None: they follow ``first_line``."""
    first_line: int

    def line(self, place: int) -> int:
        return self.first_line + place if self.lines is None else self.lines[place]


def is_json(path: Path) -> bool:
    """By extension; a file that has neither is told by its first letters."""
    names = [suffix for suffix in path.suffixes if suffix != ".gz"]
    if names and names[-1] in (".json", ".jsonl"):
        return True
    if names and names[-1] == ".edn":
        return False
    head = next(_blocks(path, 4096), b"").lstrip(b" \t\r\n[,")
    return head.startswith(b'{"')


def chunks(path: Path) -> Iterator[Chunk]:
    """All operations, in chunks of whole lines."""
    blocks = _blocks(path, CHUNK)
    first = next(blocks, b"")
    while first and not first.strip():
        following = next(blocks, b"")
        if not following:
            break
        first += following
    if not first.strip():
        raise HistoryError(f"{path}: empty; expected operations, one per line")
    if first.lstrip()[:1] == b"[":
        yield from _vector(path, first, blocks)
    else:
        yield from _lines(path, first, blocks)


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    line = 1
    try:
        with _opened(path) as file:
            while block := file.read(size):
                yield block
                line += block.count(b"\n")
    except FileNotFoundError:
        raise HistoryError(f"{path}: no such file; expected a history in EDN or JSON") from None
    except IsADirectoryError:
        raise HistoryError(f"{path}: a folder; expected a history in EDN or JSON") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise HistoryError(
            f"{path}:{line}: damaged or cut off gzip, in this line or later ({error}); expected a whole .gz file: "
            "copy it again"
        ) from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if path.suffix == ".gz" and not packed:
        raise gzip.BadGzipFile("not gzip at all")
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def _lines(path: Path, first: bytes, blocks: Iterator[bytes]) -> Iterator[Chunk]:
    line = 1
    waiting = [first]
    size = len(first)
    for block in blocks:
        cut = block.rfind(b"\n")
        if cut < 0:
            waiting.append(block)
            size += len(block)
            # What waits may hold whole lines too; only its tail grows without a newline.
            if size > MAX_LINE + CHUNK:
                raise too_long(path, line + sum(part.count(b"\n") for part in waiting))
            continue
        text = b"".join([*waiting, block[: cut + 1]])
        yield Chunk(text, None, line)
        line += text.count(b"\n")
        waiting, size = [block[cut + 1 :]], len(block) - cut - 1
    rest = b"".join(waiting)
    if rest.strip():
        yield Chunk(rest, None, line)


def too_long(path: Path, line: int) -> HistoryError:
    return HistoryError(
        f"{path}:{line}: longer than {MAX_LINE >> 20} MB without an end; expected one operation per line"
    )


def _vector(path: Path, first: bytes, blocks: Iterator[bytes]) -> Iterator[Chunk]:
    """Takes one long vector apart. What is not yet a whole operation is looked at again with twice as much
    read, so that even a huge operation is scanned only a few times."""
    lead = len(first) - len(first.lstrip()) + 1
    line = 1 + first[:lead].count(b"\n")
    data = first[lead:]
    while True:
        texts, numbers, used, closed = _operations(path, data, line)
        if texts:
            yield Chunk(b"\n".join(texts), tuple(numbers), numbers[0])
        following = len(data) - len(data[used:].lstrip(b" \t\r\n,"))
        line += data[:following].count(b"\n")
        data = data[following:]
        if closed:
            rest = data + next(blocks, b"")
            if rest.strip():
                raise HistoryError(f"{path}:{line}: more after the end of the vector; expected nothing")
            return
        wanted = max(CHUNK, len(data))
        more: list[bytes] = []
        while sum(map(len, more)) < wanted and (block := next(blocks, b"")):
            more.append(block)
        if not more:
            raise HistoryError(f"{path}:{line}: the vector is never closed; expected ] at the end: cut off?")
        data += b"".join(more)
        if len(data) > MAX_LINE + 2 * CHUNK and wanted > CHUNK:
            raise too_long(path, line)


def _operations(path: Path, data: bytes, line: int) -> tuple[list[bytes], list[int], int, bool]:
    """Whole operations at the start of ``data``, their lines, how much that took, and whether the vector
    ended there."""
    texts: list[bytes] = []
    numbers: list[int] = []
    depth = start = used = counted = 0
    for token in _TOKEN.finditer(data):
        letter = token[0]
        if letter in (b"{", b"[", b"("):
            if depth == 0:
                line += data.count(b"\n", counted, token.start())
                counted = start = token.start()
            depth += 1
        elif letter in (b"}", b"]", b")"):
            if depth == 0:
                if letter != b"]":
                    raise HistoryError(f"{path}:{line}: unexpected {letter.decode()}; expected ] or an operation")
                return texts, numbers, token.end(), True
            depth -= 1
            if depth == 0:
                texts.append(data[start : token.end()].replace(b"\n", b" "))
                numbers.append(line)
                used = token.end()
        elif letter in (b'"', b"\\"):
            break  # A string that is not whole yet.
    return texts, numbers, used, False
