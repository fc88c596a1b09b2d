"""A record's payload: it names the send that made it, and proves that it is whole.

    magic | run (8) | process (4) | key (4) | value (8) | padding | crc32 of everything before it (4)

With it a polled record is recognised as ours, or as damaged, as another run's, or as one that belongs
under another key. Everything but the value is the same for all sends of one process to one key, so its
bytes and its checksum are computed once (:func:`encoder`); a send costs two packs and one short crc32.

A large burst is made at once (:class:`BurstEncoder`). crc32 is linear: the checksum of a payload is the one of the
same payload with the value 0, xor what each byte of the value contributes at its place, which is a table.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from histories.schema import Defect

MAGIC: Final = b"TIDE"
SMALLEST: Final = 40

_PREFIX: Final = Struct(">4s8sii")
_VALUE_BYTES: Final = 8
_CHECKSUM: Final = Struct(">I")
_WHOLE: Final = Struct(">4s8siiq")
_FEW: Final = 48
"""So many payloads take as long one by one as at once."""


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


class BurstEncoder:
    """The payloads of one process, to any keys, a burst at a time."""

    def __init__(self, run_id: str, process: int, size: int = SMALLEST) -> None:
        self._run_id, self._process, self._size = run_id, process, size
        self._single: dict[int, Callable[[int], bytes]] = {}
        self._keys = np.empty(0, np.int32)
        """Sorted; of each the payload with the value 0, and its checksum."""
        self._rows = np.empty((0, size), np.uint8)
        self._checksums = np.empty(0, np.uint32)
        self._contributions = _contributions(size)

    def encode(self, keys: array[int], values: array[int]) -> list[bytes]:
        single = self._single
        new = set(keys).difference(single)
        if new:
            self._add(new)
        if len(values) < _FEW:
            return [single[key](value) for key, value in zip(keys, values, strict=True)]
        place = self._keys.searchsorted(np.frombuffer(keys, np.int32))
        letters = np.frombuffer(values, np.int64).astype(">i8").view(np.uint8).reshape(-1, _VALUE_BYTES)
        checksums = self._checksums.take(place)
        for column, table in enumerate(self._contributions):
            checksums ^= table.take(letters[:, column])
        rows = self._rows.take(place, axis=0)
        rows[:, _PREFIX.size : _PREFIX.size + _VALUE_BYTES] = letters
        rows[:, -_CHECKSUM.size :] = checksums.astype(">u4").view(np.uint8).reshape(-1, _CHECKSUM.size)
        payloads: list[bytes] = rows.view(f"V{self._size}").ravel().tolist()
        return payloads

    def _add(self, new: set[int]) -> None:
        for key in new:
            self._single[key] = encoder(self._run_id, self._process, key, self._size)
        self._keys = np.array(sorted(self._single), np.int32)
        empty = b"".join(self._single[key](0) for key in self._keys.tolist())
        self._rows = np.frombuffer(empty, np.uint8).reshape(-1, self._size)
        self._checksums = self._rows[:, -_CHECKSUM.size :].copy().view(">u4").ravel().astype(np.uint32)


@cache
def _contributions(size: int) -> list[npt.NDArray[np.uint32]]:
    """What each byte of a value, by its place and its content, changes in the checksum of a payload of this size."""
    after = size - _PREFIX.size - _CHECKSUM.size
    nothing = crc32(bytes(after))
    return [
        np.array(
            [crc32(bytes(place) + bytes([byte]) + bytes(after - place - 1)) ^ nothing for byte in range(256)], np.uint32
        )
        for place in range(_VALUE_BYTES)
    ]


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
