"""Transactions request by request: every version, epochs, late batches, and whatever is asked at the wrong
time.

Two kinds of clients are played. Older ones add partitions before they write (AddPartitionsToTxn) and keep
their epoch; newer ones only write (Produce 12), and get a new epoch with the end of every transaction (EndTxn
5).
"""

import struct
import uuid
from functools import partial
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .conftest import CreateTopic
from .records import batch, reseal
from .transactional import await_stable, find_coordinator, retried, stable_offset
from .wire import Wire

pytestmark = pytest.mark.interop

OLD_PRODUCE, NEW_PRODUCE = 11, 12
OLD_END, NEW_END = 4, 5
TRANSACTIONAL = 0x10
PASSING = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.concurrent_transactions,
    ErrorCode.not_coordinator,
)


class Player:
    """A transactional producer, one request at a time."""

    def __init__(self, wire: Wire, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self, version: int = 4, **more: Any) -> Any:
        find_coordinator(self.wire, self.transactional_id, 1)
        answer = retried(lambda: self.init_once(version, **more), *PASSING)
        if answer.error_code is ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def init_once(self, version: int = 4, **more: Any) -> Any:
        fields = {"transactional_id": self.transactional_id, "transaction_timeout": self.timeout_ms, **more}
        return self.wire.call("init_producer_id", version, **fields)

    @property
    def who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        """Asks again while the transaction before is being completed, as clients do."""
        found: list[list[ErrorCode]] = []

        def settled() -> bool:
            found.append(self._add(topic, *partitions, version=version))
            return ErrorCode.concurrent_transactions not in found[-1]

        calls.eventually(settled, "the transaction before is complete")
        return found[-1]

    def _add(self, topic: str, *partitions: int, version: int) -> list[ErrorCode]:
        topics = [{"name": topic, "partitions": partitions or (0,)}]
        if version < 4:
            fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in self.who.items()}
            answer = self.wire.call("add_partitions_to_txn", version, **fields, v3_and_below_topics=topics)
            by_topic = answer.results_by_topic_v3_and_below
        else:
            transactions = [{**self.who, "verify_only": False, "topics": topics}]
            answer = self.wire.of_node.call("add_partitions_to_txn", version, transactions=transactions)
            by_topic = answer.results_by_transaction[0].topic_results
        return [part.partition_error_code for each in by_topic for part in each.results_by_partition]

    def verify(self, topic: str, *partitions: int) -> list[ErrorCode]:
        topics = [{"name": topic, "partitions": partitions or (0,)}]
        transactions = [{**self.who, "verify_only": True, "topics": topics}]
        answer = self.wire.of_node.call("add_partitions_to_txn", 4, transactions=transactions)
        (result,) = answer.results_by_transaction
        return [
            part.partition_error_code for each in result.topic_results for part in each.results_by_partition
        ]

    def write(self, topic: str, *values: bytes, partition: int = 0, version: int = OLD_PRODUCE) -> Any:
        key = (topic, partition)
        sequence = self.sequences.get(key, 0)
        data = transactional_batch(*values, producer=(self.producer_id, self.epoch, sequence))
        place: dict[str, Any] = {
            "partition": partition,
            "version": version,
            "transactional_id": self.transactional_id,
        }
        answer = calls.produce(self.wire, topic, data, **place)
        if answer.error_code is ErrorCode.none:
            self.sequences[key] = sequence + len(values)
        return answer

    def end(self, *, commits: bool = True, version: int = OLD_END, again: bool = True) -> Any:
        codes = PASSING if again else ()
        answer = retried(lambda: self.wire.call("end_txn", version, **self.who, committed=commits), *codes)
        if version >= NEW_END and answer.error_code is ErrorCode.none:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer


def transactional_batch(*values: bytes, producer: tuple[int, int, int]) -> bytes:
    data = batch(*values, producer=producer)
    (attributes,) = struct.unpack_from(">h", data, 21)
    struct.pack_into(">h", data, 21, attributes | TRANSACTIONAL)
    return bytes(reseal(data))


@pytest.fixture
def name() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def wire(wire: Wire, node_wire: Wire) -> Wire:
    wire.of_node = node_wire
    return wire


@pytest.fixture
def player(wire: Wire, name: str) -> Player:
    player = Player(wire, name)
    assert player.init().error_code is ErrorCode.none
    return player


