"""The codecs of a record batch: their ids, their names, and both directions.

Owns the ids on the wire, the names in ``compression.type``, and the framing each client expects. Knows
nothing of batches: bytes in, bytes out.

Two rules hold for input from clients. Output is bounded: a batch of a few kilobytes can claim gigabytes, so
decompression writes into a buffer that never exceeds the limit. And only :class:`CorruptBatch` is raised,
whatever the bytes are.

cramjam is imported on first use: most brokers only forward compressed batches and never need it.
"""

import mmap
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from tidelog.errors import CorruptBatch, ErrorCode, InvalidConfig
from tidelog.protocol.batch import Buffer

MAX_DECOMPRESSED_BYTES = 128 << 20
"""The default limit of the decompressed size of one batch."""

PRODUCER = "producer"
"""The value of ``compression.type`` that keeps the producer's codec."""


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in client settings and in tables: ``none``, ``gzip``, …"""
        return self.name.lower()


_BY_ID: dict[int, Codec] = {codec.value: codec for codec in Codec}
_BY_SETTING: dict[str, Codec | None] = {
    PRODUCER: None,
    "uncompressed": Codec.NONE,
    "none": Codec.NONE,  # clients' name for it; Kafka's brokers say "uncompressed"
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER)
"""Allowed values of a topic's ``compression.type``."""

_ZSTD_LEVEL = 3
_GZIP_LEVEL = 6
_LZ4_LEVEL = 1

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable from version 1 on
_XERIAL_BLOCK_BYTES = 32 << 10  # before compression; the Java client's size
_INT32 = struct.Struct(">i")
_SNAPPY_EXPANSION_MAX = 32  # three bytes of snappy become at most 64; a larger claim is false
_EXPANSION_MAX = {
    Codec.NONE: 1,
    Codec.GZIP: 1032,  # a match of 258 bytes takes two bits
    Codec.SNAPPY: _SNAPPY_EXPANSION_MAX,
    Codec.LZ4: 255,  # each further byte of a match's length
    Codec.ZSTD: 32 << 10,  # a block of 128 KB that is one byte repeated takes four
}

_MARKS: dict[int, bytes] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""What compressed data begins with. Snappy has no mark."""

_FIRST_GUESS_BYTES_MIN = 64 << 10
_LAZY_FROM_BYTES = 1 << 20  # such memory is allocated lazily: filling it takes too long
_OUTPUT_FULL = "failed to write whole buffer"  # cramjam's error when the output does not fit


def codec_of_setting(compression_type: str) -> Codec | None:
    """The codec for a topic's ``compression.type``; None: the producer's."""
    try:
        return _BY_SETTING[compression_type]
    except KeyError:
        allowed = ", ".join(COMPRESSION_TYPES)
        raise InvalidConfig(f"compression.type is {compression_type!r}; allowed: {allowed}") from None


def codec_of_id(codec: int) -> Codec:
    """The codec of an id in a batch; refuses undefined ids."""
    known = _BY_ID.get(codec)
    if known is None:
        raise CorruptBatch(f"unknown compression codec {codec}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return known


def expansion_max(codec: int) -> int:
    """The largest expansion of one compressed byte; large blocks of zeros come close."""
    known = _BY_ID.get(codec)
    return 1 if known is None else _EXPANSION_MAX[known]


def has_mark(codec: int, data: Buffer, at: int) -> bool:
    """Whether the data at a position begins as compressed data does, if the codec has a mark for it."""
    mark = _MARKS.get(codec)
    return mark is None or data[at : at + len(mark)] == mark


def compress(codec: int, data: Buffer) -> Buffer:
    """``data`` compressed so that every Kafka client can read it."""
    known = codec_of_id(codec)
    return data if known is Codec.NONE else _COMPRESS[known](data)


def decompress(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The decompressed bytes; refuses invalid data and data that expands beyond ``limit``."""
    known = codec_of_id(codec)
    return data if known is Codec.NONE else _DECOMPRESS[known](data, limit)


