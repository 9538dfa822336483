"""Undecodable records to a topic, each once, beside the table of undecodable records.

Owns what a dead letter looks like and why it is sent once. Key, value and headers are those of the record;
headers are added that say where it comes from:

============================ ==============================================================
``tidelog.error.topic``      with ``.topic-id``, ``.partition`` and ``.offset``: the record
``tidelog.error.timestamp``  of the record, in milliseconds
``tidelog.error.reason``     in words
============================ ==============================================================

The letters of a step are one transaction, sent by one task, under a transactional id that belongs to the
archive and the topic. The same transaction commits offsets of a consumer group of the same name: for each
partition the offsets whose letters are sent (:class:`Sent`). So letters and the note about them are visible
together or not at all. They are sent before the step is added to the table:

- A crash before the commit leaves an open transaction. The next run aborts it and sends everything.
- A crash between the commit and the table's step: the next run reads these records again, finds them in the
  note and sends none of them, even if it cuts its steps at other offsets.
- Two runs at a time: the later one fences the earlier one, whose step fails.

Readers must read committed records only. If the archive is deleted and made again, nothing is sent twice: the
group must be deleted as well if that is wanted.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.oauth import token
from tidelog.client.settings import ClientSettings, OAuthSettings, TlsSettings
from tidelog.client.topic_creation import create_topic
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options
from tidelog.spark.pipelines.tables import Place, Span, Step

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from pyspark.sql import DataFrame

PREFIX = "tidelog.error."
DEFAULT_REASON = "the value does not fit the schema"
_TIMEOUT_S = 60.0
_TRANSACTION_TIMEOUT_MS = 900_000  # what brokers allow by default
_TOKEN_KEPT_S = 60.0  # the library asks again well before, and may get the same token
_FORM = "1"


class DeadLettersFailed(ClientError):
    """The letters of a step could not be sent; nothing of them is visible."""


class Letter(NamedTuple):
    place: Place
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class Sent(NamedTuple):
    """Which letters of a partition are sent: those of one topic id, in one range of offsets."""

    topic_id: str
    span: Span

    @classmethod
    def joined(cls, place: Place, span: Span, known: "Sent | None") -> "Sent":
        """With what was sent before, unless the archive was made again at another place of the log."""
        if known is None or span.start > known.span.end or known.span.start > span.end:
            return cls(place.topic_id, span)
        both = Span(min(known.span.start, span.start), max(known.span.end, span.end))
        return cls(place.topic_id, both)

    def to_offset(self, place: Place) -> "TopicPartition":
        """The end of the range as an offset, its start and the topic id beside it."""
        from confluent_kafka import TopicPartition

        metadata = f"{_FORM}:{self.span.start}:{self.topic_id}"
        return TopicPartition(place.topic, place.partition, self.span.end, metadata)

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> "Sent | None":
        form, _, rest = (metadata or "").partition(":")
        start, _, topic_id = rest.partition(":")
        if form != _FORM or not start.isdecimal() or offset < 0:
            return None
        return cls(topic_id, Span(int(start), offset))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Call it with the undecodable rows of a step, before the step is added to the table."""

    topic: str
    bootstrap: str
    target: str  # the archive
    options: Mapping[str, str] = field(default_factory=dict)  # kafka.* for the connection

    @property
    def name(self) -> str:
        """The transactional id, and the group that notes what is sent."""
        digest = hashlib.sha256(f"{self.target}\0{self.topic}".encode()).hexdigest()
        return f"tidelog-dead-letters-{digest[:16]}"

    def __call__(self, rows: "DataFrame", step: Step) -> int:
        """How many were sent. One task sends them: a cluster's executors reach the brokers, this machine may
        not.
        """
        from pyspark.sql import functions

        spans = changed_spans(step)
        if any(place.topic == self.topic for place in step.after.spans):
            raise OptionError(
                f"The dead-letter topic {self.topic} is archived itself; its letters would be archived and "
                "sent again and again. Choose another one."
            )
        client = client_settings(Options({"kafka.bootstrap.servers": self.bootstrap, **self.options}))
        topic, name = self.topic, self.name

        def send_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa

            letters = (letter for batch in batches for letter in letters_of(batch))
            yield pa.RecordBatch.from_pydict({"sent": [send(letters, spans, topic, name, client)]})

        names = {column.lower(): column for column in rows.columns}
        topic_id = functions.col(names["topicid"]) if "topicid" in names else functions.lit("")
        reason = functions.col(names["error"]) if "error" in names else functions.lit(DEFAULT_REASON)
        identified = functions.coalesce(topic_id, functions.lit("")).alias("id")
        wanted = rows.select(
            functions.col("topic").cast("string"), identified,
            functions.col("partition").cast("int"), functions.col("offset").cast("long"), "key", "value",
            "headers", functions.expr("unix_millis(timestamp)").alias("timestamp"), reason.alias("reason"),
        )  # fmt: skip
        found = wanted.coalesce(1).mapInArrow(send_all, "sent long").collect()
        return sum(row["sent"] for row in found)


def changed_spans(step: Step) -> dict[Place, Span]:
    """What a step adds to, with all that was there before."""
    return {place: span for place, span in step.after.spans.items() if span != step.before.spans.get(place)}


def letters_of(batch: "pa.RecordBatch") -> Iterator[Letter]:
    for row in batch.to_pylist():
        place = Place(row["topic"], row["id"], row["partition"])
        told = {
            "topic": place.topic,
            "topic-id": place.topic_id,
            "partition": place.partition,
            "offset": row["offset"],
            "timestamp": row["timestamp"],
            "reason": row["reason"] or DEFAULT_REASON,
        }
        own = [(one["key"], one["value"]) for one in row["headers"] or [] if one is not None]
        added = [(f"{PREFIX}{name}", str(value).encode()) for name, value in told.items() if value != ""]
        yield Letter(place, row["offset"], row["key"], row["value"], [*own, *added])


