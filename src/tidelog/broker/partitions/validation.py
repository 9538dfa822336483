"""Checks of a producer's batch before it is appended to the log.

The header is checked and compared with the records; see :mod:`tidelog.protocol.framing`. Records are decoded
only if that comparison fails or the topic's settings require it: a compacted topic needs keys, and another
codec than the producer's needs recompression. Other compressed batches are not decoded, unless the header
says that the batch must be refused. For them only the number of records is compared with the size, and the
first bytes with the codec; see docs/decisions/0019. Which records of a refused batch are wrong is found by
:mod:`~tidelog.broker.partitions.wrong_records`.
"""

from collections.abc import Callable
from typing import NamedTuple

from crc32c import crc32c

from tidelog.broker.partitions.wrong_records import RecordLimits, refusal_of
from tidelog.config import TopicConfig
from tidelog.errors import CorruptBatch, ErrorCode, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol import framing
from tidelog.protocol.batch import CRC_FROM, HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader
from tidelog.protocol.codecs import codec_of_id, has_mark
from tidelog.protocol.records import payload_of, recompress, validate_records

ZSTD = 4
ZSTD_FROM_VERSION = 7  # of Produce; older clients do not know the codec
CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KEEP_CODEC = "producer"
LOG_APPEND_TIME = "LogAppendTime"
UNLIMITED_MS = (1 << 63) - 1
RECORDS_AT_ONCE_MAX = 300  # about a millisecond of decoding
RECOMPRESSED_AT_ONCE_BYTES_MAX = 16 << 10
_ATTRIBUTES_LOW, _COUNT = 22, slice(57, 61)  # positions in a batch
_BROKERS_OWN = batches.CONTROL_MASK | batches.DELETE_HORIZON_MASK


class InvalidRecord(TidelogError):
    code = ErrorCode.INVALID_RECORD


class AppendRules(NamedTuple):
    """A topic's settings in the form that the hot path needs; made once per change of settings."""

    max_message_bytes: int
    segment_bytes: int
    stamp_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    codec: int  # -1: the producer's codec is kept
    needs_keys: bool
    opens: bool = False  # whether a setting may require that records are decoded
    size_max: int = 0  # of a batch: the smaller of the two limits

    @classmethod
    def of(cls, config: TopicConfig) -> "AppendRules":
        codec = -1 if config.compression_type == KEEP_CODEC else CODECS[config.compression_type]
        return cls(
            config.max_message_bytes,
            config.segment_bytes,
            config.message_timestamp_type == LOG_APPEND_TIME,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            codec,
            "compact" in config.cleanup_policy,
            config.compacts or codec >= 0 or config.message_timestamp_before_max_ms < UNLIMITED_MS,
            min(config.max_message_bytes, config.segment_bytes),
        )


class ValidatedBatch(NamedTuple):
    """A batch that was checked before its append."""

    rules: AppendRules  # by which it was checked; the settings may have changed since
    header: BatchHeader
    records: memoryview  # in the topic's codec


def is_costly(records: memoryview, rules: AppendRules) -> bool:
    """Whether decoding the records would block the event loop for too long. Uses the count in the header: a
    wrong count is refused before it costs more. Compressed records may expand to any size.
    """
    if len(records) < HEADER_SIZE:
        return False
    codec = records[_ATTRIBUTES_LOW] & batches.CODEC_MASK
    if rules.codec >= 0 and codec != rules.codec:
        return codec > 0 or len(records) > RECOMPRESSED_AT_ONCE_BYTES_MAX
    if rules.needs_keys or (rules.timestamp_before_max_ms < UNLIMITED_MS and not rules.stamp_append_time):
        return codec > 0 or int.from_bytes(records[_COUNT], "big") > RECORDS_AT_ONCE_MAX
    return False


