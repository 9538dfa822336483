"""The records of ``__transaction_state`` as bytes: Kafka's own format, so that its tools can read them.

=======  ===========================================================================================
key      kind int16 (0), transactional id
value    version int16 (1), producer id int64, producer epoch int16, timeout int32, state int8, partitions
         by topic (null when it is empty), last update int64, start int64; tagged: 0 previous producer id,
         1 next producer id, 2 the client's transaction version
=======  ===========================================================================================

Version 0 of the value (no tagged fields, fixed-width lengths) can be read as well.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from tidelog.errors import StorageError
from tidelog.protocol.wire import (
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_string,
    read_uvarint,
    skip_tags,
    write_array_size,
    write_string,
    write_uvarint,
)
from tidelog.shard_effects import KeyValue
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import NO_PRODUCER_ID, Transaction, last_epoch_of
from tidelog.types import TopicPartition

KIND = 0
VERSION = 1

_HEAD = Struct(">qhib")  # Producer id, epoch, timeout, state.
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = range(3)


class TransactionRecord(NamedTuple):
    transactional_id: str
    transaction: Transaction | None  # None: expired.


# -- writing -----------------------------------------------------------------------


def key_of(transactional_id: str) -> bytes:
    return INT16.pack(KIND) + write_string(transactional_id, False)


def record_of(transaction: Transaction) -> KeyValue:
    parts = [
        INT16.pack(VERSION),
        _HEAD.pack(
            transaction.producer_id, transaction.epoch, transaction.timeout_ms, int(transaction.state)
        ),
        _partitions(transaction),
        INT64.pack(transaction.updated_ms),
        INT64.pack(transaction.started_ms),
        _tags(transaction),
    ]
    return key_of(transaction.transactional_id), b"".join(parts)


def tombstone(transactional_id: str) -> KeyValue:
    return key_of(transactional_id), None


def _partitions(transaction: Transaction) -> bytes:
    if transaction.state is TransactionState.EMPTY:
        return write_uvarint(0)  # Null.
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [write_array_size(len(by_topic), True)]
    for topic, indexes in by_topic.items():
        parts += [write_string(topic, True), write_array_size(len(indexes), True)]
        parts += [INT32.pack(index) for index in indexes]
        parts.append(_NO_TAGS)
    return b"".join(parts)


_NO_TAGS = b"\x00"


def _tags(transaction: Transaction) -> bytes:
    fields = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        fields.append((_PREVIOUS_ID, INT64.pack(transaction.previous_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        fields.append((_NEXT_ID, INT64.pack(transaction.next_producer_id)))
    if transaction.client_version:
        fields.append((_CLIENT_VERSION, INT16.pack(transaction.client_version)))
    tagged = b"".join(write_uvarint(tag) + write_uvarint(len(data)) + data for tag, data in fields)
    return write_uvarint(len(fields)) + tagged


# -- reading -----------------------------------------------------------------------


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Decode a record. Returns None for an unknown kind, which a newer broker wrote; raises StorageError for
    an invalid record.
    """
    try:
        if key is None or INT16.unpack_from(key)[0] != KIND:
            return None
        transactional_id, _ = read_string(key, INT16.size, False)
        if not transactional_id:
            raise Malformed("no transactional id")
        if value is None:
            return TransactionRecord(transactional_id, None)
        return TransactionRecord(transactional_id, _transaction(transactional_id, value))
    except (Malformed, STRUCT_ERROR, IndexError, ValueError) as error:
        raise StorageError(f"a record of a transaction cannot be read: {error}") from None


def _transaction(transactional_id: str, value: bytes) -> Transaction:
    (version,) = INT16.unpack_from(value)
    if version > VERSION:
        raise Malformed(f"version {version} is newer than this broker")
    flexible = version >= 1
    producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(value, INT16.size)
    partitions, position = _read_partitions(value, INT16.size + _HEAD.size, flexible)
    (updated_ms,) = INT64.unpack_from(value, position)
    (started_ms,) = INT64.unpack_from(value, position + 8)
    tags = _read_tags(value, position + 16) if flexible else {}
    client_version = _tagged(tags, _CLIENT_VERSION, INT16, 0)
    return Transaction(
        transactional_id, producer_id, epoch, timeout_ms, TransactionState(state), frozenset(partitions),
        started_ms, updated_ms,
        previous_producer_id=_tagged(tags, _PREVIOUS_ID, INT64, NO_PRODUCER_ID),
        next_producer_id=_tagged(tags, _NEXT_ID, INT64, NO_PRODUCER_ID),
        last_epoch=last_epoch_of(TransactionState(state), epoch, client_version),
        client_version=client_version,
    )  # fmt: skip


def _read_partitions(value: bytes, position: int, flexible: bool) -> tuple[Iterable[TopicPartition], int]:
    found = []
    topics, position = read_array_size(value, position, flexible)
    for _ in range(topics):
        topic, position = read_string(value, position, flexible)
        count, position = read_array_size(value, position, flexible)
        for _ in range(count):
            (index,) = INT32.unpack_from(value, position)
            found.append(TopicPartition(topic or "", index))
            position += INT32.size
        if flexible:
            position = skip_tags(value, position)
    return found, position


def _read_tags(value: bytes, position: int) -> dict[int, bytes]:
    count, position = read_uvarint(value, position)
    tags = {}
    for _ in range(count):
        tag, position = read_uvarint(value, position)
        size, position = read_uvarint(value, position)
        tags[tag] = value[position : position + size]
        position += size
    return tags


def _tagged(tags: dict[int, bytes], tag: int, kind: Struct, default: int) -> int:
    value: int = kind.unpack(tags[tag])[0] if tag in tags else default
    return value
