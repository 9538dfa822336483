"""The bytes of a consumer group's records. Kafka's own serializer (4.3.1) writes exactly these."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import StorageError
from tidelog.groups.consumer.record_format import KINDS, decode, encode
from tidelog.groups.consumer.records import (
    ClassicProtocols,
    CurrentMemberRecord,
    GroupRecord,
    MemberRecord,
    MemberState,
    RecordKind,
    RegexRecord,
    TargetMemberRecord,
    TargetRecord,
    Update,
)

T = UUID("12345678-90ab-cdef-1234-567890abcdef")
CLASSIC = ClassicProtocols(45000, (("range", b"abc"), ("cs", b"")))

SAMPLES = [
    (
        Update(RecordKind.GROUP, "", GroupRecord(5, -77)),
        "0003000167",
        "000000000005010008ffffffffffffffb3",
    ),
    (
        Update(
            RecordKind.MEMBER,
            "m",
            MemberRecord("c", "h", ("a", "b"), "x.*", "i", "r", 1000, "uniform", CLASSIC),
        ),
        "000500016700016d",
        "00000269027202630268030261026204782e2a000003e808756e69666f726d010017010000afc8030672616e676504616263"
        "00036373010000",
    ),
    (
        Update(RecordKind.MEMBER, "m", MemberRecord("c", "h", ("a", "b"))),
        "000500016700016d",
        "0000000002630268030261026200ffffffff0001000100",
    ),
    (
        Update(RecordKind.TARGET, "", TargetRecord(5, 123)),
        "0006000167",
        "000000000005010008000000000000007b",
    ),
    (
        Update(RecordKind.TARGET_MEMBER, "m", TargetMemberRecord({T: frozenset({3, 0})})),
        "000700016700016d",
        "0000021234567890abcdef1234567890abcdef0300000000000000030000",
    ),
    (
        Update(
            RecordKind.CURRENT_MEMBER,
            "m",
            CurrentMemberRecord(5, 4, MemberState.UNREVOKED, {T: {0: 1, 3: 2}}, {T: {9: 2}}),
        ),
        "000800016700016d",
        "0000000000050000000401021234567890abcdef1234567890abcdef030000000000000003010009030000000100000002"
        "021234567890abcdef1234567890abcdef0200000009010005020000000200",
    ),
    (
        Update(RecordKind.REGEX, "x.*", RegexRecord(("xa",), 9, 10)),
        "00100001670003782e2a",
        "0000020378610000000000000009000000000000000a00",
    ),
]


@pytest.mark.parametrize(("update", "key", "value"), SAMPLES)
def test_as_kafka_writes_them(update: Update, key: str, value: str) -> None:
    written_key, written = encode("g", update)
    assert (written_key.hex(), (written or b"").hex()) == (key, value)
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == ("g", update)


@pytest.mark.parametrize(("update", "key", "value"), SAMPLES)
def test_a_tombstone_has_the_same_key(update: Update, key: str, value: str) -> None:
    gone = update._replace(value=None)
    assert encode("g", gone) == (bytes.fromhex(key), None)
    assert decode(bytes.fromhex(key), None) == ("g", gone)


def test_fields_of_a_newer_broker_are_skipped() -> None:
    value = bytes.fromhex("000000000005") + b"\x02\x00\x08" + bytes(8) + b"\x07\x03new"
    assert decode(bytes.fromhex("0003000167"), value)[1].value == GroupRecord(5, 0)


def test_partitions_of_a_broker_that_does_not_tell_since_when() -> None:
    value = (
        bytes.fromhex("00000000000500000004000212345678")
        + T.bytes[4:]
        + bytes.fromhex("02000000070001")
        + b"\x00"
    )
    record = decode(bytes.fromhex("000800016700016d"), value)[1].value
    assert record == CurrentMemberRecord(5, 4, held={T: {7: 5}})


def test_subscription_metadata_of_an_older_broker_is_passed_over() -> None:
    assert decode(bytes.fromhex("0004000167"), bytes.fromhex("00000100"))[1].value is None
    assert 4 in KINDS


@pytest.mark.parametrize(("update", "key", "value"), SAMPLES)
def test_half_a_record_is_refused(update: Update, key: str, value: str) -> None:
    data = bytes.fromhex(value)
    for end in range(len(data)):
        with pytest.raises(StorageError):
            decode(bytes.fromhex(key), data[:end])


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(StorageError, match="version"):
        decode(bytes.fromhex("0003000167"), b"\x00\x09\x00\x00\x00\x05\x00")


names = st.text(max_size=20)
held = st.dictionaries(
    st.uuids(), st.dictionaries(st.integers(0, 99), st.integers(0, 9), min_size=1), max_size=3
)


@given(group=names, name=names, record=st.builds(CurrentMemberRecord, *[st.integers(-2, 99)] * 2,
       st.sampled_from(MemberState), held, held))  # fmt: skip
@pytest.mark.slow
def test_what_members_hold_comes_back(group: str, name: str, record: CurrentMemberRecord) -> None:
    update = Update(RecordKind.CURRENT_MEMBER, name, record)
    assert decode(*encode(group, update)) == (group, update)
