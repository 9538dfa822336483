"""What one client writes, every client reads: all codecs, headers, nulls, empties."""

import pytest

from . import calls, records
from .clients import CLIENTS, Client, Message
from .conftest import CreateTopic
from .wire import Wire

pytestmark = pytest.mark.interop

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
every_codec = pytest.mark.parametrize("codec", records.CODECS)

ODD_SHAPES = [
    Message(None, b"no key"),
    Message(b"tombstone", None),
    Message(b"empty value", b""),
    Message(b"", b"empty key"),
    Message(b"\x00\xff\xfe", bytes(range(256))),
    Message(b"headers", b"v", [("trace", b"abc"), ("trace", b"twice the same name"), ("empty", b"")]),
    Message("ключ".encode(), "値".encode(), [("ü", "ö".encode())]),
]


def contents(
    stored: list[records.Stored],
) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    return [(record.key, record.value, list(record.headers)) for record in stored]


@every_codec
@every_client
def test_every_client_reads_what_a_client_wrote(
    client: Client, codec: str, bootstrap: str, topic: str, wire: Wire
) -> None:
    # Long and alike, so that every codec really compresses: a batch that would grow is sent plain.
    sent = [Message(f"key-{n}".encode(), f"value-{n}-".encode() * 50) for n in range(200)]

    offsets = client.produce(bootstrap, topic, sent, codec=codec)

    assert offsets == list(range(200))
    stored_as = {batch.attributes & 7 for batch in records.batches(calls.fetch(wire, topic, 0).records)}
    assert stored_as == {records.CODECS[codec]}
    for reader in CLIENTS:
        received = reader.consume(bootstrap, topic, len(sent))
        assert [record.offset for record in received] == offsets, reader.name
        assert contents(received) == [(m.key, m.value, []) for m in sent], reader.name


@every_client
def test_odd_shapes_survive(client: Client, bootstrap: str, topic: str) -> None:
    client.produce(bootstrap, topic, ODD_SHAPES)
    for reader in CLIENTS:
        received = reader.consume(bootstrap, topic, len(ODD_SHAPES))
        assert contents(received) == [(m.key, m.value, list(m.headers)) for m in ODD_SHAPES], reader.name


def test_what_most_clients_refuse_to_send_can_be_read(bootstrap: str, topic: str, wire: Wire) -> None:
    calls.produce(wire, topic, bytes(records.batch(None, b"v", headers=[("nothing", None)])))
    for reader in CLIENTS:
        received = reader.consume(bootstrap, topic, 2)
        nothing = [("nothing", None)]
        assert contents(received) == [(None, None, nothing), (None, b"v", nothing)], reader.name


@every_client
def test_partitions_keep_apart(client: Client, bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    for partition in range(3):
        sent = [Message(None, f"{partition}/{n}".encode()) for n in range(5)]
        assert client.produce(bootstrap, topic, sent, partition=partition) == list(range(5))
    for partition in range(3):
        received = client.consume(bootstrap, topic, 5, partition=partition)
        assert [record.value for record in received] == [f"{partition}/{n}".encode() for n in range(5)]


@every_client
def test_reading_starts_where_asked(client: Client, bootstrap: str, topic: str) -> None:
    client.produce(bootstrap, topic, [Message(None, str(n).encode()) for n in range(50)])
    received = client.consume(bootstrap, topic, 7, offset=43)
    assert [(record.offset, record.value) for record in received] == [
        (n, str(n).encode()) for n in range(43, 50)
    ]


@every_client
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(client: Client, acks: int | str, bootstrap: str, topic: str) -> None:
    sent = [Message(None, str(n).encode()) for n in range(10)]
    offsets = client.produce(bootstrap, topic, sent, acks=acks)
    if acks != 0:  # nobody tells a producer the offsets of records it wants no answer for
        assert offsets == list(range(10))
    received = client.consume(bootstrap, topic, 10)
    assert [record.value for record in received] == [message.value for message in sent]
