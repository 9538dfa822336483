"""Requests with many elements: worked on in slices, in order, and answered whatever happens."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tidelog.broker.future import Future
from tidelog.broker.handlers import (
    add_partitions_to_txn,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    list_groups,
    list_offsets,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from tidelog.broker.registry import SERVED
from tidelog.broker.requests import deciding, submission
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.slices import SlicedResponse, in_slices, respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.protocol import messages, requests
from tidelog.protocol.batch import assign_whole, parse_header
from tidelog.protocol.messages import Fields
from tidelog.runtime.handling import handle_plain
from unit.broker.fakes import ME, FakeBroker, FakeServices, records

COUNT = 10
LIST_OFFSETS = 2


class Asker:
    """What a connection is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def hold(self) -> None:
        self.told.append("hold")

    def resume(self) -> None:
        self.told.append("resume")

    def await_rows(self, count: int) -> None: ...

    def rows_made(self, count: int) -> None: ...

    def close(self, reason: str) -> None:
        self.told.append(reason)


@pytest.fixture
def many(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """A topic of ten partitions; three elements of a request make a slice."""
    for module, name in (
        (list_offsets, "LOOK_UPS_PER_SLICE"),
        (offset_for_leader_epoch, "LOOK_UPS_PER_SLICE"),
        (delete_records, "DELETIONS_PER_SLICE"),
        (describe_configs, "DESCRIBED_PER_SLICE"),
        (describe_log_dirs, "LOOKED_AT_PER_SLICE"),
        (metadata, "DESCRIBED_PER_SLICE"),
        (submission, "DECIDED_PER_SLICE"),
        (produce, "APPENDED_PER_SLICE"),
        (add_partitions_to_txn, "ADDED_PER_SLICE"),
        (describe_topic_partitions, "DESCRIBED_PER_SLICE"),
        (list_groups, "LISTED_PER_SLICE"),
        (offset_fetch, "FETCHED_PER_SLICE"),
        (write_txn_markers, "WRITTEN_PER_SLICE"),
    ):
        monkeypatch.setattr(module, name, 3)
    broker.create("t", COUNT)
    return broker


def steps(done: list[int], count: int, broken: int = -1) -> Iterator[None]:
    for number in range(count):
        if number == broken:
            raise ValueError(number)
        done.append(number)
        yield


def in_several_slices(broker: FakeBroker, pending: Future[Any]) -> Any:
    assert not pending.is_complete
    broker.services.settle()
    told: list[Any] = []
    pending.then(told.append)
    return told[0]


class TestSlices:
    def test_a_few_steps_are_taken_at_once(self) -> None:
        done: list[int] = []
        assert respond_in_slices(FakeServices(), steps(done, 2), 3, lambda: {"all": done}) == {"all": [0, 1]}

    def test_the_connection_goes_on_when_all_steps_are_taken(self) -> None:
        """It need not wait for what they have begun."""
        services, done, told, rest = FakeServices(), list[int](), list[Any](), Future[Fields]()
        response = respond_in_slices(services, steps(done, 7), 3, lambda: rest)
        assert isinstance(response, SlicedResponse)
        assert done == [0, 1, 2]
        response.when_taken(lambda: told.append("taken"))
        response.then(told.append)
        services.settle()
        assert (done, told) == ([*range(7)], ["taken"])
        rest.complete({"some": "fields"})
        assert told == ["taken", {"some": "fields"}]

    def test_a_step_that_fails_is_answered(self, caplog: pytest.LogCaptureFixture) -> None:
        services, told = FakeServices(), list[Any]()
        response = respond_in_slices(services, steps([], 7, broken=4), 3, dict)
        assert isinstance(response, SlicedResponse)
        response.when_taken(lambda: told.append("taken"))
        response.then(told.append)
        services.settle()
        assert told == ["taken", {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR}]
        assert "a request failed" in caplog.text

    @pytest.mark.parametrize("broken", [1, 4])
    def test_so_is_one_of_a_promised_response(self, broken: int, caplog: pytest.LogCaptureFixture) -> None:
        services, told, future = FakeServices(), list[Any](), Future[Fields]()
        future.then(told.append)
        in_slices(services, steps([], 7, broken=broken), 3, lambda: told.append("done"), future=future)
        services.settle()
        assert told == [{"error_code": ErrorCode.UNKNOWN_SERVER_ERROR}]
        assert "a request failed" in caplog.text


class TestHandlers:
    def test_offsets(self, many: FakeBroker) -> None:
        part = {"current_leader_epoch": -1, "timestamp": -1}
        topic = {
            "name": "t",
            "partitions": [{**part, "partition_index": index} for index in range(COUNT + 1)],
        }
        answer = many.call("list_offsets", topics=[topic, topic])
        expected = [(index, 0) for index in range(COUNT)] + [(COUNT, 3)]
        for row in answer.topics:
            assert [(each.partition_index, each.error_code) for each in row.partitions] == expected

    def test_epochs(self, many: FakeBroker) -> None:
        part = {"current_leader_epoch": -1, "leader_epoch": 0}
        topic = {"topic": "t", "partitions": [{**part, "partition": index} for index in range(COUNT)]}
        (row,) = many.call("offset_for_leader_epoch", topics=[topic]).topics
        assert [each.partition for each in row.partitions] == [*range(COUNT)]

    def test_deletions(self, many: FakeBroker) -> None:
        topic = {
            "name": "t",
            "partitions": [{"partition_index": index, "offset": 0} for index in range(COUNT)],
        }
        (row,) = many.call("delete_records", topics=[topic]).topics
        assert [each.error_code for each in row.partitions] == [0] * COUNT

    def test_settings(self, many: FakeBroker) -> None:
        wanted = [
            {"resource_type": 2, "resource_name": name, "configuration_keys": None}
            for name in ("t", "a", "b", "c", "d", "t")
        ]
        rows = many.call("describe_configs", resources=wanted).results
        assert [row.resource_name for row in rows] == ["t", "a", "b", "c", "d"]

    def test_log_directories(self, many: FakeBroker) -> None:
        (directory,) = many.call("describe_log_dirs", topics=None).results
        assert len(directory.topics[0].partitions) == COUNT

    def test_metadata_is_that_of_one_moment(self, many: FakeBroker) -> None:
        """What happens between two slices is not seen: a reader would find half of it."""
        pending = many.begin("metadata", topics=None, allow_auto_topic_creation=False)
        assert not pending.is_complete
        many.begin("create_topics", topics=[{"name": "u", "num_partitions": 1, "replication_factor": 1}])
        many.services.settle()
        told: list[Any] = []
        pending.then(told.append)
        (topic,) = told[0].topics
        assert (topic.name, len(topic.partitions)) == ("t", COUNT)

    def test_pages_of_topics(self, many: FakeBroker) -> None:
        names = [{"name": name} for name in ("a", "b", "c", "d", "t", "u")]
        pending = many.begin("describe_topic_partitions", topics=names, response_partition_limit=COUNT)
        answer = in_several_slices(many, pending)
        assert [len(topic.partitions) for topic in answer.topics] == [0, 0, 0, 0, COUNT]
        assert answer.next_cursor.topic_name == "u"

    def test_offsets_of_groups(self, many: FakeBroker) -> None:
        groups = [{"group_id": str(number), "topics": None} for number in range(COUNT)]
        answer = in_several_slices(many, many.begin("offset_fetch", 8, groups=groups))
        assert [each.group_id for each in answer.groups] == [str(number) for number in range(COUNT)]

    def test_groups(self, many: FakeBroker) -> None:
        many.call("find_coordinator", key_type=0, coordinator_keys=["g"])
        offset = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        for number in range(COUNT):
            many.call(
                "offset_commit", 8, group_id=f"g{number}", generation_id_or_member_epoch=-1, member_id="",
                topics=[{"name": "t", "partitions": [offset]}],
            )  # fmt: skip
        answer = in_several_slices(many, many.begin("list_groups", 5))
        assert sorted(each.group_id for each in answer.groups) == [f"g{number}" for number in range(COUNT)]

    def test_markers(self, many: FakeBroker) -> None:
        marker = {
            "producer_id": 7, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0,
            "topics": [{"name": "t", "partition_indexes": [*range(COUNT)]}],
        }  # fmt: skip
        (told,) = in_several_slices(many, many.begin("write_txn_markers", 1, markers=[marker])).markers
        assert [each.error_code for each in told.topics[0].partitions] == [0] * COUNT

    def test_partitions_of_transactions(self, many: FakeBroker) -> None:
        one = {"producer_id": 7, "producer_epoch": 0, "verify_only": True}
        items = [
            {**one, "transactional_id": str(number), "topics": [{"name": "t", "partitions": [0]}]}
            for number in range(COUNT)
        ]
        answer = in_several_slices(many, many.begin("add_partitions_to_txn", 4, transactions=items))
        told = [each.transactional_id for each in answer.results_by_transaction]
        assert told == [str(number) for number in range(COUNT)]

    def test_decisions(self, many: FakeBroker) -> None:
        wanted = [
            {"name": f"new-{number}" if number != 5 else "t", "num_partitions": 1, "replication_factor": 1}
            for number in range(COUNT)
        ]
        rows = many.call("create_topics", topics=wanted).topics
        assert [row.error_code for row in rows] == [36 if number == 5 else 0 for number in range(COUNT)]

    def test_decisions_that_share_a_batch(self, many: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(deciding, "DECIDED_TOGETHER", 4)
        wanted = [{"topic": "t", "partitions": [*range(COUNT), 99]}]
        (row,) = many.call("elect_leaders", election_type=0, topic_partitions=wanted).replica_election_results
        errors = [(each.partition_id, each.error_code) for each in row.partition_result]
        assert errors == [*((index, 84) for index in range(COUNT)), (99, 3)]


def produced(broker: FakeBroker, asker: Asker, acks: int = -1, partitions: int = COUNT) -> list[Any]:
    whole = broker.producing.handle
    broker.producing.handle = partial(whole, asker=asker)  # type: ignore[method-assign]
    return broker.produce(*[("t", index, records(b"v")) for index in range(partitions)], acks=acks)


class TestProduce:
    def test_many_batches(self, many: FakeBroker) -> None:
        asker = Asker()
        sent = produced(many, asker)
        assert (sent, asker.told) == ([], ["hold"])
        assert [many.partition("t", index).log.end_offset for index in range(4)] == [1, 1, 1, 0]
        many.services.settle()
        assert asker.told == ["hold", "resume"]
        (row,) = sent[0].responses
        assert [each.error_code for each in row.partition_responses] == [0] * COUNT

    def test_a_refusal_without_a_response_closes_the_connection(self, many: FakeBroker) -> None:
        asker = Asker()
        sent = produced(many, asker, acks=0, partitions=COUNT + 1)
        many.services.settle()
        assert sent == []
        assert asker.told[0] == "hold"
        assert asker.told[1].startswith("records sent with acks=0 were refused")
        assert asker.told[2] == "resume"


def test_nothing_else_of_the_connection_is_taken_up_meanwhile(many: FakeBroker) -> None:
    part = {"current_leader_epoch": -1, "timestamp": -1}
    topic = {"name": "t", "partitions": [{**part, "partition_index": index} for index in range(COUNT)]}
    version = SERVED[LIST_OFFSETS].newest
    body = requests.encode_body(LIST_OFFSETS, {"replica_id": -1, "isolation_level": 0, "topics": [topic]})
    asker, frames = Asker(), list[bytes]()
    context = RequestContext(LIST_OFFSETS, version, 7, "c", "p")
    messages.load(LIST_OFFSETS, version)
    handle_plain(many.broker, memoryview(body), 0, context, frames.append, lambda reason: None, None, asker)
    assert (asker.told, frames) == (["hold"], [])
    many.services.settle()
    assert asker.told == ["hold", "resume"]
    assert len(frames) == 1


OTHER = 2


class TestChangesBetweenSlices:
    def test_a_batch_that_another_leader_has_replaced_is_not_acknowledged(self, many: FakeBroker) -> None:
        """Its offset is committed by then, but not with its records."""
        partition = many.partition("t", 0)
        driver, epoch = partition.driver, partition.leader_epoch
        driver.lead(epoch + 1, (ME, OTHER), (ME, OTHER), driver.replica.partition_epoch + 1)
        sent = produced(many, Asker())
        assert (partition.log.end_offset, partition.high_watermark) == (1, 0)
        driver.follow(epoch + 2, OTHER, (ME, OTHER), driver.replica.partition_epoch + 1)
        assert driver.diverged(epoch + 2, (epoch, 0))
        other = bytearray(records(b"other"))
        assign_whole(memoryview(other), 0, parse_header(other).length, epoch + 2)
        driver.take(epoch + 2, other, 1, 0)
        assert (partition.log.end_offset, partition.high_watermark) == (1, 1)
        many.services.settle()
        (row,) = sent[0].responses
        errors = [each.error_code for each in row.partition_responses]
        assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] + [0] * (COUNT - 1)

    def test_a_batch_whose_topic_is_deleted_is_answered(self, many: FakeBroker) -> None:
        partition = many.partition("t", 0)
        driver = partition.driver
        driver.lead(partition.leader_epoch + 1, (ME, OTHER), (ME, OTHER), driver.replica.partition_epoch + 1)
        sent = produced(many, Asker())
        many.call("delete_topics", topics=[{"name": "t"}])
        many.services.settle()
        (row,) = sent[0].responses
        assert all(each.error_code for each in row.partition_responses[:1])
        assert len(row.partition_responses) == COUNT

    def test_a_wait_that_begins_in_a_later_turn_is_noticed(
        self, many: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rule taken out: the request waits for its acknowledgements when all batches are appended."""
        original = produce._await
        monkeypatch.setattr(
            produce, "_await", lambda *waited: many.services.later(0, lambda: original(*waited))
        )
        settle = many.services.settle

        def settle_later() -> None:
            settle()
            many.services.advance(0)

        monkeypatch.setattr(many.services, "settle", settle_later)
        with pytest.raises(AssertionError, match="NOT_LEADER_OR_FOLLOWER"):
            self.test_a_batch_that_another_leader_has_replaced_is_not_acknowledged(many)
