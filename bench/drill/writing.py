"""Producers that write all the time: one without and one with transactions for each topic.

Owns what is written. Every value is a JSON object with a number, a text and the fields of the present schema,
or, now and then, something that is none of that. What became of each record goes to the ledger.
"""

import itertools
import json
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.drill.ledger import Ledger, Place, Written
from bench.drill.topics import PARTITIONS, Topic

PAUSE_S = 0.8
BURST = 10  # Records between two pauses.
UNDECODABLE_EVERY = 37
ABORTED_SHARE = 0.3
COMMIT_TRIES_S = 60.0
# Longer than any fault: what the client gives up on is uncertain, and says nothing about the archive.
CLIENT = {
    "acks": "all",
    "enable.idempotence": True,
    "socket.timeout.ms": 3000,
    "reconnect.backoff.max.ms": 500,
    "delivery.timeout.ms": 240_000,
    "linger.ms": 5,
    "log_level": 2,
}
BROKEN = (b"no JSON at all", b'{"n": "not a number"}', b'{"n": 1} and more')


class Schema:
    """Fields are added to the archive first, and to values once every run that lives knows them."""

    def __init__(self) -> None:
        self.archived = 0  # The number of fields that were added.
        self.written = 0

    def columns(self, fields: int) -> str:
        """For ``--schema``."""
        added = "".join(f", f{number} long" for number in range(1, fields + 1))
        return f"n long, text string{added}"


class Writer(threading.Thread):
    """``commits``: with transactions."""

    def __init__(
        self, bootstrap: str, topic: Topic, ledger: Ledger, schema: Schema, seed: int, *, commits: bool
    ) -> None:
        kind = "t" if commits else "p"
        super().__init__(name=f"writer {topic.name} {kind}", daemon=True)
        self._id = f"{topic.name}-{kind}"
        self._brokers, self._topic, self._ledger, self._schema = bootstrap, topic, ledger, schema
        self._chance = random.Random(f"{seed} {self._id}")
        self._commits = commits
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self.failure: Exception | None = None

    def end(self) -> None:
        self._ended.set()
        self._topic.wake()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                with self._topic.writing(self._ended) as may_write:
                    if may_write:
                        self._write()
                self._ended.wait(PAUSE_S)
        except Exception as failure:  # told by the drill, in whose thread it would be lost
            self.failure = failure

    def _write(self) -> None:
        """A producer for a few bursts: it must not know a topic that is exchanged in between."""
        settings: dict[str, Any] = {**CLIENT, "bootstrap.servers": self._brokers}
        if self._commits:
            settings |= {
                "transactional.id": self._id,
                "transaction.timeout.ms": CLIENT["delivery.timeout.ms"],
            }
        producer = Producer(settings)
        if self._commits and not _settled(producer.init_transactions, self._ended):
            return
        for _ in range(self._chance.randint(5, 25)):
            if self._ended.is_set():
                break
            if not (self._transaction(producer) if self._commits else self._burst(producer)):
                break
            self._ended.wait(PAUSE_S)

    # -- one burst -------------------------------------------------------------------------

    def _burst(self, producer: Producer) -> bool:
        sent = self._send(producer)
        self._ledger.commit(one for one in sent if one.place is not None)
        lost = [one for one in sent if one.place is None]
        self._ledger.doubt(lost)
        return not lost

    def _transaction(self, producer: Producer) -> bool:
        producer.begin_transaction()
        sent = self._send(producer)
        if self._chance.random() < ABORTED_SHARE or any(one.place is None for one in sent):
            ended = _settled(producer.abort_transaction, threading.Event())
            (self._ledger.abort if ended else self._ledger.doubt)(sent)
            return ended
        ended = _settled(producer.commit_transaction, threading.Event())
        (self._ledger.commit if ended else self._ledger.doubt)(sent)
        return ended

    def _send(self, producer: Producer) -> list[Written]:
        """Returns once each of them is acknowledged or given up."""
        places: dict[str, Place] = {}
        values: dict[str, bytes] = {}
        for _ in range(BURST):
            number = next(self._numbers)
            key = f"{self._id}-{number}"
            values[key] = self._value(number)
            told = partial(self._told, places, key)
            partition = self._chance.randrange(PARTITIONS)
            producer.produce(self._topic.name, values[key], key, partition, on_delivery=told)
            producer.poll(0)
        producer.flush()
        return [Written(key, value, places.get(key)) for key, value in values.items()]

    def _told(self, places: dict[str, Place], key: str, error: KafkaError | None, message: Message) -> None:
        offset, partition = message.offset(), message.partition()
        if error is None and offset is not None and partition is not None:
            places[key] = Place(self._topic.name, self._topic.id, partition, offset)

    def _value(self, number: int) -> bytes:
        if number % UNDECODABLE_EVERY == UNDECODABLE_EVERY - 1:
            return self._chance.choice(BROKEN)
        fields = {f"f{field}": number * field for field in range(1, self._schema.written + 1)}
        return json.dumps({"n": number, "text": f"record {number} of {self._id}", **fields}).encode()


def _settled(call: Callable[..., Any], ended: threading.Event) -> bool:
    """Until it is done; False if the client must begin again, and the outcome is not known."""
    while not ended.is_set():
        try:
            call(COMMIT_TRIES_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.retriable():
                return False
        else:
            return True
    return False
