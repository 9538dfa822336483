"""Large messages: up to the limit they pass, above it the producer is told so, and nothing breaks."""

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .clients import CLIENTS, AioKafkaClient, Client, ConfluentClient, KafkaPythonClient, Message
from .conftest import CreateTopic
from .records import batch, values
from .wire import Wire

pytestmark = pytest.mark.interop

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)

DEFAULT_LIMIT = 1_048_588  # max.message.bytes: one mebibyte and the twelve bytes in front of a batch


@every_client
def test_a_message_near_the_limit(client: Client, bootstrap: str, topic: str) -> None:
    value = bytes(range(256)) * 4080  # 1,044,480 bytes
    client.produce(bootstrap, topic, [Message(None, value)], max_bytes=2_000_000)
    for reader in CLIENTS:
        (received,) = reader.consume(bootstrap, topic, 1)
        assert received.value == value, reader.name


def test_the_limit_to_the_byte(wire: Wire, topic: str) -> None:
    overhead = len(batch(b"x" * 1_000_000)) - 1_000_000
    fits = batch(b"x" * (DEFAULT_LIMIT - overhead))
    assert len(fits) == DEFAULT_LIMIT
    assert calls.produce(wire, topic, bytes(fits)).error_code is ErrorCode.none
    too_large = batch(b"x" * (DEFAULT_LIMIT - overhead + 1))
    assert calls.produce(wire, topic, bytes(too_large)).error_code is ErrorCode.message_too_large
    assert calls.end_offset(wire, topic) == 1


def test_the_compressed_size_counts(wire: Wire, topic: str) -> None:
    data = batch(b"x" * 5_000_000, codec="gzip")
    assert calls.produce(wire, topic, bytes(data)).error_code is ErrorCode.none
    assert values(calls.fetch(wire, topic, 0).records) == [b"x" * 5_000_000]


def test_a_topic_may_have_a_limit_of_its_own(wire: Wire, create_topic: CreateTopic) -> None:
    small, large = create_topic(max_message_bytes=1000), create_topic(max_message_bytes=10_000_000)
    assert calls.produce(wire, small, bytes(batch(b"x" * 1000))).error_code is ErrorCode.message_too_large
    assert calls.produce(wire, small, bytes(batch(b"x" * 900))).error_code is ErrorCode.none
    assert calls.produce(wire, large, bytes(batch(b"x" * 8_000_000))).error_code is ErrorCode.none
    assert values(calls.fetch(wire, large, 0).records) == [b"x" * 8_000_000]


def test_confluent_is_told(bootstrap: str, topic: str) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        ConfluentClient().produce(bootstrap, topic, [Message(None, b"x" * 1_100_000)], max_bytes=3_000_000)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE


def test_kafka_python_is_told(bootstrap: str, topic: str) -> None:
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        KafkaPythonClient().produce(bootstrap, topic, [Message(None, b"x" * 1_100_000)], max_bytes=3_000_000)


def test_aiokafka_is_told(bootstrap: str, topic: str) -> None:
    with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
        AioKafkaClient().produce(bootstrap, topic, [Message(None, b"x" * 1_100_000)], max_bytes=3_000_000)


@every_client
def test_reading_messages_larger_than_the_clients_fetch_size(
    client: Client, bootstrap: str, create_topic: CreateTopic, wire: Wire
) -> None:
    """Every client's per-partition fetch size defaults to one mebibyte; the records are three."""
    topic = create_topic(max_message_bytes=4_000_000)
    for n in range(3):
        calls.produce(wire, topic, bytes(batch(bytes([n]) * 3_000_000)))
    received = client.consume(bootstrap, topic, 3)
    assert [record.value for record in received] == [bytes([n]) * 3_000_000 for n in range(3)]


@pytest.mark.tidelog_settings({"socket.request.max.bytes": 100_000})
def test_a_request_above_the_request_limit_ends_the_connection(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        wire.send("produce", 12, **calls.produce_request("t", bytes(batch(b"x" * 200_000)), 0, acks=1))
        assert wire.wait_until_closed() == b""
    with Wire(broker.bootstrap) as wire:
        assert calls.produce(wire, "t", bytes(batch(b"x" * 90_000))).error_code is ErrorCode.none
        assert calls.end_offset(wire, "t") == 1