def check_opened(
    records: memoryview, rules: AppendRules, now_ms: int, produce_version: int, pace: Callable[[], None]
) -> ValidatedBatch | TidelogError:
    """All checks of a batch and its recompression. Safe in any thread, if no other thread uses the batch.
    ``pace`` is called about once a millisecond.
    """
    try:
        header = check_batch(records, rules, now_ms, produce_version, pace)
        if rules.codec >= 0 and header.codec != rules.codec:
            records = recompressed(records, header, rules)
            header = batches.parse_header(records)
        return ValidatedBatch(rules, header, records)
    except TidelogError as refusal:
        return refusal


class MustOpen(Exception):
    """The header may not match the records, and there are too many to decode them on the event loop."""

    def __init__(self, rules: AppendRules) -> None:
        super().__init__()
        self.rules = rules


def check_batch(
    records: memoryview,
    rules: AppendRules,
    now_ms: int,
    produce_version: int,
    pace: Callable[[], None] | None = None,
) -> BatchHeader:
    """The header of the one valid batch in ``records``. Raises the error that Kafka's clients expect.

    Raises :class:`MustOpen` if the records must be decoded and that would take long. With a ``pace`` they are
    decoded in any case.
    """
    if len(records) < HEADER_SIZE:
        raise _too_short(records)
    # The hot path: all checks of an ordinary batch, in as few steps as possible. For other batches the
    # functions below find the reason.
    fields = batches.unpack_header(records)
    _, length, _, magic, crc, attributes, last_delta, base_time, newest, producer_id, _, _, count = fields
    header = batches.make_header(fields)
    size = length + LENGTH_PREFIX_SIZE
    if (
        magic != batches.MAGIC
        or size != len(records)
        or crc32c(records[CRC_FROM:]) != crc
        or size > rules.size_max
        or count < 1
        or last_delta != count - 1
        or (attributes and _is_refused(attributes, producer_id, produce_version))
    ):
        raise _refusal(records, rules, produce_version)
    if attributes & batches.CODEC_MASK or rules.needs_keys:
        true_newest = _newest_timestamp(records, header, rules, now_ms, pace or _no_pace)
    elif (
        base_time == newest and framing.is_one_record(records, size)
        if count == 1
        else framing.are_records(records, size, count, newest - base_time)
    ):
        true_newest = newest
    else:
        if pace is None and count > RECORDS_AT_ONCE_MAX:
            raise MustOpen(rules)
        true_newest = validate_records(records, header, pace=pace or _no_pace).max_timestamp
    if rules.stamp_append_time:
        return header
    if attributes & batches.TIMESTAMP_TYPE_MASK:
        raise TidelogError(
            "a producer may not set the timestamp type to LogAppendTime", ErrorCode.INVALID_TIMESTAMP
        )
    if (
        true_newest > now_ms + rules.timestamp_after_max_ms  # as the header of a compressed batch says
        or rules.timestamp_before_max_ms < UNLIMITED_MS  # the header has only the newest timestamp
    ):
        true_newest = _check_times(records, header, rules, now_ms, pace)
    if true_newest != newest:
        # Look-ups by time and retention use this timestamp. Kafka also corrects it.
        return batches.set_max_timestamp(records, true_newest)
    return header


def _no_pace() -> None: ...


def _is_refused(attributes: int, producer_id: int, produce_version: int) -> bool:
    codec = attributes & batches.CODEC_MASK
    return (
        attributes & _BROKERS_OWN != 0
        or (attributes & batches.TRANSACTIONAL_MASK != 0 and producer_id < 0)
        or codec > ZSTD
        or (codec == ZSTD and produce_version < ZSTD_FROM_VERSION)
    )


def _too_short(records: memoryview) -> TidelogError:
    if not records:
        # Not CorruptBatch: the client would retry the empty batch forever.
        return InvalidRecord("no records")
    return CorruptBatch(f"{len(records)} bytes are too few for a record batch")


