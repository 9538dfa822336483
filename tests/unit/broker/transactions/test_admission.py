"""Batches that begin a transaction: who is asked, who waits, who is let in."""

from collections.abc import Callable
from typing import Any

import pytest

from interop.wire import parse_response
from tidelog.broker.coordinators.shard import LoadState
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.transactions.admission import (
    ADD_PARTITIONS_TO_TXN,
    Admission,
    Client,
    client_of_offset_commit,
    client_of_produce,
)
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol import requests
from tidelog.protocol.markers import Marker
from tidelog.protocol.records import Record, encode_batch
from tidelog.transactions.rules import ProducerIdAndEpoch
from unit.broker.fakes import FakeBroker, request_body, value_of
from unit.log.transaction_model import marker_batch

PRODUCER = ProducerIdAndEpoch(7, 0)
Done = Callable[[Any], None]


class Coordinator:
    """Whoever is asked about transactions; answers when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Done]] = []

    def controller(self) -> int:
        return 1

    def request(self, broker_id: int, api_key: int, body: Any, done: Done) -> None:
        assert api_key == ADD_PARTITIONS_TO_TXN
        self.asked.append((requests.request_of(api_key, body), done))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> Any:
        (request, done), *self.asked = self.asked
        (transaction,) = request.transactions
        results = [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": index, "partition_error_code": code} for index in topic.partitions
                ],
            }
            for topic in transaction.topics
        ]
        by_transaction = [{"transactional_id": transaction.transactional_id, "topic_results": results}]
        done(requests.response_of(ADD_PARTITIONS_TO_TXN, {"results_by_transaction": by_transaction}))
        return transaction


class Room:
    """A broker with two partitions, and a coordinator in the test's hands."""

    def __init__(self, **settings: object) -> None:
        self.broker = FakeBroker(**settings)
        self.broker.create("t", 2)
        self.broker.create("__transaction_state", 1)
        self.coordinator = Coordinator()
        self.broker.broker.links = self.coordinator
        self.admission: Admission = self.broker.broker.admission
        self.admission._coordinator_of = lambda transactional_id: 2  # type: ignore[method-assign]

    def write(
        self, sequence: int = 0, *, partition: int = 0, client: Client = Client.ADDS,
        producer: ProducerIdAndEpoch = PRODUCER, value: bytes = b"x",
        damaged: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Append a batch when it is admitted, as Produce does; what became of it, so far."""
        came: list[Any] = []
        place = self.broker.partition("t", partition)

        now_ms = self.broker.services.now_ms()
        batch = memoryview(
            encode_batch(
                [Record(0, now_ms, None, value)],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        if damaged:
            batch[-1] ^= 1
        refused = self.broker.broker.partitions.refused

        def then(refusal: TidelogError | None) -> None:
            try:
                if refusal is not None:
                    raise refusal
                before = refused.before("t", partition, batch)
                came.append(place.append(batch, now_ms, 11, refused=before, in_transaction=True).base_offset)
            except TidelogError as error:
                refused.note("t", partition, batch, error.code)
                came.append(error.code)

        self.admission.admit(place, "id", producer, client, then)
        self.broker.services.settle()
        return came

    def mark(
        self, epoch: int = 0, partition: int = 0, version: int = 0, *, sent: int = -1, by: int = 0
    ) -> None:
        """``sent``: where the log of the coordinator ended then; ``by``: its epoch."""
        now_ms = self.broker.services.now_ms()
        marker = Marker(True, by, sent)
        self.broker.partition("t", partition).append_marker(7, epoch, marker, now_ms, version)

    @property
    def open(self) -> dict[int, int]:
        return self.broker.partition("t").log.producers.transactions.open


@pytest.fixture
def room() -> Room:
    return Room()


class TestCoordinatedHere:
    """The coordinator is this broker: nobody need be asked over the network."""

    @pytest.fixture
    def broker(self) -> FakeBroker:
        broker = FakeBroker()
        broker.create("t", 2)
        broker.create("__transaction_state", 1)
        broker.services.settle()
        return broker

    def producer(self, broker: FakeBroker) -> ProducerIdAndEpoch:
        answer = broker.call("init_producer_id", 4, transactional_id="id", transaction_timeout=60_000)
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def admit(self, broker: FakeBroker, producer: ProducerIdAndEpoch, client: Client) -> list[Any]:
        came: list[Any] = []
        broker.broker.admission.admit(
            broker.partition("t"), "id", producer, client,
            lambda refusal: came.append(None if refusal is None else refusal.code),
        )  # fmt: skip
        return came

    def test_older_clients_are_answered_at_once(self, broker: FakeBroker) -> None:
        producer = self.producer(broker)
        assert self.admit(broker, producer, Client.ADDS) == [ErrorCode.INVALID_TXN_STATE]
        fields = {
            "v3_and_below_transactional_id": "id",
            "v3_and_below_producer_id": producer.producer_id,
            "v3_and_below_producer_epoch": producer.epoch,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        }
        broker.call("add_partitions_to_txn", 3, **fields)
        assert self.admit(broker, producer, Client.ADDS) == [None]
        fenced = ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1)
        assert self.admit(broker, fenced, Client.ADDS) == [ErrorCode.INVALID_PRODUCER_EPOCH]

    def test_newer_clients_when_their_partition_is_added(self, broker: FakeBroker) -> None:
        producer = self.producer(broker)
        came = self.admit(broker, producer, Client.WRITES)
        assert came == []
        broker.services.settle()
        assert came == [None]
        stranger = ProducerIdAndEpoch(4711, 0)
        came = self.admit(broker, stranger, Client.WRITES)
        broker.services.settle()
        assert came == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    def test_while_it_is_being_loaded(self) -> None:
        broker = FakeBroker()
        broker.create("t")
        broker.create("__transaction_state", 1)
        machines = broker.broker.coordinators.transactions
        machines._shards[0].state = LoadState.LOADING
        for client in Client:
            came = self.admit(broker, PRODUCER, client)
            broker.services.settle()
            assert came == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_by_version() -> None:
    assert [client_of_produce(version) for version in (9, 10, 11, 12, 13)] == [
        Client.ADDS, Client.ADDS, Client.ADDS_AND_ABORTS, Client.WRITES, Client.WRITES
    ]  # fmt: skip
    assert [client_of_offset_commit(version) for version in (3, 4, 5)] == [
        Client.ADDS, Client.ADDS_AND_ABORTS, Client.WRITES
    ]  # fmt: skip


@pytest.mark.parametrize("client", list(Client))
def test_the_coordinator_is_asked_once_per_transaction(room: Room, client: Client) -> None:
    first = room.write(client=client)
    assert first == []
    asked = room.coordinator.answer()
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("id", 7, 0)
    assert asked.verify_only is (client is not Client.WRITES)
    assert first == [0]
    assert room.write(1, client=client) == [1]
    assert room.coordinator.asked == []


def test_after_the_end_it_is_asked_again(room: Room) -> None:
    room.write()
    room.coordinator.answer()
    room.mark()
    late = room.write(1)
    room.coordinator.answer(ErrorCode.TRANSACTION_ABORTABLE)
    assert late == [ErrorCode.INVALID_TXN_STATE]


def test_partitions_of_one_turn_are_asked_for_together(room: Room) -> None:
    came: list[TidelogError | None] = []
    for partition in range(2):
        room.admission.admit(room.broker.partition("t", partition), "id", PRODUCER, Client.ADDS, came.append)
    room.broker.services.settle()
    (topic,) = room.coordinator.answer().topics
    assert (topic.name, topic.partitions) == ("t", (0, 1))
    assert came == [None, None]


def test_others_wait_behind_the_first(room: Room) -> None:
    waiting = [room.write(sequence) for sequence in range(4)]
    assert waiting == [[], [], [], []]
    assert len(room.coordinator.asked) == 1
    room.coordinator.answer()
    assert waiting == [[0], [1], [2], [3]]


def test_when_the_first_is_not_written_the_others_would_leave_a_gap(room: Room) -> None:
    first, second = room.write(value=bytes(2_000_000)), room.write(1)
    room.coordinator.answer()
    assert first == [ErrorCode.MESSAGE_TOO_LARGE]
    assert second == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert room.broker.partition("t").log.end_offset == 0


def test_when_the_first_is_sent_again_the_others_are_sent_again_too(room: Room) -> None:
    first, second = room.write(damaged=True), room.write(1)
    room.coordinator.answer()
    assert (first, second) == ([ErrorCode.CORRUPT_MESSAGE], [ErrorCode.NOT_ENOUGH_REPLICAS])
    again = [room.write(), room.write(1)]
    room.coordinator.answer()
    assert again == [[0], [1]]


@pytest.mark.parametrize("together", [False, True], ids=["single", "with another partition"])
def test_while_the_first_is_checked_in_a_thread_the_others_are_sent_again(room: Room, together: bool) -> None:
    """Its connection waits from then on, but the others are here already."""
    answers: list[list[Any]] = []

    def produce(data: bytes) -> None:
        parts = [{"index": 0, "records": data}]
        if together:
            parts.append({"index": 1, "records": None})
        topics = [{"name": "t", "partition_data": parts}]
        fields = {"transactional_id": "id", "acks": -1, "timeout": 30_000, "topic_data": topics}
        body = memoryview(bytearray(request_body(0, 11, fields)))
        context = RequestContext(0, 11, 7, "test", "peer")
        answers.append([])
        room.broker.producing.handle(body, 0, context, answers[-1].append)
        room.broker.services.settle()

    def error(place: int) -> ErrorCode:
        (frame,) = answers[place]
        found = parse_response(bytes(frame[4:]), "produce", 11, 7).responses[0].partition_responses[0]
        return ErrorCode(found.error_code)

    now_ms = room.broker.services.now_ms()
    rows = [Record(place, now_ms, None, b"v") for place in range(1000)]
    numbers: dict[str, Any] = {"producer_id": PRODUCER.producer_id, "producer_epoch": PRODUCER.epoch}
    first = encode_batch(rows, base_sequence=0, transactional=True, **numbers)
    batches.set_max_timestamp(first, now_ms + 5)  # That of no record, so all of them are looked at.
    second = encode_batch(rows[:1], base_sequence=1000, transactional=True, **numbers)
    room.broker.services.held = True
    produce(bytes(first))
    produce(bytes(second))
    room.coordinator.answer()
    room.broker.services.settle()
    assert answers[0] == []
    assert error(1) is ErrorCode.NOT_ENOUGH_REPLICAS
    room.broker.services.held = False
    room.broker.services.settle()
    produce(bytes(second))
    assert [error(place) for place in (0, 2)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert room.broker.partition("t").log.end_offset == 1001


@pytest.mark.parametrize(
    ("code", "client", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, Client.ADDS, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Client.ADDS_AND_ABORTS, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, Client.ADDS, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Client.ADDS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Client.ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Client.WRITES, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, Client.WRITES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Client.ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_refusals_in_words_that_a_producer_knows(
    room: Room, code: ErrorCode, client: Client, told: ErrorCode
) -> None:
    first, second = room.write(client=client), room.write(1, client=client)
    room.coordinator.answer(code)
    assert (first, second) == ([told], [told])
    assert room.broker.partition("t").log.end_offset == 0


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE])
def test_a_coordinator_that_cannot_be_reached(room: Room, code: ErrorCode) -> None:
    came = room.write()
    (_, done), *room.coordinator.asked = room.coordinator.asked
    done(TidelogError("away", code))
    assert came == [ErrorCode.NOT_ENOUGH_REPLICAS]
    again = room.write()
    room.coordinator.answer()
    assert again == [0]


def test_nobody_coordinates() -> None:
    broker = FakeBroker()
    broker.create("t")
    came: list[Any] = []
    broker.broker.admission.admit(broker.partition("t"), "id", PRODUCER, Client.ADDS, came.append)
    broker.services.settle()
    assert [refusal.code for refusal in came] == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_an_end_that_overtakes_the_answer_voids_it(room: Room) -> None:
    """The coordinator said yes, then the transaction was aborted: the batch would begin one that nobody
    ends."""
    came = room.write()
    room.mark()
    room.coordinator.answer()
    assert came == [ErrorCode.INVALID_TXN_STATE]
    assert room.broker.partition("t").log.producers.transactions.open == {}


def test_the_end_of_the_transaction_before_voids_nothing(room: Room) -> None:
    """With an epoch per transaction the next one may begin while the last one's marker is on its way."""
    room.write(client=Client.WRITES)
    room.coordinator.answer()
    following = ProducerIdAndEpoch(7, 1)
    came = room.write(client=Client.WRITES, producer=following)
    room.mark(epoch=1, version=2)
    room.coordinator.answer()
    assert came == [2]
    assert room.broker.partition("t").log.producers.transactions.open == {7: 2}


def test_an_end_with_a_newer_epoch_refuses_a_late_batch(room: Room) -> None:
    came = room.write(client=Client.WRITES)
    room.mark(epoch=1, version=2)
    room.coordinator.answer()
    assert came == [ErrorCode.INVALID_PRODUCER_EPOCH]


@pytest.mark.parametrize("client", list(Client))
def test_what_an_earlier_epoch_left_open_is_aborted_first(room: Room, client: Client) -> None:
    """The coordinator waits for every marker before the next epoch begins: that of the last one was lost."""
    room.write(client=client)
    room.coordinator.answer()
    waiting = [room.write(sequence, client=client, producer=ProducerIdAndEpoch(7, 2)) for sequence in (0, 1)]
    log = room.broker.partition("t").log
    assert log.end_offset == 1
    room.coordinator.answer()
    assert waiting == [[2], [3]]
    assert room.open == {7: 2}
    assert log.aborted_in(0, 1000, 4) == [(7, 0)]
    room.mark(epoch=3, version=2)
    assert log.aborted_in(0, 1000, 5) == [(7, 0)]


def test_offsets_that_an_earlier_epoch_left_pending_are_dropped(room: Room) -> None:
    """The coordinator of the group hears of the end that was lost, too."""
    broker = room.broker
    broker.create("__consumer_offsets", 1)
    broker.services.settle()

    def send(epoch: int, partition: int) -> None:
        offset = {"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}
        fields = {
            "transactional_id": "id", "group_id": "g", "producer_id": 7, "producer_epoch": epoch,
            "topics": [{"name": "t", "partitions": [offset]}],
        }  # fmt: skip
        future = broker.begin("txn_offset_commit", 5, **fields)
        broker.services.settle()
        room.coordinator.answer()
        broker.services.settle()
        (topic,) = value_of(future).topics
        assert topic.partitions[0].error_code == ErrorCode.NONE

    send(0, partition=0)
    send(2, partition=1)
    end = {
        "producer_id": 7, "producer_epoch": 3, "transaction_result": True, "coordinator_epoch": 0,
        "transaction_version": 2, "topics": [{"name": "__consumer_offsets", "partition_indexes": [0]}],
    }  # fmt: skip
    broker.call("write_txn_markers", 2, markers=[end])
    group = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0, 1]}]}
    answer = broker.call("offset_fetch", 8, groups=[group], require_stable=True)
    (topic,) = answer.groups[0].topics
    assert [each.committed_offset for each in topic.partitions] == [-1, 5]