def send(
    letters: Iterable[Letter], spans: Mapping[Place, Span], topic: str, name: str, client: ClientSettings
) -> int:
    """In one transaction, with the note; those that are in the note already are left out."""
    from confluent_kafka import Consumer, KafkaException, Producer

    letters = iter(letters)
    first = next(letters, None)
    if first is None:
        return 0
    with Cluster(client) as cluster:
        if topic not in cluster.known_topics([topic]):
            create_topic(cluster, topic)
    settings = librdkafka_settings(client)
    producer = Producer(
        {**settings, "transactional.id": name, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
    )
    consumer = Consumer({**settings, "group.id": name, "enable.auto.commit": False})
    try:
        return _send_unsent(producer, consumer, topic, _chained(first, letters), spans)
    except KafkaException as error:
        raise DeadLettersFailed(_why(error, topic, name)) from None
    finally:
        consumer.close()


def _send_unsent(
    producer: "Producer",
    consumer: "Consumer",
    topic: str,
    letters: Iterable[Letter],
    spans: Mapping[Place, Span],
) -> int:
    # Ends what a killed run left open, so the note that is read next is final.
    producer.init_transactions(_TIMEOUT_S)
    sent = _read_note(consumer, spans)
    producer.begin_transaction()
    counts = _produce(producer, topic, _unsent(letters, sent))
    if not counts:
        producer.abort_transaction(_TIMEOUT_S)
        return 0
    noted = [Sent.joined(place, spans[place], sent.get(place)) for place in counts]
    offsets = [one.to_offset(place) for place, one in zip(counts, noted, strict=True)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), _TIMEOUT_S)
    producer.commit_transaction(_TIMEOUT_S)
    return sum(counts.values())


def _chained(first: Letter, others: Iterable[Letter]) -> Iterator[Letter]:
    yield first
    yield from others


def _unsent(letters: Iterable[Letter], sent: Mapping[Place, Sent]) -> Iterator[Letter]:
    for letter in letters:
        known = sent.get(letter.place)
        if known is None or not known.span.start <= letter.offset < known.span.end:
            yield letter


def _produce(producer: "Producer", topic: str, letters: Iterable[Letter]) -> dict[Place, int]:
    """How many of each partition; the commit of the transaction waits for their acknowledgements."""
    counts: dict[Place, int] = {}
    for letter in letters:
        while True:
            try:
                producer.produce(topic, letter.value, letter.key, headers=letter.headers)
                break
            except BufferError:
                producer.poll(1.0)
        producer.poll(0)
        counts[letter.place] = counts.get(letter.place, 0) + 1
    return counts


def _read_note(consumer: "Consumer", spans: Mapping[Place, Span]) -> dict[Place, Sent]:
    from confluent_kafka import TopicPartition

    by_partition = {(place.topic, place.partition): place for place in spans}
    asked = [TopicPartition(topic, partition) for topic, partition in sorted(by_partition)]
    found = {}
    for one in consumer.committed(asked, timeout=_TIMEOUT_S):
        place = by_partition[one.topic, one.partition]
        sent = Sent.parse(one.offset, one.metadata)
        # Offsets of a topic that was deleted and created again are those of other records.
        if sent is not None and sent.topic_id == place.topic_id:
            found[place] = sent
    return found


def _why(error: "KafkaException", topic: str, name: str) -> str:
    reason = error.args[0]
    if reason.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
        return (
            f"Another run of this archive sends to the dead-letter topic {topic} ({name}); run one at a time."
        )
    return (
        f"The undecodable records could not be sent to {topic}: {reason.str()} ({reason.name()}); "
        "nothing of this step was added, and the next run does it again."
    )


def librdkafka_settings(client: ClientSettings) -> dict[str, Any]:
    """The same connection for the library that has transactions with offsets."""
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in client.bootstrap
        ),
        "client.id": client.client_id,
        "log_level": 0,
    }
    tls, sasl = client.tls, client.sasl
    transport = "PLAINTEXT" if tls is None else "SSL"
    settings["security.protocol"] = transport if sasl is None else f"SASL_{transport}"
    if sasl is not None and sasl.oauth is not None:
        settings |= {"sasl.mechanism": sasl.mechanism, "oauth_cb": partial(_token, sasl.oauth, tls)}
    elif sasl is not None:
        settings |= {
            "sasl.mechanism": sasl.mechanism, "sasl.username": sasl.username, "sasl.password": sasl.password
        }  # fmt: skip
    if tls is not None:
        named = {
            "ssl.ca.pem": tls.trusted, "ssl.ca.location": tls.trusted_path, "ssl.certificate.pem": tls.chain,
            "ssl.key.pem": tls.key, "ssl.certificate.location": tls.chain_path,
            "ssl.key.location": tls.key_path, "ssl.key.password": tls.key_password,
            "ssl.endpoint.identification.algorithm": "https" if tls.check_host else "none",
        }  # fmt: skip
        settings |= {name: value for name, value in named.items() if value is not None}
    return settings


def _token(
    oauth: OAuthSettings, tls: TlsSettings | None, _: object
) -> tuple[str, float, str, dict[str, str]]:
    """As the library wants it: the token, the time until which it is used, a principal and extensions."""
    return token(oauth, tls), time.time() + _TOKEN_KEPT_S, oauth.client_id, dict(oauth.extensions)
