"""Which records of a refused batch are wrong, so that a client can drop those and send the others again.

A second pass over the records, made only when a batch is refused anyway. As in Kafka, the batch has
INVALID_TIMESTAMP as soon as one record has a wrong timestamp, and INVALID_RECORD otherwise. Of a record that
lacks its key the timestamp is not checked as well.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from tidelog.errors import ErrorCode, RecordError, TidelogError
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import RECORDS_PER_PACE, RawRecord, payload_of, scan

NO_TIMESTAMP = -1  # of a record whose producer has no time: accepted whatever the limits are
NAMED_MAX = 10_000  # records; of the others the client learns when it sends them again
SHOWN_MAX = 3  # records in the message about the whole batch
NO_KEY = "a compacted topic needs a key"


class RecordLimits(NamedTuple):
    """What a topic demands of each record of a batch that arrives now."""

    needs_keys: bool
    oldest_ms: int  # inclusive, as the next
    newest_ms: int


def refusal_of(
    batch: memoryview, header: BatchHeader, limits: RecordLimits, pace: Callable[[], None]
) -> TidelogError | None:
    """The refusal with the wrong records of a batch; None if all are right."""
    raws = scan(payload_of(batch, header), header.count)
    wrong = _wrong(raws, header.base_timestamp, limits, pace)
    found = list(islice(wrong, NAMED_MAX))
    if not found:
        return None
    errors = tuple(error for _, error in found)
    times = any(code is ErrorCode.INVALID_TIMESTAMP for code, _ in found)
    code = ErrorCode.INVALID_TIMESTAMP if times else ErrorCode.INVALID_RECORD
    return TidelogError(_message(errors, header.count), code, errors)


def _wrong(
    raws: Iterable[RawRecord], base_ms: int, limits: RecordLimits, pace: Callable[[], None]
) -> Iterable[tuple[ErrorCode, RecordError]]:
    needs_keys, oldest_ms, newest_ms = limits
    for index, raw in enumerate(raws):
        if not index % RECORDS_PER_PACE:
            pace()
        timestamp = base_ms + raw.timestamp_delta
        if needs_keys and raw.key_size < 0:
            yield ErrorCode.INVALID_RECORD, RecordError(index, NO_KEY)
        elif not oldest_ms <= timestamp <= newest_ms and timestamp != NO_TIMESTAMP:
            yield ErrorCode.INVALID_TIMESTAMP, RecordError(index, _wrong_time(timestamp, limits))


def _wrong_time(timestamp: int, limits: RecordLimits) -> str:
    if timestamp > limits.newest_ms:
        return f"timestamp {timestamp} is too far in the future, at most {limits.newest_ms} is allowed"
    return f"timestamp {timestamp} is too far in the past, at least {limits.oldest_ms} is allowed"


def _message(errors: tuple[RecordError, ...], count: int) -> str:
    number = f"at least {NAMED_MAX}" if len(errors) == NAMED_MAX else str(len(errors))
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:SHOWN_MAX])
    more = "; …" if len(errors) > SHOWN_MAX else ""
    return f"{number} of the batch's {count} records are refused ({shown}{more})"
