"""What ``--from`` means: a place in every partition, worked out against the broker."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cli.client import REQUEST_TIMEOUT_S, refusal
from tidelog.cli.failure import InvalidCommandLine
from tidelog.cli.records.text import offset_or_time, parse_instant

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class Kind(Enum):
    OFFSET = "offset"
    FROM_END = "from end"
    TIME = "time"


class StartPosition(NamedTuple):
    kind: Kind
    number: int  # an offset, a count of records before the end, or milliseconds since 1970

    @property
    def is_end(self) -> bool:
        return self.kind is Kind.FROM_END and self.number == 0


def parse_start(text: str) -> StartPosition:
    """``earliest``, ``latest``, ``100``, ``-10``, ``@1700000000000`` or an ISO time."""
    word = text.strip().lower()
    if word == "earliest":
        return StartPosition(Kind.OFFSET, 0)
    if word == "latest":
        return StartPosition(Kind.FROM_END, 0)
    try:
        if word.startswith("@"):
            return StartPosition(Kind.TIME, max(offset_or_time(word[1:]), 0))
        if word.lstrip("-").isdecimal():
            number = offset_or_time(word)
            return (
                StartPosition(Kind.OFFSET, number) if number >= 0 else StartPosition(Kind.FROM_END, -number)
            )
        return StartPosition(Kind.TIME, parse_instant(text.strip()))
    except ValueError:
        raise InvalidCommandLine(
            f"--from takes earliest, latest, an offset (100), a count from the end (-10), an ISO time "
            f"(2026-01-31T12:00) or milliseconds (@1700000000000), not '{text}'."
        ) from None


class Range(NamedTuple):
    """What to read of one partition now: ``start_offset <= offset < end_offset``."""

    start_offset: int
    end_offset: int


def resolve(consumer: "Consumer", topic: str, partition: int, start: StartPosition) -> Range:
    """The range that begins at ``start`` and ends where the partition ends at this moment."""
    from confluent_kafka import KafkaException, TopicPartition

    place = TopicPartition(topic, partition, start.number)
    try:
        low, high = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
        if start.kind is Kind.TIME:
            found = consumer.offsets_for_times([place], timeout=REQUEST_TIMEOUT_S)[0]
            if found.error is not None:
                raise KafkaException(found.error)
            # Negative: nothing is as young as that.
            return Range(found.offset if found.offset >= 0 else high, high)
    except KafkaException as error:
        raise refusal(error, topic) from None
    wanted = high - start.number if start.kind is Kind.FROM_END else start.number
    # An offset that is gone means "from what is left"; one that is not there yet means "from the end".
    return Range(min(max(wanted, low), high), high)
