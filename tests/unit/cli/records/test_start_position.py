"""What --from means, and which offsets that gives."""

from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition

from tidelog.cli.failure import CommandFailed
from tidelog.cli.records.start_position import Kind, Range, StartPosition, parse_start, resolve


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", StartPosition(Kind.OFFSET, 0)),
        ("Latest", StartPosition(Kind.FROM_END, 0)),
        ("100", StartPosition(Kind.OFFSET, 100)),
        ("-10", StartPosition(Kind.FROM_END, 10)),
        ("@86400000", StartPosition(Kind.TIME, 86_400_000)),
        ("1970-01-02T00:00:00Z", StartPosition(Kind.TIME, 86_400_000)),
        ("1970-01-02T01:00:00.5+01:00", StartPosition(Kind.TIME, 86_400_500)),
        ("@-1", StartPosition(Kind.TIME, 0)),
        ("1960-01-01", StartPosition(Kind.TIME, 0)),  # -1 and -2 have a meaning of their own in the protocol
    ],
)
def test_every_form_is_understood(text: str, start: StartPosition) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text", ["", "yesterday", "--5", "@", "@now", "1.5", "2026-13-01", "9" * 20, f"@{1 << 63}"]
)
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(CommandFailed, match="--from takes earliest, latest"):
        parse_start(text)


def test_only_latest_is_the_end() -> None:
    assert [text for text in ("earliest", "latest", "0", "-1") if parse_start(text).is_end] == ["latest"]


class StandIn(NamedTuple):
    """The two questions that resolve asks a consumer."""

    low: int
    high: int
    at_time: int = -1  # as the library says that nothing is so young

    def get_watermark_offsets(self, _place: TopicPartition, timeout: float) -> tuple[int, int]:
        return self.low, self.high

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert [place.offset for place in places] == [86_400_000]
        return [TopicPartition(place.topic, place.partition, self.at_time) for place in places]


@pytest.mark.parametrize(
    ("text", "consumer", "start_offset"),
    [
        ("earliest", StandIn(5, 20), 5),  # what is gone is skipped
        ("latest", StandIn(5, 20), 20),
        ("7", StandIn(5, 20), 7),
        ("700", StandIn(5, 20), 20),
        ("-3", StandIn(5, 20), 17),
        ("-300", StandIn(5, 20), 5),
        ("@86400000", StandIn(5, 20, at_time=9), 9),
        ("@86400000", StandIn(5, 20), 20),
    ],
)
def test_the_start_lies_between_start_and_end_of_the_log(
    text: str, consumer: StandIn, start_offset: int
) -> None:
    assert resolve(consumer, "orders", 0, parse_start(text)) == Range(start_offset, consumer.high)  # type: ignore[arg-type]