def test_nothing_is_aborted_for_a_producer_that_may_not_begin(room: Room) -> None:
    room.write(client=Client.WRITES)
    room.coordinator.answer()
    came = room.write(client=Client.WRITES, producer=ProducerIdAndEpoch(7, 1))
    room.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert came == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert room.open == {7: 0}
    assert room.broker.partition("t").log.end_offset == 1


@pytest.mark.parametrize("follows", [False, True])
def test_an_answer_for_another_leadership_is_void(room: Room, follows: bool) -> None:
    """The producer tries again at the leader. An error of the transaction would make it abort."""
    came = room.write()
    partition = room.broker.partition("t")
    if follows:
        partition.driver.follow(partition.leader_epoch + 1, 2, (1, 2), 1)
    else:
        partition.driver.lead(partition.leader_epoch + 1, (1,), (1,), 1)
    room.coordinator.answer()
    assert came == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_follower_does_not_take_a_replicated_marker_for_the_end(room: Room) -> None:
    """It is the marker of the transaction before, which this broker replicates while it asks."""
    partition = room.broker.partition("t")
    partition.driver.follow(partition.leader_epoch + 1, 2, (1, 2), 1)
    came = room.write()
    marker = marker_batch(0, PRODUCER.producer_id, commits=True, leader_epoch=partition.leader_epoch)
    partition.driver.take(partition.leader_epoch, marker, 0, 0)
    assert partition.log.producers.marker_offset(PRODUCER.producer_id) == 0
    room.coordinator.answer()
    assert came == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_without_verification_nobody_is_asked() -> None:
    room = Room(transaction_partition_verification_enable=False)
    assert room.write() == [0]
    assert room.coordinator.asked == []


