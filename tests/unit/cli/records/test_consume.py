"""When reading ends, and what of a record may reach a terminal."""

import time
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, TopicPartition

from tidelog.cli.failure import CommandFailed
from tidelog.cli.records.consume import printable, read
from tidelog.cli.records.start_position import Range


class StandInMessage(NamedTuple):
    at_partition: int
    at_offset: int
    failure: KafkaError | None = None

    def partition(self) -> int:
        return self.at_partition

    def offset(self) -> int:
        return self.at_offset

    def error(self) -> KafkaError | None:
        return self.failure

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"value"

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000


class StandInConsumer:
    """Gives out handfuls that the test prepared, then nothing any more."""

    def __init__(self, *handfuls: list[StandInMessage]) -> None:
        self.handfuls = list(handfuls)
        self.assigned: list[tuple[int, int]] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = [(partition.partition, partition.offset) for partition in partitions]

    def consume(self, _count: int, _timeout: float) -> list[StandInMessage]:
        return self.handfuls.pop(0) if self.handfuls else []


def offsets_read(
    consumer: StandInConsumer, ranges: dict[int, Range], **more: Any
) -> list[tuple[int | None, int]]:
    reading = read(consumer, "orders", ranges, **{"follow": False, "silence_s_max": 0} | more)  # type: ignore[arg-type]
    return [(record.partition, record.offset) for records in reading for record in records]


def test_reading_stops_at_what_was_the_end_at_the_start() -> None:
    consumer = StandInConsumer(
        [StandInMessage(0, 3), StandInMessage(1, 0)], [StandInMessage(0, 4), StandInMessage(0, 5)]
    )
    assert offsets_read(consumer, {0: Range(3, 5), 1: Range(0, 1), 2: Range(7, 7)}) == [
        (0, 3),
        (1, 0),
        (0, 4),
    ]
    assert consumer.assigned == [(0, 3), (1, 0)]


def test_the_end_of_a_partition_counts_when_its_last_offsets_are_no_records() -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    consumer = StandInConsumer([StandInMessage(0, 3)], [StandInMessage(0, 5, end)])
    assert offsets_read(consumer, {0: Range(3, 5)}) == [(0, 3)]


def test_records_after_a_gap_that_hides_the_end_are_not_shown() -> None:
    assert offsets_read(StandInConsumer([StandInMessage(0, 9)]), {0: Range(3, 5)}) == []


def test_nothing_to_read_ends_at_once() -> None:
    assert offsets_read(StandInConsumer(), {0: Range(4, 4)}) == []


def test_a_silent_broker_is_a_failure() -> None:
    with pytest.raises(CommandFailed, match="stopped answering"):
        offsets_read(StandInConsumer([StandInMessage(0, 3)]), {0: Range(3, 5)})


def test_following_goes_on_past_the_end_and_through_silence() -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    consumer = StandInConsumer([StandInMessage(0, 4), StandInMessage(0, 5, end)], [], [StandInMessage(0, 5)])
    reading = read(consumer, "orders", {0: Range(4, 5)}, follow=True, silence_s_max=0)  # type: ignore[arg-type]
    assert [[record.offset for record in next(reading)] for _ in range(4)] == [[4], [], [5], []]


def test_an_error_that_does_not_pass_is_a_failure() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(CommandFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets_read(StandInConsumer([StandInMessage(0, -1, refused)]), {0: Range(0, 5)})


def test_a_terminal_gets_no_escape_sequences() -> None:
    assert printable(b"\xff\x1b[31m\tgr\xc3\xbcn\x00\x7f") == b"\\xff\\x1b[31m\tgr\xc3\xbcn\\x00\\x7f"


class SilentConsumer(StandInConsumer):
    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.clock = clock

    def consume(self, _count: int, _timeout: float) -> list[StandInMessage]:
        self.clock[0] += 1.0
        return []


def test_the_cause_is_told_long_before_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with pytest.raises(CommandFailed, match="stopped answering before the end of 'orders'; `tidelog cluster"):
        offsets_read(
            SilentConsumer(clock),
            {0: Range(0, 5)},
            silence_s_max=15,
            tell_why_silent=lambda: told.append(clock[0]),
        )
    assert told == [3.0]
