"""The four compressions of record batches, framed as Kafka's Java client frames them.

gzip and zstd are plain streams. lz4 is the frame format with independent blocks: Java refuses linked ones. snappy is
the framing of the xerial library: a magic header, then blocks of raw snappy, each with its size before it.
A broker passes compressed batches through as they are; only compaction, recompression and the dump come here.
"""

from __future__ import annotations

import struct
from enum import IntEnum

import cramjam

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_SIZE = struct.Struct(">i")


class Compression(IntEnum):
    """The codec in the three lowest attribute bits of a batch; names as in ``compression.type``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        return self.name.lower()


class BadCompression(ValueError):
    """The payload is not what its codec says."""


def compress(codec: Compression, data: bytes) -> bytes:
    if codec is Compression.NONE:
        return data
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data))
    if codec is Compression.LZ4:
        stream = cramjam.lz4.Compressor(block_linked=False)
        stream.compress(data)
        return bytes(stream.finish())
    return _compress_snappy(data)


def decompress(codec: Compression, data: bytes) -> bytes:
    try:
        if codec is Compression.NONE:
            return data
        if codec is Compression.GZIP:
            return bytes(cramjam.gzip.decompress(data))
        if codec is Compression.ZSTD:
            return bytes(cramjam.zstd.decompress(data))
        if codec is Compression.LZ4:
            return bytes(cramjam.lz4.decompress(data))
        return _decompress_snappy(data)
    except cramjam.DecompressionError as problem:
        raise BadCompression(f"{codec.config_name}: {problem}") from problem


def _compress_snappy(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):  # some clients send one raw block; the Java reader takes it too
        return bytes(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + _SIZE.size
        if start > len(data):
            raise BadCompression("snappy: cut within the size of a block")
        (size,) = _SIZE.unpack_from(data, position)
        if size < 0 or start + size > len(data):
            raise BadCompression(f"snappy: a block of {size} bytes, {len(data) - start} are there")
        parts.append(bytes(cramjam.snappy.decompress_raw(data[start : start + size])))
        position = start + size
    return b"".join(parts)