def test_a_marker_that_comes_twice_is_written_once_where_epochs_tell(room: Room) -> None:
    room.write(client=Client.WRITES)
    room.coordinator.answer()
    room.mark(epoch=1, version=2)
    partition = room.broker.partition("t")
    assert partition.log.end_offset == 2
    room.mark(epoch=1, version=2)
    assert partition.log.end_offset == 2
    room.write(client=Client.WRITES, producer=ProducerIdAndEpoch(7, 1))
    room.coordinator.answer()
    room.mark(epoch=1, version=2)
    assert partition.log.producers.transactions.open == {7: 2}, "the next transaction goes on"


def test_a_late_marker_of_an_old_client_does_not_end_the_next_transaction(room: Room) -> None:
    """Clients of transaction versions 0 and 1 keep their epoch: a copy of the marker that a broken connection
    delivers late looks like the end of what was begun since, but for the place in the coordinator's log.
    """
    room.write()
    room.coordinator.answer()
    room.mark(sent=10)
    room.write(1)
    room.coordinator.answer()
    for _ in range(2):
        room.mark(sent=10)
    assert room.open == {7: 2}
    assert room.broker.partition("t").log.end_offset == 3
    room.mark(sent=12)
    assert room.open == {}


def test_a_late_marker_does_not_void_what_the_coordinator_says(room: Room) -> None:
    room.write()
    room.coordinator.answer()
    room.mark(sent=10)
    came = room.write(1)
    room.mark(sent=10)
    room.coordinator.answer()
    assert came == [2]