def _refusal(records: memoryview, rules: AppendRules, produce_version: int) -> TidelogError:
    """The reason to refuse a batch, from its header only."""
    if records[16] != batches.MAGIC:
        return InvalidRecord(f"record format {records[16]} is not supported, only {batches.MAGIC}")
    try:
        header = batches.check(records)
    except CorruptBatch as corrupt:
        return corrupt
    size = header.size
    if size != len(records):
        return InvalidRecord("a produce request holds exactly one record batch per partition")
    if size > rules.max_message_bytes:
        return _too_large(size, rules)
    if size > rules.segment_bytes:
        return TidelogError(
            f"the batch has {size} bytes, segment.bytes is {rules.segment_bytes}",
            ErrorCode.RECORD_LIST_TOO_LARGE,
        )
    if header.count < 1 or header.last_offset_delta != header.count - 1:
        return InvalidRecord(f"{header.count} records cannot span offsets 0 to {header.last_offset_delta}")
    return _wrong_attributes(header, produce_version)


def _wrong_attributes(header: BatchHeader, produce_version: int) -> TidelogError:
    attributes, codec = header.attributes, header.codec
    if attributes & _BROKERS_OWN:
        # With a client's delete horizon, tombstones could be removed early and old values reappear.
        return InvalidRecord("clients may not write control records or delete horizons")
    if attributes & batches.TRANSACTIONAL_MASK and header.producer_id < 0:
        return InvalidRecord("a batch of a transaction needs a producer id")
    if codec > ZSTD:
        return InvalidRecord(f"unknown compression codec {codec}")
    return TidelogError("zstd needs produce version 7", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _newest_timestamp(
    records: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int, pace: Callable[[], None]
) -> int:
    """The largest timestamp of records that need keys or are compressed. Raises if they do not match the
    header.
    """
    if rules.needs_keys:
        return _check_keys(records, header, rules, now_ms, pace)
    if header.count > framing.records_max(header):
        raise InvalidRecord(f"{header.count} records cannot be in {header.size} bytes")
    if not has_mark(header.codec, records, HEADER_SIZE):
        raise InvalidRecord(f"the records are not compressed with {codec_of_id(header.codec).label}")
    return header.max_timestamp


def _too_large(size: int, rules: AppendRules) -> TidelogError:
    return TidelogError(
        f"the batch has {size} bytes, max.message.bytes allows {rules.max_message_bytes}",
        ErrorCode.MESSAGE_TOO_LARGE,
    )


def _check_times(
    records: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int, pace: Callable[[], None] | None
) -> int:
    """The largest timestamp, from the records. Raises the refusal that names those outside of the limits."""
    if pace is None and (header.codec or header.count > RECORDS_AT_ONCE_MAX):
        raise MustOpen(rules)
    pace = pace or _no_pace
    summary = validate_records(records, header, pace=pace)
    limits = _limits(rules, now_ms)
    if summary.max_timestamp > limits.newest_ms or summary.min_timestamp < limits.oldest_ms:
        _refuse(records, header, limits, pace)
    return summary.max_timestamp


def _check_keys(
    records: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int, pace: Callable[[], None]
) -> int:
    summary = validate_records(records, header, pace=pace)
    if summary.first_missing_key is not None:
        _refuse(records, header, _limits(rules, now_ms), pace)
    return summary.max_timestamp


def _refuse(records: memoryview, header: BatchHeader, limits: RecordLimits, pace: Callable[[], None]) -> None:
    """Raises, unless the only suspicious records are those without a timestamp."""
    refusal = refusal_of(records, header, limits, pace)
    if refusal is not None:
        raise refusal


def _limits(rules: AppendRules, now_ms: int) -> RecordLimits:
    if rules.stamp_append_time:
        return RecordLimits(rules.needs_keys, -UNLIMITED_MS, UNLIMITED_MS)
    oldest_ms, newest_ms = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    return RecordLimits(rules.needs_keys, oldest_ms, newest_ms)


def recompressed(records: memoryview, header: BatchHeader, rules: AppendRules) -> memoryview:
    """The batch in the topic's codec. Raises if the records do not match the header, or if the batch is too
    large in the topic's codec.
    """
    payload = payload_of(records, header)
    stored = recompress(records, rules.codec, payload)
    if header.codec and not framing.payload_agrees(payload, header):
        batches.set_max_timestamp(stored, validate_records(records, header).max_timestamp)
    if len(stored) > rules.max_message_bytes:
        raise _too_large(len(stored), rules)
    return memoryview(stored)
