"""Segment files to dump."""

from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, encode_batch

NAME = "00000000000000000100"


def make_batch(
    first: int, count: int, codec: Codec = Codec.NONE, timestamp: int = 1_700_000_000_000
) -> bytearray:
    records = [
        Record(
            first + i,
            timestamp + i,
            b"key-%d" % (first + i),
            b"value-%d" % (first + i),
            (("trace", b"\xff"),),
        )
        for i in range(count)
    ]
    return encode_batch(records, codec=codec, leader_epoch=4)
