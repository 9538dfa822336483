"""Markers of transactions that arrive late, where a producer keeps its epoch from one transaction to the
next: A leads t-0, and another broker coordinates.
"""

from typing import Any

from tidelog.broker.coordinators.internal_topics import TRANSACTION_STATE
from tidelog.broker.coordinators.markers import WRITE_TXN_MARKERS
from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.batches import entries
from tidelog.sim.clients.client import ProduceCall, ReadCall, Reply
from tidelog.sim.clients.reader import AbortedBatches
from tidelog.sim.links import TIMEOUT_MS, LinkAsk
from tidelog.sim.stories.asking import ask, wait_for
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import STEP_MS, StoryFailed, expect

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 10, 22, 24, 26
INIT_VERSION, ADD_VERSION, END_VERSION, PRODUCE_VERSION = 4, 3, 3, 9  # as an older client has them
NAME = "p"


class OldProducer:
    """Of a client that does not know transaction version 2."""

    letter = b"r"  # of its records

    def __init__(self, story: Story) -> None:
        self._story = story
        self._records = 0
        found = {"key_type": 1, "coordinator_keys": [NAME]}
        ask(story, story.machine("A").node_id, FIND_COORDINATOR, found)
        story.until(lambda: self._coordinator() >= 0, "a coordinator")
        story.run(1000)
        if self._coordinator() == story.machine("A").node_id:
            raise StoryFailed("A coordinates, too")
        body = {
            "transactional_id": NAME,
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        answer = self._ask(INIT_PRODUCER_ID, body, INIT_VERSION)
        self._producer = (answer.producer_id, answer.producer_epoch)

    def _coordinator(self) -> int:
        topic = self._story.cluster.checker.metadata.newest.topics.get(TRANSACTION_STATE)
        return -1 if topic is None else topic.partitions[0].leader

    def _ask(self, api_key: int, body: dict[str, Any], version: int) -> Any:
        reply = wait_for(self._story, ask(self._story, self._coordinator(), api_key, body, 30_000, version))
        if reply.body is None:
            raise StoryFailed("no answer of the coordinator")
        return reply.body

    def write(self) -> None:
        """One more record, which begins a transaction if none is open."""
        story, (producer_id, epoch) = self._story, self._producer
        body = {
            "v3_and_below_transactional_id": NAME, "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        }  # fmt: skip
        self._ask(ADD_PARTITIONS_TO_TXN, body, ADD_VERSION)
        value = b"%b%d" % (self.letter, self._records + 1)
        batch = encode_batch(
            [Record(0, int(story.world.now_ms), None, value, ())], producer_id=producer_id,
            producer_epoch=epoch, base_sequence=self._records, transactional=True,
        )  # fmt: skip
        self._records += 1
        heard: list[Reply] = []
        number, client = story.client.next_number(), story.client
        call = ProduceCall(client.client_id, number, TOPIC, 0, bytes(batch), -1, 5000, NAME, PRODUCE_VERSION)
        client.ask(story.machine("A").node_id, call, heard.append)
        reply = wait_for(story, heard)
        story.tell(f"the producer writes {value.decode()}: {said(reply.error)}")
        expect(reply.error, ErrorCode.NONE)

    def end(self, *, commits: bool) -> None:
        producer_id, epoch = self._producer
        body = {
            "transactional_id": NAME, "producer_id": producer_id, "producer_epoch": epoch,
            "committed": commits,
        }  # fmt: skip
        code = ErrorCode(self._ask(END_TXN, body, END_VERSION).error_code)
        self._story.tell(f"the producer {'commits' if commits else 'aborts'}: {said(code)}")
        expect(code, ErrorCode.NONE)


def said(code: ErrorCode) -> str:
    return "ok" if code is ErrorCode.NONE else code.name


def read_committed(story: Story) -> list[str]:
    """What a ``read_committed`` reader gets of t-0."""
    heard: list[Reply] = []
    client = story.client
    call = ReadCall(client.client_id, client.next_number(), TOPIC, 0, 0, -1, -1, 1 << 20, True)
    client.ask(story.machine("A").node_id, call, heard.append)
    while not heard:
        story.run(STEP_MS)
    reply = heard[0]
    aborted = AbortedBatches(reply.aborted)
    values = [
        entry.value.decode()
        for place, header in iterate(reply.records)
        if not aborted.contain(header)
        for entry in entries(reply.records[place : place + header.size])
        if entry.value.startswith(b"r")
    ]
    result = " ".join(values) or "nothing" if reply.error is ErrorCode.NONE else said(reply.error)
    story.tell(f"read committed at A: {result}")
    return values


def copy_that_arrives_in_the_next_transaction() -> Story:
    """The first copy of a marker is delayed, and the coordinator sends another. When the first copy arrives,
    the next transaction of the same producer is open: the copy does not end it.
    """
    story = Story()
    producer = OldProducer(story)
    held: list[Any] = []

    def is_first_marker(sender: int, receiver: int, message: Any) -> bool:
        found = isinstance(message, LinkAsk) and message.api_key == WRITE_TXN_MARKERS and not held
        held.extend([message] if found else [])
        return found

    producer.write()
    story.network.withheld = is_first_marker
    producer.end(commits=True)
    story.tell("the marker does not arrive, and is sent again")
    expect(read_committed(story), [])
    story.run(TIMEOUT_MS + 500)
    expect(read_committed(story), ["r1"])
    producer.write()
    story.tell("the first copy arrives")
    story.network.withheld = None
    story.network.release()
    story.run(200)
    expect(read_committed(story), ["r1"])
    producer.end(commits=False)
    story.run(200)
    expect(read_committed(story), ["r1"])
    return story


STORIES = (copy_that_arrives_in_the_next_transaction,)