def test_another_coordinator_counts_from_its_own_log(room: Room) -> None:
    """After an unclean election its log may be shorter. Markers of its predecessor are refused."""
    room.write()
    room.coordinator.answer()
    room.mark(sent=10)
    room.write(1)
    room.coordinator.answer()
    room.mark(sent=4, by=1)
    assert room.open == {}
    room.write(2)
    room.coordinator.answer()
    with pytest.raises(TidelogError) as refusal:
        room.mark(sent=10)
    assert refusal.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    room.mark(sent=4, by=1)
    assert room.open == {7: 4}


def test_an_administrator_ends_whatever_is_open(room: Room) -> None:
    """It tells no place, and takes none away."""
    room.write()
    room.coordinator.answer()
    room.mark(sent=10)
    room.write(1)
    room.coordinator.answer()
    room.mark()
    assert room.open == {}
    room.write(2)
    room.coordinator.answer()
    room.mark(sent=10)
    assert room.open == {7: 4}


def test_offsets_of_a_group_are_not_numbered(room: Room) -> None:
    """One that is refused for a reason of its own does not take the others with it."""
    came: list[Any] = []
    place = room.broker.partition("t")
    for _ in range(2):
        room.admission.admit(place, "id", PRODUCER, Client.ADDS, came.append)
    room.broker.services.settle()
    room.coordinator.answer()
    assert came == [None, None]