class TestEveryVersion:
    def test_init_producer_id(self, wire: Wire, name: str) -> None:
        player = Player(wire, name)
        for number, version in enumerate(wire.versions()["init_producer_id"]):
            assert player.init(version).error_code is ErrorCode.none
            assert player.epoch == number

    def test_add_partitions_and_end(self, wire: Wire, create_topic: CreateTopic, name: str) -> None:
        topic = create_topic(partitions=2)
        player = Player(wire, name)
        player.init()
        for version in wire.versions()["add_partitions_to_txn"]:
            assert player.add(topic, 0, 1, version=version) == [ErrorCode.none] * 2
            assert player.end().error_code is ErrorCode.none

    def test_end(self, wire: Wire, topic: str, player: Player) -> None:
        for version in wire.versions()["end_txn"]:
            assert player.add(topic) == [ErrorCode.none]
            assert player.write(topic, b"x").error_code is ErrorCode.none
            assert player.end(version=version).error_code is ErrorCode.none
        await_stable(wire, topic)

    def test_add_offsets(self, wire: Wire, topic: str, player: Player, name: str) -> None:
        for version in wire.versions()["add_offsets_to_txn"]:
            answer = retried(
                partial(wire.call, "add_offsets_to_txn", version, **player.who, group_id=name),
                *PASSING,
            )
            assert answer.error_code is ErrorCode.none
            assert player.end().error_code is ErrorCode.none

    def test_clients_learn_that_epochs_may_rise_with_every_transaction(self, wire: Wire) -> None:
        software = {"client_software_name": "x", "client_software_version": "1"}
        for version in (3, 4):
            answer = wire.call("api_versions", version, **software)
            features = {each.name: each.max_version_level for each in answer.finalized_features}
            assert features["transaction.version"] == 2
            assert answer.finalized_features_epoch >= 0
            assert all(each.min_version >= (0 if version == 4 else 1) for each in answer.supported_features)


