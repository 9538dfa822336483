"""The records of groups and offsets, held to Kafka's format byte by byte."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import StorageError
from tidelog.groups.offsets import Committed
from tidelog.groups.records import (
    ClassicGroupRecord,
    ClassicMemberRecord,
    GroupState,
    OffsetRecord,
    decode,
    group_record,
    kind_of,
    offset_record,
)
from tidelog.groups.subscriptions import topics_of
from unit.groups.group_harness import Groups

OFFSET_KEY = b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x07"
GROUP_KEY = b"\x00\x02" + b"\x00\x01g"
TIME = b"\x00\x00\x00\x00\x00\x00\x01\x00"

TEXT = st.text(max_size=20)
INT32 = st.integers(0, (1 << 31) - 1)
INT64 = st.integers(0, (1 << 63) - 1)
MEMBERS = st.builds(
    ClassicMemberRecord, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, st.binary(), st.binary()
)
STATES = st.builds(
    GroupState,
    TEXT,
    INT32,
    st.none() | TEXT,
    st.none() | TEXT,
    INT64,
    st.lists(MEMBERS, max_size=3).map(tuple),
)


def test_an_offset() -> None:
    key, value = offset_record("g", "t", 7, Committed(5, 2, "m", 256))
    assert key == OFFSET_KEY
    assert value == b"\x00\x03" + bytes(7) + b"\x05" + b"\x00\x00\x00\x02" + b"\x00\x01m" + TIME


def test_an_offset_with_an_expiry_of_its_own() -> None:
    _, value = offset_record("g", "t", 7, Committed(5, -1, "m", 256, 512))
    assert value == b"\x00\x01" + bytes(7) + b"\x05" + b"\x00\x01m" + TIME + bytes(6) + b"\x02\x00"


def test_a_group() -> None:
    member = ClassicMemberRecord("m", None, "c", "/h", 3, 4, b"sub", b"ass")
    key, value = group_record("g", GroupState("consumer", 9, "range", "m", 256, (member,)))
    assert key == GROUP_KEY
    assert value == (
        b"\x00\x03" + b"\x00\x08consumer" + b"\x00\x00\x00\x09" + b"\x00\x05range" + b"\x00\x01m" + TIME
        + b"\x00\x00\x00\x01" + b"\x00\x01m" + b"\xff\xff" + b"\x00\x01c" + b"\x00\x02/h"
        + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x04" + b"\x00\x00\x00\x03sub" + b"\x00\x00\x00\x03ass"
    )  # fmt: skip


@given(TEXT, TEXT, INT32, st.none() | st.builds(Committed, INT64, INT32, TEXT, INT64, st.just(-1)))
def test_offsets_there_and_back(group: str, topic: str, partition: int, committed: Committed | None) -> None:
    record = offset_record(group, topic, partition, committed)
    assert decode(*record) == OffsetRecord(group, topic, partition, committed)


@given(TEXT, st.none() | STATES)
def test_groups_there_and_back(group: str, state: GroupState | None) -> None:
    assert decode(*group_record(group, state)) == ClassicGroupRecord(group, state)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00\x00" + bytes(7) + b"\x05" + b"\x00\x01m" + TIME, Committed(5, -1, "m", 256)),
        (b"\x00\x02" + bytes(7) + b"\x05" + b"\x00\x01m" + TIME, Committed(5, -1, "m", 256)),
        # Flexible, with the topic id as a tagged field.
        (
            b"\x00\x04" + bytes(7) + b"\x05" + b"\x00\x00\x00\x02" + b"\x02m" + TIME
            + b"\x01\x00\x10" + bytes(16),
            Committed(5, 2, "m", 256),
        ),
    ],
)  # fmt: skip
def test_offsets_of_other_versions(value: bytes, expected: Committed) -> None:
    assert decode(OFFSET_KEY, value) == OffsetRecord("g", "t", 7, expected)


def test_groups_of_other_versions() -> None:
    oldest = (
        b"\x00\x00" + b"\x00\x08consumer" + b"\x00\x00\x00\x09" + b"\xff\xff" + b"\xff\xff"
        + b"\x00\x00\x00\x01" + b"\x00\x01m" + b"\x00\x01c" + b"\x00\x02/h" + b"\x00\x00\x00\x04"
        + b"\x00\x00\x00\x03sub" + b"\x00\x00\x00\x00"
    )  # fmt: skip
    member = ClassicMemberRecord("m", None, "c", "/h", 4, 4, b"sub", b"")
    assert decode(GROUP_KEY, oldest) == ClassicGroupRecord(
        "g", GroupState("consumer", 9, None, None, -1, (member,))
    )
    flexible = (
        b"\x00\x04" + b"\x09consumer" + b"\x00\x00\x00\x09" + b"\x06range" + b"\x02m" + TIME
        + b"\x02" + b"\x02m" + b"\x00" + b"\x02c" + b"\x03/h" + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x04"
        + b"\x04sub" + b"\x01" + b"\x00" + b"\x00"
    )  # fmt: skip
    member = ClassicMemberRecord("m", None, "c", "/h", 3, 4, b"sub", b"")
    state = GroupState("consumer", 9, "range", "m", 256, (member,))
    assert decode(GROUP_KEY, flexible) == ClassicGroupRecord("g", state)


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_whatever_the_bytes_are(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(StorageError):
        decode(key, value)


@given(st.data())
def test_damaged_values(data: st.DataObject) -> None:
    key, value = data.draw(STATES.map(lambda state: group_record("g", state)))
    cut = data.draw(st.integers(0, len(value or b"")))
    with contextlib.suppress(StorageError):
        decode(key, (value or b"")[:cut])


def test_other_kinds_are_left_alone() -> None:
    assert decode(b"\x00\x03\x00\x01g", b"\x00\x00anything") is None
    assert kind_of(b"\x00\x10") == 16
    groups = Groups()
    groups.commit_offset(5)
    log = [*groups.log, ((b"\x00\x63whatever", b"x"), -1), ((b"", None), -1), ((b"\x00\x01\x00", b""), -1)]
    after = Groups(log)
    assert after.offset() == 5
    seen = []
    after.shard.replayers[99] = lambda key, value: seen.append((key, value))
    after.shard.replay(b"\x00\x63whatever", b"x")
    assert seen == [(b"\x00\x63whatever", b"x")]


def test_subscriptions() -> None:
    topics = b"\x00\x00\x00\x02" + b"\x00\x01a" + b"\x00\x02bc"
    assert topics_of(b"\x00\x03" + topics + b"more") == frozenset({"a", "bc"})
    assert topics_of(b"\x00\x00" + bytes(4)) == frozenset()
    for damaged in (
        b"",
        b"\x00",
        b"\xff\xff" + topics,
        b"\x00\x00" + topics[:-1],
        b"\x00\x00\x7f\xff\xff\xff",
    ):
        assert topics_of(damaged) is None