# -- compress ------------------------------------------------------------------------


def _compress_gzip(data: Buffer) -> bytes:
    import cramjam

    return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL))


def _compress_zstd(data: Buffer) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def _compress_lz4(data: Buffer) -> bytes:
    import cramjam

    # The Java client refuses frames whose blocks depend on each other, which is what lz4.compress() writes.
    stream = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    stream.compress(bytes(data))
    return bytes(stream.finish())


def _compress_snappy(data: Buffer) -> bytearray:
    import cramjam

    framed = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES])
        framed += _INT32.pack(len(block))
        framed += memoryview(block)
    return framed


# -- decompress ----------------------------------------------------------------------


def _too_large(limit: int) -> CorruptBatch:
    return CorruptBatch(f"the records expand to more than {limit} bytes", ErrorCode.INVALID_RECORD)


def _broken(codec: Codec, reason: object) -> CorruptBatch:
    return CorruptBatch(f"the {codec.label} data cannot be read: {reason}", ErrorCode.INVALID_RECORD)


def _decompress_bounded(
    codec: Codec, decompress_into: Callable[[Any, Any], int], data: Buffer, limit: int
) -> bytearray | memoryview:
    """Try buffers of growing size: a small batch never costs a large allocation, a bomb never fits."""
    from cramjam import DecompressionError

    size = min(limit, max(_FIRST_GUESS_BYTES_MIN, 8 * len(data)))
    while True:
        output = bytearray(size) if size < _LAZY_FROM_BYTES else mmap.mmap(-1, size)
        try:
            length = decompress_into(data, output)
        except DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise _broken(codec, error) from None
            if size >= limit:
                raise _too_large(limit) from None
            size = min(limit, size * 8)
        else:
            if isinstance(output, mmap.mmap):
                return memoryview(output)[:length]
            del output[length:]
            return output


def _decompress_gzip(data: Buffer, limit: int) -> bytearray | memoryview:
    import cramjam

    return _decompress_bounded(Codec.GZIP, cramjam.gzip.decompress_into, data, limit)


def _decompress_zstd(data: Buffer, limit: int) -> bytearray | memoryview:
    import cramjam

    return _decompress_bounded(Codec.ZSTD, cramjam.zstd.decompress_into, data, limit)


def _decompress_lz4(data: Buffer, limit: int) -> bytearray | memoryview:
    import cramjam

    return _decompress_bounded(Codec.LZ4, cramjam.lz4.decompress_into, data, limit)


def _decompress_snappy(data: Buffer, limit: int) -> bytearray:
    """The Java client's framing, or one raw block as some other clients send it."""
    view = memoryview(data)
    output = bytearray()
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        _append_snappy_block(output, view, limit)
        return output
    # Version numbers are ignored: some clients wrote them in the wrong byte order.
    position = len(_XERIAL_HEADER)
    while position < len(view):
        try:
            (length,) = _INT32.unpack_from(view, position)
        except struct.error:
            raise _broken(Codec.SNAPPY, "it ends inside the length of a block") from None
        position += _INT32.size
        if length < 0 or length > len(view) - position:
            raise _broken(Codec.SNAPPY, f"a block claims {length} bytes, {len(view) - position} are there")
        _append_snappy_block(output, view[position : position + length], limit)
        position += length
    return output


def _append_snappy_block(output: bytearray, block: memoryview, limit: int) -> None:
    import cramjam

    try:
        # The length is the block's own claim: it is checked before memory of that size is allocated.
        length = cramjam.snappy.decompress_raw_len(block)
        if length > _SNAPPY_EXPANSION_MAX * len(block):
            raise _broken(Codec.SNAPPY, f"{len(block)} bytes cannot become {length}")
        if len(output) + length > limit:
            raise _too_large(limit)
        output += memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _broken(Codec.SNAPPY, error) from None


_COMPRESS: dict[Codec, Callable[[Buffer], bytes | bytearray]] = {
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[Codec, Callable[[Buffer, int], bytearray | memoryview]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
