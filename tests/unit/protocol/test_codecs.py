"""Codecs: what goes in comes out, in the framing clients read, and never more than the limit."""

import gzip
import struct
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, ErrorCode, InvalidConfig
from tidelog.protocol.codecs import COMPRESSION_TYPES, Codec, codec_of_setting, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=300).map(lambda some: some * 50))
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data
    assert bytes(decompress(codec, memoryview(compress(codec, memoryview(data))))) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_output_that_outgrows_the_first_guess_many_times_is_still_whole(codec: Codec) -> None:
    data = bytes(9 << 20)
    packed = compress(codec, data)
    assert len(packed) < len(data) / 15
    assert bytes(decompress(codec, packed)) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, limit=100_000)) == 100_000
    with pytest.raises(CorruptBatch, match="expand to more than 99999 bytes") as caught:
        decompress(codec, packed, limit=99_999)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_no_more_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    decompress(codec, compress(codec, b"import what is imported on first use"))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, bomb, limit=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 << 20


@pytest.mark.parametrize("codec", COMPRESSED)
@given(position=st.integers(min_value=0), byte=st.integers(0, 255), cut=st.integers(min_value=0))
def test_broken_input_is_refused_and_never_crashes(codec: Codec, position: int, byte: int, cut: int) -> None:
    packed = bytearray(compress(codec, b"tide after tide, " * 20))
    packed[position % len(packed)] = byte
    del packed[len(packed) - cut % len(packed) :]
    try:
        decompress(codec, packed, limit=1 << 20)
    except CorruptBatch as refused:
        assert refused.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_input_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(range(256)) * 4)
    with pytest.raises(CorruptBatch, match=f"the {codec.label} data cannot be read"):
        decompress(codec, packed[:-5])


@pytest.mark.parametrize("number", [5, 6, 7])
def test_ids_without_a_meaning_are_refused(number: int) -> None:
    for direction in (compress, decompress):
        with pytest.raises(CorruptBatch) as caught:
            direction(number, b"")
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class TestSnappy:
    DATA = b"the Java client cuts its snappy into blocks of 32 KiB " * 2000

    def test_is_written_in_the_framing_of_the_java_client(self) -> None:
        packed = bytes(compress(Codec.SNAPPY, self.DATA))
        assert packed.startswith(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
        position, blocks = 16, []
        while position < len(packed):
            (size,) = struct.unpack_from(">i", packed, position)
            blocks.append(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + size])))
            position += 4 + size
        assert b"".join(blocks) == self.DATA
        assert [len(block) for block in blocks[:-1]] == [32 << 10] * (len(blocks) - 1)

    def test_a_raw_block_is_read_too(self) -> None:
        assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(self.DATA)))) == self.DATA

    def test_swapped_version_bytes_do_no_harm(self) -> None:
        packed = bytearray(compress(Codec.SNAPPY, self.DATA))
        packed[8:16] = struct.pack("<ii", 1, 1)
        assert bytes(decompress(Codec.SNAPPY, packed)) == self.DATA

    @pytest.mark.parametrize("claim", [-1, 1 << 30, 0x7FFFFFFF])
    def test_a_block_that_lies_about_its_size_is_refused(self, claim: int) -> None:
        packed = bytearray(compress(Codec.SNAPPY, self.DATA))
        struct.pack_into(">i", packed, 16, claim)
        with pytest.raises(CorruptBatch, match="claims"):
            decompress(Codec.SNAPPY, packed)

    def test_a_tiny_block_that_claims_megabytes_is_refused_before_they_are_allocated(self) -> None:
        claims_64_mb = b"\x80\x80\x80\x20" + b"\x00a"
        with pytest.raises(CorruptBatch, match="6 bytes cannot become 67108864"):
            decompress(Codec.SNAPPY, claims_64_mb)


class TestLz4:
    def test_blocks_stand_alone_because_the_java_client_reads_no_others(self) -> None:
        packed = bytes(compress(Codec.LZ4, b"block after block " * 20_000))
        assert lz4.frame.get_frame_info(packed)["block_linked"] is False

    def test_a_frame_without_checksums_is_read(self) -> None:
        frame = bytes.fromhex("04224d18604082") + struct.pack("<I", 5 | 1 << 31) + b"tides" + bytes(4)
        assert bytes(decompress(Codec.LZ4, frame)) == b"tides"

    def test_linked_blocks_with_content_size_are_read(self) -> None:
        data = b"block after block " * 20_000
        assert bytes(decompress(Codec.LZ4, lz4.frame.compress(data, block_linked=True))) == data


def test_gzip_of_the_standard_library_is_read_in_one_member_or_two() -> None:
    assert (
        bytes(decompress(Codec.GZIP, gzip.compress(b"ebb ") + gzip.compress(b"and flow"))) == b"ebb and flow"
    )


def test_settings_name_codecs() -> None:
    assert {name: codec_of_setting(name) for name in COMPRESSION_TYPES} == {
        "uncompressed": Codec.NONE,
        "gzip": Codec.GZIP,
        "snappy": Codec.SNAPPY,
        "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
        "producer": None,
    }
    with pytest.raises(InvalidConfig, match=r"compression.type is 'brotli'; allowed: uncompressed, zstd"):
        codec_of_setting("brotli")


@pytest.mark.slow
def test_a_broker_that_needs_no_codec_does_not_load_one() -> None:
    program = (
        "import sys; from tidelog.protocol import records, codecs;"
        "records.encode_batch([records.Record(0, 0, b'k', b'v')]);"
        "sys.exit('cramjam' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
