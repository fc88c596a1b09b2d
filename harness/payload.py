"""A record's payload: it names the send that made it, and proves that it is whole.

    magic | run (8) | process (4) | key (4) | value (8) | padding | crc32 of everything before it (4)

With it a polled record is recognised as ours, or as damaged, as another run's, or as one that belongs
under another key. Everything but the value is the same for all sends of one process to one key, so its
bytes and its checksum are computed once (:class:`Encoder`); a send costs two packs and one short crc32.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from struct import Struct
from typing import Final
from zlib import crc32

from histories.schema import Defect

MAGIC: Final = b"TIDE"
SMALLEST: Final = 40

_PREFIX: Final = Struct(">4s8sii")
_VALUE_BYTES: Final = 8
_CHECKSUM: Final = Struct(">I")
_WHOLE: Final = Struct(">4s8siiq")


def run_hash(run_id: str) -> bytes:
    """Eight bytes that stand for a run in its payloads."""
    return hashlib.blake2b(run_id.encode(), digest_size=8).digest()


def encoder(run_id: str, process: int, key: int, size: int = SMALLEST) -> Callable[[int], bytes]:
    """A function from a value to the payload of its record, for the sends of one process to one key."""
    if size < SMALLEST:
        raise ValueError(f"a payload of {size} bytes; the smallest is {SMALLEST}")
    prefix = _PREFIX.pack(MAGIC, run_hash(run_id), process, key)
    seed = crc32(prefix)
    pack_body = Struct(f">q{size - len(prefix) - _VALUE_BYTES - _CHECKSUM.size}x").pack
    pack_checksum = _CHECKSUM.pack

    def encode(value: int) -> bytes:
        body = pack_body(value)
        return prefix + body + pack_checksum(crc32(body, seed))

    return encode


class Decoder:
    """Reads payloads as the records of one run."""

    def __init__(self, run_id: str) -> None:
        self._run = run_hash(run_id)

    def decode(self, payload: bytes | None, key: int) -> tuple[int | None, Defect | None]:
        """The value of a record polled under ``key``, and what is wrong with it. A damaged payload has
        no value: any of its bytes may be the wrong one."""
        if payload is None or len(payload) < SMALLEST:
            return None, Defect.CHECKSUM
        magic, run, _, own_key, value = _WHOLE.unpack_from(payload)
        (checksum,) = _CHECKSUM.unpack_from(payload, len(payload) - 4)
        if magic != MAGIC or crc32(memoryview(payload)[:-4]) != checksum:
            return None, Defect.CHECKSUM
        if run != self._run:
            # Values are unique within a run only: another run's would be mistaken for one of ours.
            return None, Defect.FOREIGN_RUN
        if own_key != key:
            return value, Defect.MISROUTED
        return value, None
