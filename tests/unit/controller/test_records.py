"""Metadata records: round trips, and what older and newer versions make of each other's records."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerRegistered,
    ClusterFounded,
    GroupConfigChanged,
    MetadataRecord,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    decode,
    encode,
)
from tidelog.errors import ErrorCode, StorageError

texts = st.text(max_size=20)
assignments = st.lists(st.lists(st.integers(0, 1 << 31), min_size=1, max_size=3), min_size=1, max_size=3)
changes = st.dictionaries(texts, st.none() | texts, max_size=3)
records = st.one_of(
    st.builds(ClusterFounded, texts),
    st.builds(
        BrokerRegistered, st.integers(0, 1 << 31), st.uuids(), texts, st.integers(0, 65535), st.none() | texts
    ),
    st.builds(TopicCreated, texts, st.uuids(), assignments, st.dictionaries(texts, texts, max_size=3)),
    st.builds(PartitionsAdded, st.uuids(), assignments),
    st.builds(TopicDeleted, st.uuids()),
    st.builds(TopicConfigChanged, st.uuids(), changes),
    st.builds(BrokerConfigChanged, texts, changes),
    st.builds(GroupConfigChanged, texts, changes),
    st.builds(ProducerIdsReserved, st.integers(1, (1 << 63) - 1)),
)

# What released versions have written. Never change a line here: a broker must be able to read its own past.
WRITTEN: list[tuple[bytes, MetadataRecord]] = [
    (b'{"type":"cluster-founded","cluster_id":"c"}', ClusterFounded("c")),
    (
        b'{"type":"broker-registered","broker_id":1,"incarnation":"00000000-0000-0000-0000-000000000001",'
        b'"host":"h","port":9092,"rack":null,"broker_epoch":0,"fenced":false}',
        BrokerRegistered(1, UUID(int=1), "h", 9092),
    ),
    (
        b'{"type":"topic-created","name":"t","topic_id":"00000000-0000-0000-0000-000000000002",'
        b'"assignments":[[1,2]],"configs":{"a":"b"}}',
        TopicCreated("t", UUID(int=2), [[1, 2]], {"a": "b"}),
    ),
    (
        b'{"type":"partitions-added","topic_id":"00000000-0000-0000-0000-000000000002","assignments":[[1]]}',
        PartitionsAdded(UUID(int=2), [[1]]),
    ),
    (
        b'{"type":"topic-deleted","topic_id":"00000000-0000-0000-0000-000000000002"}',
        TopicDeleted(UUID(int=2)),
    ),
    (
        b'{"type":"topic-config-changed","topic_id":"00000000-0000-0000-0000-000000000002","changes":{"a":null}}',
        TopicConfigChanged(UUID(int=2), {"a": None}),
    ),
    (
        b'{"type":"broker-config-changed","broker":"","changes":{"a":"1"}}',
        BrokerConfigChanged("", {"a": "1"}),
    ),
    (b'{"type":"producer-ids-reserved","next_id":1000}', ProducerIdsReserved(1000)),
]


@given(record=records)
def test_round_trip(record: MetadataRecord) -> None:
    assert decode(encode(record)) == record


@pytest.mark.parametrize(("data", "record"), WRITTEN)
def test_the_form_on_disk_stays(data: bytes, record: MetadataRecord) -> None:
    assert decode(data) == record
    # Fields are added behind those that were there.
    assert encode(record).startswith(data[:-1])


@pytest.mark.parametrize(("data", "record"), WRITTEN)
def test_fields_that_a_newer_version_added_are_ignored(data: bytes, record: MetadataRecord) -> None:
    newer = data[:-1] + b',"added_later":{"nested":[1,2,3]}}'
    assert decode(newer) == record


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"type":"from-the-future","x":1}',
        b'{"cluster_id":"c"}',
        b'{"type":"cluster-founded"}',
        b'{"type":"cluster-founded","cluster_id":7}',
        b'{"type":"topic-deleted","topic_id":"not-an-id"}',
        b'{"type":"cluster-founded","cluster_id":"\xff"}',
    ],
)
def test_what_cannot_be_understood_is_refused(data: bytes) -> None:
    """A broker that ignored a record would run another cluster than the one in the log."""
    with pytest.raises(StorageError, match="cannot read a metadata record") as refusal:
        decode(data)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
