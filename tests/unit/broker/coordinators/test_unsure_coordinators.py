"""A coordinator that the controllers may have given up: what it says waits until it is certain that nobody
coordinates in its place.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.broker.future import Future
from tidelog.errors import ErrorCode
from tidelog.groups.offsets import Committed
from tidelog.replication.attachments.successors import Successors
from tidelog.transactions.rules import ProducerIdAndEpoch
from tidelog.types import TopicPartition
from unit.broker.fakes import FakeBroker, value_of

Then = Callable[[bool], None]


class Unsure:
    """A broker that hears of no controllers; the test says whether its followers follow."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fake = FakeBroker()
        for name in ("t", CONSUMER_OFFSETS, TRANSACTION_STATE):
            self.fake.create(name)
        self.fake.services.settle()
        self.asked: list[Then] = []

        def when_all_follow(successors: Successors, then: Then, *, by_hand: bool = False) -> None:
            self.asked.append(then)

        patch.setattr(Successors, "when_all_follow", when_all_follow)

    def lose_controllers(self) -> None:
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            partition = self.fake.partition(name)
            partition._alone = lambda: True
            partition.driver.successors.candidates = frozenset()

    def ask(self, api: str, version: int | None = None, **values: Any) -> Future[Any]:
        future = self.fake.begin(api, version, **values)
        self.fake.services.settle()
        return future

    def tell(self, certain: bool) -> None:
        asked, self.asked = self.asked, []
        for then in asked:
            then(certain)


@pytest.fixture
def unsure(monkeypatch: pytest.MonkeyPatch) -> Unsure:
    return Unsure(monkeypatch)


WANTED = [{"name": "t", "partition_indexes": [0]}]


@pytest.mark.parametrize("version", [5, 9])
def test_committed_offsets(unsure: Unsure, version: int) -> None:
    groups = unsure.fake.broker.coordinators.groups.machine_of("g").groups
    groups.offsets.commit("g", "t", 0, Committed(5, -1, "", 0))
    unsure.lose_controllers()
    values: dict[str, Any] = {"group_id": "g", "topics": WANTED}
    if version >= 8:
        values = {"groups": [values]}
    for certain, code, offset in ((True, ErrorCode.NONE, 5), (False, ErrorCode.NOT_COORDINATOR, None)):
        answer = unsure.ask("offset_fetch", version, **values)
        assert not answer.is_complete
        unsure.tell(certain)
        found = value_of(answer) if version < 8 else value_of(answer).groups[0]
        assert found.error_code == code
        assert [topic.partitions[0].committed_offset for topic in found.topics] == (
            [] if offset is None else [offset]
        )


def test_where_nobody_could_replace_it_nobody_is_asked(unsure: Unsure) -> None:
    answer = unsure.ask("offset_fetch", 5, group_id="g", topics=WANTED)
    assert value_of(answer).error_code == 0
    assert unsure.asked == []


@pytest.mark.parametrize(("certain", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.NOT_COORDINATOR)])
def test_answers_that_need_no_write(unsure: Unsure, certain: bool, code: ErrorCode) -> None:
    fields = {
        "group_id": "g", "member_id": "m", "rebalance_timeout": 60_000, "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }  # fmt: skip
    joined = value_of(unsure.ask("consumer_group_heartbeat", 1, member_epoch=0, **fields))
    unsure.lose_controllers()
    again = unsure.ask("consumer_group_heartbeat", 1, member_epoch=joined.member_epoch, **fields)
    assert not again.is_complete
    unsure.tell(certain)
    assert value_of(again).error_code == code


@pytest.mark.parametrize(
    ("certain", "code"), [(True, ErrorCode.TRANSACTION_ABORTABLE), (False, ErrorCode.NOT_COORDINATOR)]
)
def test_whether_a_partition_is_in_a_transaction(unsure: Unsure, certain: bool, code: ErrorCode) -> None:
    producer = value_of(unsure.ask("init_producer_id", 4, transactional_id="x", transaction_timeout=60_000))
    unsure.lose_controllers()
    transaction = {
        "transactional_id": "x", "producer_id": producer.producer_id, "verify_only": True,
        "producer_epoch": producer.producer_epoch, "topics": [{"name": "t", "partitions": [0]}],
    }  # fmt: skip
    answer = unsure.ask("add_partitions_to_txn", 5, transactions=[transaction])
    assert not answer.is_complete
    unsure.tell(certain)
    (result,) = value_of(answer).results_by_transaction
    assert result.topic_results[0].results_by_partition[0].partition_error_code == code


def test_who_asks_itself_waits_as_well(unsure: Unsure) -> None:
    producer = value_of(unsure.ask("init_producer_id", 4, transactional_id="x", transaction_timeout=60_000))
    unsure.lose_controllers()
    asked = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch)
    admission = unsure.fake.broker.admission
    assert admission._verify_here("x", asked, TopicPartition("t", 0)) is None
