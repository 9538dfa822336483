"""Transactions that no coordinator knows any more, and what an operator does about them."""

from tidelog.broker.coordinators.internal_topics import TRANSACTION_STATE
from tidelog.errors import ErrorCode
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim import hanging
from tidelog.sim.checkers.batches import entries
from tidelog.sim.clients.client import ProduceCall, ReadCall, Reply
from tidelog.sim.stories.asking import wait_for
from tidelog.sim.stories.late_markers import END_TXN, NAME, OldProducer, said
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

EPOCH_END_VERSION = 5  # of EndTxn, whose response has the next epoch


class _Transactional(OldProducer):
    letter = b"t"


def _read_committed(story: Story) -> list[str]:
    """What a ``read_committed`` reader gets from the leader, without aborted records."""
    heard: list[Reply] = []
    client, leader = story.client, story.leader()
    call = ReadCall(client.client_id, client.next_number(), TOPIC, 0, 0, -1, -1, 1 << 20, True)
    client.ask(story.machine(leader).node_id, call, heard.append)
    reply = wait_for(story, heard)
    aborted = {first for _, first in reply.aborted}
    values = [entry.value.decode() for entry in entries(reply.records) if entry.offset not in aborted]
    story.tell(f"read committed at {leader}: {' '.join(values) or 'nothing'}")
    return values


def _is_coordinated(story: Story) -> bool:
    topic = story.cluster.checker.metadata.newest.topics[TRANSACTION_STATE]
    return topic.partitions[0].leader >= 0 and len(topic.partitions[0].in_sync) == 3


def forget_a_transaction() -> Story:
    """All brokers lose power while a transaction is open. Its partition syncs every record and has it; the
    coordinator's log does not, and has lost its end.
    """
    story = Story(flush_messages="1")
    _Transactional(story)
    producer = _Transactional(story)  # replaces it, and is known to a log that was synced last with it
    expect(story.write(), ErrorCode.NONE)
    producer.write()
    producer.end(commits=True)
    story.run(100)
    producer.write()
    story.power_off("ABC")
    story.run(500)
    story.start("ABC")
    story.until(lambda: story.is_led_anew(0) and story.all_in_sync(), "the return of everybody")
    story.until(lambda: _is_coordinated(story), "the return of the coordinator")
    story.run(1000)
    expect(story.write(), ErrorCode.NONE)
    return story


def coordinator_that_forgot() -> Story:
    """All brokers lose power while a transaction is open. Its partition syncs every record and has it; the
    coordinator's log does not, and has lost its end. No coordinator will end the transaction: read_committed
    readers wait before it, and continue when an operator has aborted it.
    """
    story = forget_a_transaction()
    expect(_read_committed(story), ["r1", "t1"])
    [found] = hanging.find(story.cluster)
    story.tell(f"an operator aborts the transaction that begins at offset {found.start_offset}")
    hanging.abort(story.client, found)
    story.run(500)
    expect(hanging.find(story.cluster), [])
    expect(_read_committed(story), ["r1", "t1", "r2"])
    return story


class _EpochPerTransaction(_Transactional):
    """Of a client with transaction version 2: the leader adds its partition, and every end gives it a new
    epoch, with which its sequences begin again.
    """

    def write(self) -> None:
        story, (producer_id, epoch) = self._story, self._producer
        self._records += 1
        value = b"%b%d" % (self.letter, self._records)
        batch = encode_batch(
            [Record(0, int(story.world.now_ms), None, value, ())], producer_id=producer_id,
            producer_epoch=epoch, base_sequence=0, transactional=True,
        )  # fmt: skip
        heard: list[Reply] = []
        client, leader = story.client, story.leader()
        call = ProduceCall(client.client_id, client.next_number(), TOPIC, 0, bytes(batch), -1, 5000, NAME)
        client.ask(story.machine(leader).node_id, call, heard.append)
        story.tell(f"the producer writes {value.decode()} to {leader}: {said(wait_for(story, heard).error)}")
        expect(heard[0].error, ErrorCode.NONE)

    def end(self, *, commits: bool) -> None:
        producer_id, epoch = self._producer
        body = {
            "transactional_id": NAME, "producer_id": producer_id, "producer_epoch": epoch,
            "committed": commits,
        }  # fmt: skip
        answer = self._ask(END_TXN, body, EPOCH_END_VERSION)
        code = ErrorCode(answer.error_code)
        self._story.tell(f"the producer {'commits' if commits else 'aborts'}: {said(code)}")
        expect(code, ErrorCode.NONE)
        self._producer = (answer.producer_id, answer.producer_epoch)


def next_transaction_where_the_end_was_lost() -> Story:
    """A transaction is aborted while C is dead. Then A and B are dead, and an operator has C lead, which has
    the record and not the marker. The producer's next transaction commits: that does not commit the record of
    the aborted one, too.
    """
    story = Story()
    producer = _EpochPerTransaction(story)
    producer.write()
    story.run(500)
    story.kill("C")
    story.run(3000)
    producer.end(commits=False)
    story.run(500)
    story.kill("AB")
    story.start("C")
    story.run(3000)
    story.elect_unclean()
    story.start("AB")
    story.until(story.all_in_sync, "the return of A and B")
    story.until(lambda: _is_coordinated(story), "the return of the coordinator")
    story.run(1000)
    expect(_read_committed(story), [])
    producer.write()
    producer.end(commits=True)
    story.run(500)
    expect(_read_committed(story), ["t2"])
    return story


STORIES = (coordinator_that_forgot, next_transaction_where_the_end_was_lost)
