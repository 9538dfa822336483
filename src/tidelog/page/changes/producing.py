"""One message, written with acks=all by a client of its own."""

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.client.librdkafka import librdkafka_settings
from tidelog.page.asking import connecting
from tidelog.page.asking.link import Address
from tidelog.page.changes.requests import ChangeRefused
from tidelog.page.changes.wishes import DEFAULT, Produce

TIMEOUT_S = 10.0
ANY_PARTITION = -1  # librdkafka chooses, by the key if there is one


def produce(bootstrap: Iterable[Address], change: Produce) -> str:
    """Where it is, in a sentence."""
    told: list[tuple[KafkaError | None, Message]] = []
    producer = Producer(
        {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in bootstrap),
            "client.id": "tidelog-page",
            "acks": "all",
            "message.timeout.ms": int(TIMEOUT_S * 1000),
            "message.max.bytes": 4_000_000,
            "allow.auto.create.topics": False,
            "log_level": 2,
            **librdkafka_settings(connecting.security()),
        }
    )
    key, value = (None if each is None else each.encode() for each in (change.key, change.value))
    headers: list[tuple[str, str | bytes | None]] = [(name, text.encode()) for name, text in change.headers]
    try:
        producer.produce(
            change.name,
            value,
            key,
            ANY_PARTITION if change.partition == DEFAULT else change.partition,
            headers=headers,
            on_delivery=lambda error, message: told.append((error, message)),
        )
    except (KafkaException, BufferError) as refused:
        raise ChangeRefused(f"The message was not written: {refused}.") from None
    producer.flush(TIMEOUT_S + 2)
    if not told:
        raise ChangeRefused("The message was not acknowledged in time; it may be there all the same.")
    error, message = told[0]
    if error is not None:
        raise ChangeRefused(f"The message was not acknowledged: {error.str()}.")
    return f"The message is in partition {message.partition()} at offset {message.offset()}."
