"""Fetch from frame to frame: what is read, how long a reader waits, and what a session leaves out."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol import fetch
from tidelog.protocol.batch import iterate
from tidelog.replication.attachments.successors import Successors
from tidelog.sim.disk import EIO
from unit.broker.fakes import NOW_MS, FakeBroker, Fetching, records, wanted

OLDEST, NEWEST = fetch.VERSIONS
every_version = pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
SIZE = len(records(b"a"))  # of a batch with one short record


def offsets(partition: Any) -> list[int]:
    """Base offsets of the whole batches in an answer."""
    return [header.base_offset for _, header in iterate(partition.records)]


@pytest.fixture
def orders(broker: FakeBroker) -> FakeBroker:
    """A topic of two partitions with three batches in the first."""
    broker.create("orders", 2)
    for value in (b"a", b"b", b"c"):
        broker.append("orders", value)
    return broker


class TestBeyondTheEnd:
    """Of a leader with another member, which may lead by now: it is asked first, also if the consumer does
    not want to wait, and other partitions have records.
    """

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[bool], None]]:
        """What to call with whether the members still follow."""
        asked: list[Callable[[bool], None]] = []
        monkeypatch.setattr(Successors, "are_members", True)
        monkeypatch.setattr(Successors, "when_members_follow", lambda self, then: asked.append(then))
        return asked

    @pytest.mark.parametrize(
        ("follow", "error"),
        [(True, ErrorCode.OFFSET_OUT_OF_RANGE), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
    )
    def test_a_position(
        self, orders: FakeBroker, asked: list[Callable[[bool], None]], follow: bool, error: ErrorCode
    ) -> None:
        orders.append("orders", b"z", partition=1)
        reading = orders.fetch(wanted("orders", 9, 0), max_wait=0)
        assert reading.waits
        assert len(asked) == 1
        asked[0](follow)
        orders.services.settle()
        beyond, beside = reading.partitions
        assert (beyond.error_code, offsets(beside)) == (error, [0])

    @pytest.mark.parametrize("follow", [True, False])
    def test_an_epoch(self, orders: FakeBroker, asked: list[Callable[[bool], None]], follow: bool) -> None:
        reading = orders.fetch(wanted("orders", 3, last_fetched_epoch=7), max_wait=0)
        assert reading.waits
        asked[0](follow)
        orders.services.settle()
        refused = 0 if follow else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (reading.partition.error_code, len(asked)) == (refused, 1)

    def test_nobody_answers(self, orders: FakeBroker, asked: list[Callable[[bool], None]]) -> None:
        reading = orders.fetch(wanted("orders", 9), max_wait=0)
        orders.services.advance(2000)
        assert (reading.partition.error_code, len(asked)) == (0, 1)

    def test_a_position_within_the_log_needs_nobody(
        self, orders: FakeBroker, asked: list[Callable[[bool], None]]
    ) -> None:
        assert orders.fetch(wanted("orders", 3), max_wait=0).partition.error_code == 0
        assert asked == []


class TestReading:
    @every_version
    def test_from_an_offset_on(self, orders: FakeBroker, version: int) -> None:
        for offset, expected in [(0, [0, 1, 2]), (1, [1, 2]), (2, [2])]:
            found = orders.fetch(wanted("orders", offset), version=version).partition
            assert (found.error_code, offsets(found)) == (0, expected)
            assert (found.high_watermark, found.last_stable_offset) == (3, 3)

    @every_version
    def test_at_the_end_without_waiting(self, orders: FakeBroker, version: int) -> None:
        found = orders.fetch(wanted("orders", 3), version=version, max_wait=0).partition
        assert (found.error_code, found.records, found.high_watermark) == (0, b"", 3)

    def test_from_the_middle_of_a_batch_comes_the_whole_batch(self, broker: FakeBroker) -> None:
        broker.create("orders")
        broker.append("orders", b"a", b"b", b"c")
        assert offsets(broker.fetch(wanted("orders", 2)).partition) == [0]

    @pytest.mark.parametrize("offset", [-1, 4, 1 << 40])
    def test_outside_of_the_log(self, orders: FakeBroker, offset: int) -> None:
        found = orders.fetch(wanted("orders", offset)).partition
        assert (found.error_code, found.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)

    def test_before_the_log_start(self, orders: FakeBroker) -> None:
        orders.partition("orders").delete_records(2)
        found = orders.fetch(wanted("orders", 1)).partition
        assert (found.error_code, found.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)

    def test_nothing_beyond_the_watermark(self, broker: FakeBroker) -> None:
        """Written is not committed where an ok means synced; but asking from there on is no error."""
        broker.create("orders", flush_messages=1)
        broker.append("orders", b"a")
        broker.services.held = True
        broker.produce(("orders", 0, records(b"b")))
        assert offsets(broker.fetch(wanted("orders", 0)).partition) == [0]
        for offset in (1, 2):
            found = broker.fetch(wanted("orders", offset), max_wait=0).partition
            assert (found.error_code, found.records, found.high_watermark) == (0, b"", 1)

    @every_version
    def test_unknown_topics_and_partitions(self, orders: FakeBroker, version: int) -> None:
        by_id = version >= fetch.TOPIC_ID_FROM
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reading = orders.fetch(wanted("bills", 0), wanted("orders", 0, first=7), version=version)
        assert [found.error_code for found in reading.partitions] == [
            unknown,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    @pytest.mark.parametrize(
        ("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (7, 75)]
    )
    def test_leader_epochs(self, orders: FakeBroker, epoch: int, code: int) -> None:
        found = orders.fetch(wanted("orders", 0, current_leader_epoch=epoch)).partition
        assert found.error_code == code

    def test_read_committed_readers_are_told_of_no_aborted_transactions(self, orders: FakeBroker) -> None:
        assert orders.fetch(wanted("orders", 0), isolation_level=1).partition.aborted_transactions == ()
        assert orders.fetch(wanted("orders", 0), isolation_level=0).partition.aborted_transactions is None

    def test_a_disk_that_cannot_be_read(self, orders: FakeBroker) -> None:
        orders.partition("orders").log.read(0, 10, 3, at_least_one_batch=True)
        reads = orders.disk.operations
        orders.fetch(wanted("orders", 1))
        if orders.disk.operations == reads:
            pytest.skip("the region is found without reading")
        orders.disk.fail_at(orders.disk.operations + 1, EIO)
        found = orders.fetch(wanted("orders", 1)).partition
        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR


class TestLimits:
    def test_of_one_partition(self, orders: FakeBroker) -> None:
        found = orders.fetch(wanted("orders", 0, partition_max_bytes=2 * SIZE)).partition
        assert offsets(found) == [0, 1]

    def test_of_the_whole_answer(self, orders: FakeBroker) -> None:
        for _ in range(3):
            orders.append("orders", b"a", partition=1)
        reading = orders.fetch(wanted("orders", 0, 0), max_bytes=4 * SIZE)
        assert [offsets(found) for found in reading.partitions] == [[0, 1, 2], [0]]

    def test_of_the_broker(self) -> None:
        broker = FakeBroker(fetch_max_bytes=2000)
        broker.create("orders")
        for _ in range(3):
            broker.append("orders", b"x" * 900)
        assert offsets(broker.fetch(wanted("orders", 0), max_bytes=1 << 30).partition) == [0, 1]

    @pytest.mark.parametrize("max_bytes", [0, 1, SIZE - 1])
    def test_one_batch_comes_however_large(self, orders: FakeBroker, max_bytes: int) -> None:
        orders.append("orders", b"a", partition=1)
        small: dict[str, Any] = {"partition_max_bytes": max_bytes}
        for limits in ({"max_bytes": max_bytes}, {}):
            reading = orders.fetch(wanted("orders", 0, 0, **small), **limits)
            first, second = reading.partitions
            assert offsets(first) == [0]
            assert offsets(second) == []

    def test_the_one_batch_may_be_in_a_later_partition(self, orders: FakeBroker) -> None:
        orders.append("orders", b"a", partition=1)
        reading = orders.fetch(wanted("orders", 3, 0, partition_max_bytes=1), max_bytes=1)
        assert [offsets(found) for found in reading.partitions] == [[], [0]]


class TestWaiting:
    def test_for_the_first_byte(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3))
        assert reading.waits
        orders.append("orders", b"d")
        assert offsets(reading.partition) == [3]
        assert orders.services.timers == []

    def test_until_time_is_up(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3), max_wait=500)
        orders.services.advance(499)
        assert reading.waits
        orders.services.advance(1)
        assert reading.partition.records == b""
        orders.append("orders", b"d")
        assert len(reading.answers) == 1

    def test_for_enough_bytes(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3), min_bytes=2 * SIZE)
        orders.append("orders", b"d")
        assert reading.waits
        orders.append("orders", b"e")
        assert offsets(reading.partition) == [3, 4]

    def test_for_enough_bytes_after_retention(self, broker: FakeBroker) -> None:
        """What goes at the start of the log is not taken off what arrives at its end."""
        broker.create("orders", segment_bytes=1 << 20, retention_bytes=1)
        for _ in range(3):
            broker.append("orders", b"x" * 500_000)
        reading = broker.fetch(wanted("orders", 3), min_bytes=3 * SIZE)
        broker.append("orders", b"d")
        assert broker.partition("orders").log.enforce_retention(NOW_MS, 4)
        broker.append("orders", b"e")
        assert reading.waits
        broker.append("orders", b"f")
        assert offsets(reading.partition) == [3, 4, 5]

    def test_across_a_topic_that_is_deleted_and_created_anew(self, broker: FakeBroker) -> None:
        """It waits for what arrives in the new one, not in the old."""
        broker.create("orders")
        reading = broker.fetch(wanted("orders", 0), max_wait=30_000)
        broker.store.held = True
        broker.begin("delete_topics", 6, topics=[{"name": "orders"}])
        topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
        broker.begin("create_topics", topics=[topic])
        broker.store.held = False
        broker.store.commit()
        broker.services.settle()
        assert reading.waits
        broker.append("orders", b"a")
        assert offsets(reading.partition) == [0]

    def test_what_is_there_counts(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 2), min_bytes=SIZE + 1)
        assert reading.waits
        orders.append("orders", b"d", partition=1)
        assert reading.waits
        orders.append("orders", b"d")
        assert offsets(reading.partition) == [2, 3]

    def test_in_any_of_the_partitions(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3, 0))
        orders.append("orders", b"x", partition=1)
        assert [offsets(found) for found in reading.partitions] == [[], [0]]

    def test_a_produce_to_several_partitions_is_read_together(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3, 0))
        orders.produce(("orders", 0, records(b"x")), ("orders", 1, records(b"y")))
        orders.services.settle()
        assert [offsets(found) for found in reading.partitions] == [[3], [0]]

    def test_time_is_up_with_less_than_asked_for(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 0), min_bytes=1 << 20)
        assert reading.waits
        orders.services.advance(500)
        assert offsets(reading.partition) == [0, 1, 2]

    @pytest.mark.parametrize("more", [{"max_wait": 0}, {"min_bytes": 0}, {"max_wait": -1}])
    def test_not_at_all(self, orders: FakeBroker, more: dict[str, int]) -> None:
        assert orders.fetch(wanted("orders", 3), **more).partition.records == b""

    def test_an_error_in_one_partition_answers_at_once(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3, 99))
        assert [found.error_code for found in reading.partitions] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]

    def test_nobody_wants_anything(self, orders: FakeBroker) -> None:
        assert orders.fetch().answer.responses == ()

    def test_until_the_sync_where_an_ok_means_synced(self, broker: FakeBroker) -> None:
        broker.create("orders", flush_messages=1)
        reading = broker.fetch(wanted("orders", 0))
        broker.services.held = True
        broker.produce(("orders", 0, records(b"a")))
        broker.services.settle()
        assert reading.waits
        broker.services.held = False
        broker.services.settle()
        assert offsets(reading.partition) == [0]

    def test_a_reader_that_goes_away_leaves_nothing_behind(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3, 0))
        assert reading.pending is not None
        reading.pending.cancel()
        orders.append("orders", b"d")
        orders.services.advance(1000)
        assert reading.answers == []
        assert orders.services.timers == []
        assert not orders.partition("orders")._fetch_waiters

    def test_a_broker_that_stops_answers_now(self, orders: FakeBroker) -> None:
        reading = orders.fetch(wanted("orders", 3))
        assert reading.pending is not None
        reading.pending.finish_now()
        assert reading.partition.records == b""
        reading.pending.finish_now()
        assert len(reading.answers) == 1


class TestSessions:
    def begin(self, broker: FakeBroker, *topics: dict[str, Any], version: int = 12) -> tuple[int, Fetching]:
        reading = broker.fetch(*topics, version=version, session_id=0, session_epoch=0, max_wait=0)
        return reading.answer.session_id, reading

    def go_on(
        self, broker: FakeBroker, session: int, epoch: int, *topics: dict[str, Any], **more: Any
    ) -> Fetching:
        return broker.fetch(*topics, session_id=session, session_epoch=epoch, **{"max_wait": 0, **more})

    @pytest.mark.parametrize("version", range(fetch.SESSIONS_FROM, NEWEST + 1))
    def test_the_first_answer_names_everything_the_next_only_news(
        self, orders: FakeBroker, version: int
    ) -> None:
        session, first = self.begin(orders, wanted("orders", 3, 0), version=version)
        assert session > 0
        assert [found.partition_index for found in first.partitions] == [0, 1]
        assert self.go_on(orders, session, 1, version=version).partitions == []
        orders.append("orders", b"x", partition=1)
        news = self.go_on(orders, session, 2, version=version).partition
        assert (news.partition_index, offsets(news)) == (1, [0])

    def test_a_reader_moves_on_by_naming_what_changed(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 0, 0))
        assert offsets(self.go_on(orders, session, 1, wanted("orders", 2)).partition) == [2]
        assert self.go_on(orders, session, 2, wanted("orders", 3)).partitions == []

    def test_a_moved_start_is_news(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 3))
        orders.partition("orders").delete_records(2)
        assert self.go_on(orders, session, 1).partition.log_start_offset == 2
        assert self.go_on(orders, session, 2).partitions == []

    def test_errors_are_told_every_time(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 99))
        for epoch in (1, 2):
            found = self.go_on(orders, session, epoch).partition
            assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_an_error_that_is_over_is_news(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 3))
        topic = wanted("orders", 3, current_leader_epoch=7)
        assert self.go_on(orders, session, 1, topic).partition.error_code != 0
        found = self.go_on(orders, session, 2, wanted("orders", 3)).partition
        assert (found.error_code, found.high_watermark) == (0, 3)

    def test_forgotten_partitions_are_not_mentioned_again(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 3, 0))
        gone = [{"topic": "orders", "partitions": [1]}]
        self.go_on(orders, session, 1, forgotten_topics_data=gone)
        orders.append("orders", b"x", partition=1)
        assert self.go_on(orders, session, 2).partitions == []

    def test_a_session_waits_for_news_of_what_it_remembers(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 3, 0))
        reading = self.go_on(orders, session, 1, max_wait=500)
        assert reading.waits
        orders.append("orders", b"x", partition=1)
        assert reading.partition.partition_index == 1

    def test_a_busy_partition_does_not_starve_the_others(self, orders: FakeBroker) -> None:
        orders.append("orders", b"x", partition=1)
        session, first = self.begin(orders, wanted("orders", 0, 0, partition_max_bytes=SIZE))
        assert len(first.partitions) == 2
        served = [
            self.go_on(orders, session, epoch, max_bytes=1).partition.partition_index
            for epoch in (1, 2, 3, 4)
        ]
        assert sorted(served[:2]) == sorted(served[2:]) == [0, 1]

    def test_wrong_sessions(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 0))
        for session_id, epoch, code in [
            (session + 1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            (session, 5, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ]:
            answer = self.go_on(orders, session_id, epoch).answer
            assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, ())

    def test_a_deleted_topic_is_told(self, orders: FakeBroker) -> None:
        session, _ = self.begin(orders, wanted("orders", 3))
        reading = self.go_on(orders, session, 1, max_wait=500)
        orders.call("delete_topics", 6, topics=[{"name": "orders"}])
        assert reading.partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_without_free_slots_every_answer_is_full(self) -> None:
        broker = FakeBroker(max_incremental_fetch_session_cache_slots=0)
        broker.create("orders")
        session, reading = self.begin(broker, wanted("orders", 0))
        assert (session, len(reading.partitions)) == (0, 1)