def doubtful_batch(room: Room) -> bytearray:
    """Its header names a later timestamp than its records, which are too many to look at at once."""
    now_ms = room.broker.services.now_ms()
    many = [Record(place, now_ms, None, b"x") for place in range(1000)]
    batch = bytearray(
        encode_batch(many, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    batches.set_max_timestamp(memoryview(batch), now_ms + 5)
    return batch


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ends", [False, True])
def test_a_transaction_may_end_while_a_batch_is_checked_in_a_thread(ends: bool, count: int) -> None:
    """The batch would begin one that never ends."""
    room = Room()
    room.broker.services.held = True
    partitions = [{"index": index, "records": bytes(doubtful_batch(room))} for index in range(count)]
    topics = [{"name": "t", "topic_id": None, "partition_data": partitions}]
    body = request_body(
        0, 11, {"transactional_id": "id", "acks": -1, "timeout": 30_000, "topic_data": topics}
    )
    sent: list[Any] = []

    def send(frame: bytes | bytearray | None) -> None:
        assert frame is not None
        sent.append(parse_response(bytes(frame[4:]), "produce", 11, 7))

    context = room.broker.context(0, 11)
    room.broker.producing.handle(memoryview(bytearray(body)), 0, context, send)
    room.broker.services.settle()
    room.coordinator.answer()
    room.broker.services.settle()
    assert not sent
    if ends:
        for index in range(count):
            room.mark(partition=index)
    room.broker.services.held = False
    room.broker.services.settle()
    (response,) = sent
    wanted = ErrorCode.INVALID_TXN_STATE if ends else ErrorCode.NONE
    found = [each.error_code for each in response.responses[0].partition_responses]
    assert found == [wanted] * count
    assert bool(room.open) is not ends