class TestOlderClients:
    def test_a_batch_outside_of_a_transaction_is_refused(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        assert player.write(topic, b"x", version=10).error_code is ErrorCode.invalid_txn_state
        assert player.write(topic, b"x", version=11).error_code is ErrorCode.transaction_abortable
        assert calls.end_offset(wire, topic) == 0

    def test_a_batch_that_comes_after_the_end_is_refused(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.add(topic)
        player.write(topic, b"x")
        player.end()
        end_offset = await_stable(wire, topic)
        assert player.write(topic, b"late", version=10).error_code is not ErrorCode.none
        assert (calls.end_offset(wire, topic), stable_offset(wire, topic)) == (end_offset, end_offset)

    def test_a_partition_that_was_not_added_is_refused(
        self, wire: Wire, create_topic: CreateTopic, player: Player
    ) -> None:
        topic = create_topic(partitions=2)
        player.add(topic, 0)
        assert player.write(topic, b"x").error_code is ErrorCode.none
        refused = player.write(topic, b"x", partition=1, version=10)
        assert refused.error_code is ErrorCode.invalid_txn_state

    def test_a_batch_of_a_transaction_needs_the_id_of_one(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        data = transactional_batch(b"x", producer=(player.producer_id, player.epoch, 0))
        refused = calls.produce(wire, topic, data)
        assert refused.error_code is ErrorCode.transactional_id_authorization_failed
        assert calls.end_offset(wire, topic) == 0

    @pytest.mark.not_kafka  # which stores it, and hides it from nobody
    def test_a_batch_of_a_transaction_needs_a_producer(self, wire: Wire, topic: str, name: str) -> None:
        nobodys = transactional_batch(b"x", producer=(-1, -1, -1))
        refused = calls.produce(wire, topic, nobodys, transactional_id=name)
        assert refused.error_code is ErrorCode.invalid_record

    def test_a_plain_batch_inside_a_transaction_is_refused(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.add(topic)
        player.write(topic, b"x")
        plain = bytes(batch(b"y", producer=(player.producer_id, player.epoch, 1)))
        assert calls.produce(wire, topic, plain).error_code is ErrorCode.invalid_txn_state

    def test_a_batch_sent_again_is_stored_once(self, wire: Wire, topic: str, player: Player) -> None:
        player.add(topic)
        first = player.write(topic, b"x")
        player.sequences.clear()
        assert player.write(topic, b"x").base_offset == first.base_offset
        assert calls.end_offset(wire, topic) == 1

    def test_sequences_go_on_over_transactions(self, wire: Wire, topic: str, player: Player) -> None:
        for number in range(4):
            player.add(topic)
            assert player.write(topic, b"x", b"y").error_code is ErrorCode.none
            player.end(commits=number % 2 == 0)
        assert await_stable(wire, topic) == 12

    def test_batches_on_their_way_while_the_coordinator_is_asked_keep_their_order(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.add(topic)
        sent = []
        for sequence in range(5):
            producer = (player.producer_id, player.epoch, sequence)
            data = transactional_batch(b"%d" % sequence, producer=producer)
            request = calls.produce_request(topic, data, 0, acks=-1, transactional_id=player.transactional_id)
            sent.append(wire.send("produce", OLD_PRODUCE, **request))
        answers = [wire.receive("produce", OLD_PRODUCE, each) for each in sent]
        parts = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(part.error_code, part.base_offset) for part in parts] == [
            (ErrorCode.none, offset) for offset in range(5)
        ]

    @pytest.mark.parametrize(("commits", "other"), [(True, False), (False, True)])
    def test_an_end_may_be_repeated_but_not_turned(
        self, wire: Wire, topic: str, player: Player, commits: bool, other: bool
    ) -> None:
        player.add(topic)
        player.write(topic, b"x")
        assert player.end(commits=commits).error_code is ErrorCode.none
        assert player.end(commits=commits).error_code is ErrorCode.none
        assert player.end(commits=other).error_code is ErrorCode.invalid_txn_state

    @pytest.mark.parametrize("commits", [True, False])
    def test_an_end_of_nothing_is_refused(self, player: Player, commits: bool) -> None:
        assert player.end(commits=commits).error_code is ErrorCode.invalid_txn_state

    def test_verification_alone_adds_nothing(
        self, wire: Wire, create_topic: CreateTopic, player: Player
    ) -> None:
        topic = create_topic(partitions=2)
        player.add(topic, 0)
        assert set(player.verify(topic, 0, 1)) == {ErrorCode.none, ErrorCode.transaction_abortable}
        assert player.verify(topic, 1) == [ErrorCode.transaction_abortable]


class TestNewerClients:
    def test_partitions_are_added_with_the_first_record(
        self, wire: Wire, create_topic: CreateTopic, player: Player
    ) -> None:
        topic = create_topic(partitions=3)
        for number in range(6):
            epoch = player.epoch
            for partition in range(3):
                written = retried(
                    partial(player.write, topic, b"x", partition=partition, version=NEW_PRODUCE),
                    ErrorCode.concurrent_transactions,
                )
                assert written.error_code is ErrorCode.none
            assert player.end(commits=number % 2 == 0, version=NEW_END).error_code is ErrorCode.none
            assert player.epoch == epoch + 1
        for partition in range(3):
            assert await_stable(wire, topic, partition) == 12
            answer = calls.fetch(wire, topic, 0, partition=partition, isolation_level=1)
            assert [each.first_offset for each in answer.aborted_transactions] == [2, 6, 10]

    def test_by_topic_id(self, wire: Wire, topic: str, player: Player) -> None:
        assert player.write(topic, b"x", version=calls.PRODUCE_BY_ID).error_code is ErrorCode.none
        assert player.end(version=NEW_END).error_code is ErrorCode.none
        assert await_stable(wire, topic) == 2

    def test_a_late_batch_of_an_ended_transaction_is_refused(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.write(topic, b"x", version=NEW_PRODUCE)
        old_epoch = player.epoch
        player.end(version=NEW_END)
        end_offset = await_stable(wire, topic)
        player.epoch = old_epoch
        refused = player.write(topic, b"late", version=NEW_PRODUCE)
        assert refused.error_code is ErrorCode.invalid_producer_epoch
        assert (calls.end_offset(wire, topic), stable_offset(wire, topic)) == (end_offset, end_offset)

    def test_an_end_sent_again_answers_the_same(self, wire: Wire, topic: str, player: Player) -> None:
        player.write(topic, b"x", version=NEW_PRODUCE)
        who = player.who
        player.end(version=NEW_END)
        answer = retried(lambda: wire.call("end_txn", NEW_END, **who, committed=True), *PASSING)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, player.epoch)
        turned = retried(lambda: wire.call("end_txn", NEW_END, **who, committed=False), *PASSING)
        assert turned.error_code is ErrorCode.invalid_txn_state

    def test_an_abort_of_nothing(self, player: Player) -> None:
        epoch = player.epoch
        assert player.end(commits=False, version=NEW_END).error_code is ErrorCode.none
        assert player.epoch == epoch + 1
        assert player.end(commits=True, version=NEW_END).error_code is ErrorCode.invalid_txn_state

    @pytest.mark.not_kafka  # which lets the client ask again
    def test_transactions_follow_each_other_without_waiting(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        """The first batch comes while the markers of the transaction before are still being written."""
        for _ in range(50):
            answer = player.write(topic, b"x", version=NEW_PRODUCE)
            assert answer.error_code is ErrorCode.none
            assert player.end(version=NEW_END).error_code is ErrorCode.none
        assert await_stable(wire, topic) == 100


class TestFencing:
    @pytest.mark.parametrize(("version", "code"), [(1, "invalid_producer_epoch"), (3, "producer_fenced")])
    def test_an_older_epoch(self, wire: Wire, topic: str, player: Player, version: int, code: str) -> None:
        newer = Player(wire, player.transactional_id)
        newer.init()
        assert player.add(topic, version=version) == [ErrorCode[code]]
        assert player.end(version=version, again=False).error_code is ErrorCode[code]
        answer = wire.call("add_offsets_to_txn", version, **player.who, group_id="g")
        assert answer.error_code is ErrorCode[code]

    def test_a_newer_producer_aborts_what_is_open(self, wire: Wire, topic: str, player: Player) -> None:
        player.add(topic)
        player.write(topic, b"x")
        newer = Player(wire, player.transactional_id)
        find_coordinator(wire, player.transactional_id, 1)
        assert newer.init_once().error_code is ErrorCode.concurrent_transactions
        assert newer.init().error_code is ErrorCode.none
        assert newer.producer_id == player.producer_id
        assert newer.epoch > player.epoch + 1
        assert await_stable(wire, topic) == 2
        refused = player.write(topic, b"late", version=10)
        assert refused.error_code is ErrorCode.invalid_producer_epoch
        answer = calls.fetch(wire, topic, 0, isolation_level=1)
        assert [each.producer_id for each in answer.aborted_transactions] == [player.producer_id]

    def test_a_foreign_producer_id(self, wire: Wire, topic: str, player: Player) -> None:
        player.producer_id += 1_000_000
        assert player.add(topic) == [ErrorCode.invalid_producer_id_mapping]
        assert player.end(again=False).error_code is ErrorCode.invalid_producer_id_mapping

    def test_an_id_that_nobody_has(self, wire: Wire, topic: str, player: Player) -> None:
        player.transactional_id += "-unknown"
        find_coordinator(wire, player.transactional_id, 1)
        assert player.add(topic) == [ErrorCode.invalid_producer_id_mapping]
        assert player.end(again=False).error_code is ErrorCode.invalid_producer_id_mapping

    def test_a_producer_may_raise_its_own_epoch(self, wire: Wire, topic: str, player: Player) -> None:
        known = {"producer_id": player.producer_id, "producer_epoch": player.epoch}
        raised = player.init(**known)
        assert raised.producer_epoch == known["producer_epoch"] + 1
        assert player.init(**known).producer_epoch == raised.producer_epoch, "a retry"
        Player(wire, player.transactional_id).init()
        assert player.init(**known).error_code is ErrorCode.producer_fenced


class TestBadRequests:
    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_timeouts(self, wire: Wire, name: str, timeout_ms: int) -> None:
        player = Player(wire, name, timeout_ms)
        assert player.init().error_code is ErrorCode.invalid_transaction_timeout

    def test_an_empty_id(self, wire: Wire) -> None:
        assert Player(wire, "").init_once().error_code is ErrorCode.invalid_request

    def test_unknown_partitions_take_the_others_with_them(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        assert player.add(topic, 0, 7) == [
            ErrorCode.operation_not_attempted,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert player.add("no-such-topic") == [ErrorCode.unknown_topic_or_partition]
        assert player.verify(topic) == [ErrorCode.transaction_abortable], "nothing was added"

    def test_a_coordinator_elsewhere(self, wire: Wire, topic: str, player: Player) -> None:
        answer = wire.call("describe_transactions", 0, transactional_ids=[""])
        assert answer.transaction_states[0].error_code is ErrorCode.invalid_request

    @pytest.mark.not_kafka  # which does not show this version yet
    def test_two_phase_commit_is_refused(self, wire: Wire, player: Player) -> None:
        answer = player.init_once(6, enable2_pc=True)
        assert answer.error_code is ErrorCode.transactional_id_authorization_failed
        answer = player.init_once(6, keep_prepared_txn=True)
        assert answer.error_code is ErrorCode.unsupported_version

    def test_clients_may_not_write_markers_as_records(self, wire: Wire, topic: str, player: Player) -> None:
        data = bytearray(transactional_batch(b"x", producer=(player.producer_id, player.epoch, 0)))
        struct.pack_into(">h", data, 21, TRANSACTIONAL | 0x20)
        refused = calls.produce(wire, topic, bytes(reseal(data)), transactional_id=player.transactional_id)
        assert refused.error_code is ErrorCode.invalid_record


class TestMarkers:
    def write(
        self, wire: Wire, topic: str, producer: tuple[int, int], *, commits: bool, **more: Any
    ) -> ErrorCode:
        producer_id, epoch = producer
        marker = {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transaction_result": commits,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "coordinator_epoch": 0,
            **more,
        }
        version = 2 if "transaction_version" in more else 1
        sender = wire.of_node if commits else wire
        answer = sender.call("write_txn_markers", version, markers=[marker])
        code: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
        return code

    def test_an_administrator_may_end_a_transaction(self, wire: Wire, topic: str, player: Player) -> None:
        player.add(topic)
        player.write(topic, b"x")
        producer = (player.producer_id, player.epoch)
        assert self.write(wire, topic, producer, commits=False) is ErrorCode.none
        assert stable_offset(wire, topic) == calls.end_offset(wire, topic) == 2

    @pytest.mark.not_kafka  # which lets administrators commit, too
    def test_an_administrator_cannot_commit_one(self, wire: Wire, topic: str, player: Player) -> None:
        """Only the coordinator knows whether all of it was written."""
        player.add(topic)
        player.write(topic, b"x")
        marker = {
            "producer_id": player.producer_id,
            "producer_epoch": player.epoch,
            "transaction_result": True,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
        answer = wire.call("write_txn_markers", 1, markers=[marker])
        code = answer.markers[0].topics[0].partitions[0].error_code
        assert code is ErrorCode.cluster_authorization_failed
        assert stable_offset(wire, topic) == 0

    def test_a_marker_of_an_older_epoch_is_refused(self, wire: Wire, topic: str, player: Player) -> None:
        player.init()
        player.add(topic)
        player.write(topic, b"x")
        older = (player.producer_id, player.epoch - 1)
        assert self.write(wire, topic, older, commits=True) is ErrorCode.invalid_producer_epoch
        assert stable_offset(wire, topic) == 0

    def test_a_marker_of_an_older_coordinator_is_refused(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.add(topic)
        player.write(topic, b"x")
        producer = (player.producer_id, player.epoch)
        assert self.write(wire, topic, producer, commits=False, coordinator_epoch=5) is ErrorCode.none
        refused = self.write(wire, topic, producer, commits=False, coordinator_epoch=4)
        assert refused is ErrorCode.transaction_coordinator_fenced

    @pytest.mark.not_kafka  # which refuses it
    def test_a_marker_that_comes_twice_does_not_end_the_next_transaction(
        self, wire: Wire, topic: str, player: Player
    ) -> None:
        player.write(topic, b"x", version=NEW_PRODUCE)
        player.end(version=NEW_END)
        await_stable(wire, topic)
        player.write(topic, b"next", version=NEW_PRODUCE)
        late = (player.producer_id, player.epoch)
        assert self.write(wire, topic, late, commits=True, transaction_version=2) is ErrorCode.none
        assert stable_offset(wire, topic) == 2, "the next one is still open"

    def test_partitions_that_are_not_here(self, wire: Wire) -> None:
        code = self.write(wire, "no-such-topic", (1, 0), commits=True)
        assert code is ErrorCode.unknown_topic_or_partition


class TestDescriptions:
    def listed(self, wire: Wire, **filters: Any) -> dict[str, str]:
        version = max(wire.versions()["list_transactions"])
        answer = wire.call("list_transactions", version, **filters)
        assert answer.error_code is ErrorCode.none
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}

    def test_of_a_transaction(self, wire: Wire, create_topic: CreateTopic, player: Player) -> None:
        topic = create_topic(partitions=2)
        player.add(topic, 0, 1)
        (found,) = wire.call(
            "describe_transactions", 0, transactional_ids=[player.transactional_id]
        ).transaction_states
        assert found.error_code is ErrorCode.none
        assert (found.transaction_state, found.producer_id) == ("Ongoing", player.producer_id)
        assert (found.producer_epoch, found.transaction_timeout.total_seconds()) == (player.epoch, 60)
        assert [(each.topic, sorted(each.partitions)) for each in found.topics] == [(topic, [0, 1])]

    def test_of_an_unknown_one(self, wire: Wire, player: Player) -> None:
        unknown = player.transactional_id + "-unknown"
        find_coordinator(wire, unknown, 1)
        (found,) = wire.call("describe_transactions", 0, transactional_ids=[unknown]).transaction_states
        assert found.error_code is ErrorCode.transactional_id_not_found

    def test_lists_by_state_producer_and_duration(self, wire: Wire, topic: str, player: Player) -> None:
        mine = player.transactional_id
        producer = {"producer_id_filters": [player.producer_id]}
        assert self.listed(wire, **producer) == {mine: "Empty"}
        player.add(topic)
        assert self.listed(wire, **producer) == {mine: "Ongoing"}
        assert mine in self.listed(wire, state_filters=["Ongoing"])
        assert mine not in self.listed(wire, state_filters=["Empty", "CompleteCommit"])
        assert mine not in self.listed(wire, duration_filter=3_600_000)
        assert mine in self.listed(wire, duration_filter=0, state_filters=["Ongoing"])

    def test_unknown_states_are_told(self, wire: Wire, player: Player) -> None:
        answer = wire.call("list_transactions", 0, state_filters=["Ongoing", "Sleeping"])
        assert answer.unknown_state_filters == ("Sleeping",)

    def test_lists_by_a_pattern_of_names(self, wire: Wire, player: Player) -> None:
        if 2 not in wire.versions()["list_transactions"]:
            pytest.skip("no patterns")
        mine = player.transactional_id
        assert self.listed(wire, transactional_id_pattern=mine[:-3] + ".*") == {mine: "Empty"}
        assert self.listed(wire, transactional_id_pattern=mine[:-3]) == {}
        refused = wire.call("list_transactions", 2, transactional_id_pattern="(")
        assert refused.error_code is ErrorCode.invalid_regular_expression

    def test_producers_with_an_open_transaction(self, wire: Wire, topic: str, player: Player) -> None:
        player.add(topic)
        player.write(topic, b"x", b"y")
        topics = [{"name": topic, "partition_indexes": [0]}]

        def described() -> Any:
            part = wire.call("describe_producers", 0, topics=topics).topics[0].partitions[0]
            return part.active_producers[0]

        assert (described().producer_id, described().current_txn_start_offset) == (player.producer_id, 0)
        player.end()
        await_stable(wire, topic)
        assert described().current_txn_start_offset == -1
        assert described().coordinator_epoch >= 0


@pytest.mark.tidelog_settings(
    {
        "transactional.id.expiration.ms": 300,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    }
)
def test_an_id_that_nobody_uses_is_forgotten(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        player = Player(wire, "forgotten")
        player.init()

        calls.eventually(lambda: not wire.call("list_transactions", 0).transaction_states, "the id expires")
        assert player.add("t") == [ErrorCode.unknown_topic_or_partition]
        old_id = player.producer_id
        assert player.init().error_code is ErrorCode.none
        assert (player.producer_id != old_id, player.epoch) == (True, 0)


@pytest.mark.not_kafka
def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(wire: Wire, player: Player) -> None:
    kept, gone = (f"t-{uuid.uuid4().hex[:12]}" for _ in range(2))
    for topic in (kept, gone):
        calls.create_topic(wire, topic)
    player.add(kept)
    player.add(gone)
    player.write(kept, b"x")
    player.write(gone, b"x")
    wire.call("delete_topics", 3, topic_names=[gone], timeout=30_000)
    calls.await_deletion(wire, gone)
    assert player.end().error_code is ErrorCode.none
    assert await_stable(wire, kept) == 2
    assert player.add(kept) == [ErrorCode.none], "the transaction is complete"
