"""The marker that ends a transaction in one partition: a control batch of one record, in Kafka's format.

The record's key says whether the transaction is committed or aborted, its value who decided:

=============== ====== =====================================================================
value           type   notes
=============== ====== =====================================================================
version         int16  0
coordinator     int32  leader epoch of the coordinator's partition: a marker of an older one than
epoch                  the newest seen comes from a coordinator that was replaced
coordinator     int64  Tidelog's own, optional: end offset of the coordinator's partition when it sent
offset                 the marker. In one coordinator epoch, a marker with no larger one than the
                       newest seen is of an earlier transaction
=============== ====== =====================================================================

Kafka's readers ignore everything after the coordinator epoch.
"""

from struct import Struct
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import CONTROL_MASK, HEADER_SIZE, TRANSACTIONAL_MASK, BatchHeader, Buffer
from tidelog.protocol.records import ControlType, control_type, decode_batch

_VALUE = Struct(">hi")
_WHOLE_VALUE = Struct(">hiq")
NO_COORDINATOR_OFFSET = -1
_VERSION = 0

# The only record, in its usual form: length, attributes, timestamp and offset delta 0; the size of the key,
# its version and type; the size of the value, its version and the coordinator epoch; no headers.
_RECORD = Struct(">4sbhhbhib")
_RECORD_START = b"\x20\x00\x00\x00"
_KEY_SIZE, _VALUE_SIZE = 8, 12  # zigzag
# The same with the coordinator's offset.
_WHOLE_RECORD = Struct(">4sbhhbhiqb")
_WHOLE_RECORD_START = b"\x30\x00\x00\x00"
_WHOLE_VALUE_SIZE = 28


class Marker(NamedTuple):
    commits: bool  # Else it aborts.
    coordinator_epoch: int
    coordinator_offset: int = NO_COORDINATOR_OFFSET  # -1: unknown, from an administrator or another system.


def encode_marker(
    marker: Marker, producer_id: int, producer_epoch: int, offset: int, now_ms: int
) -> bytearray:
    """The whole batch, at ``offset``."""
    kind = ControlType.COMMIT if marker.commits else ControlType.ABORT
    epoch, coordinator_offset = marker.coordinator_epoch, marker.coordinator_offset
    if coordinator_offset == NO_COORDINATOR_OFFSET:
        record = _RECORD.pack(_RECORD_START, _KEY_SIZE, 0, kind, _VALUE_SIZE, _VERSION, epoch, 0)
    else:
        record = _WHOLE_RECORD.pack(
            _WHOLE_RECORD_START, _KEY_SIZE, 0, kind, _WHOLE_VALUE_SIZE, _VERSION, epoch, coordinator_offset, 0
        )
    return batches.build(
        record,
        base_offset=offset,
        last_offset_delta=0,
        count=1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def decode_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None if it is of another kind, or compaction has emptied it."""
    if header.size == HEADER_SIZE + _WHOLE_RECORD.size:
        start, _, _, kind, _, _, coordinator_epoch, offset, _ = _WHOLE_RECORD.unpack_from(batch, HEADER_SIZE)
        if start == _WHOLE_RECORD_START and kind in (ControlType.ABORT, ControlType.COMMIT):
            return Marker(kind == ControlType.COMMIT, coordinator_epoch, offset)
    if header.size == HEADER_SIZE + _RECORD.size:
        start, _, _, kind, _, _, coordinator_epoch, _ = _RECORD.unpack_from(batch, HEADER_SIZE)
        if start == _RECORD_START and kind in (ControlType.ABORT, ControlType.COMMIT):
            return Marker(kind == ControlType.COMMIT, coordinator_epoch)
    return _decode_any(batch, header)


def _decode_any(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The same for a batch in another form: compaction changes its timestamps."""
    for record in decode_batch(batch, header):
        kind = control_type(record.key)
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            raise CorruptBatch("the marker of a transaction does not say which coordinator wrote it")
        commits = kind == ControlType.COMMIT
        if len(record.value) >= _WHOLE_VALUE.size:
            return Marker(commits, *_WHOLE_VALUE.unpack_from(record.value)[1:])
        return Marker(commits, _VALUE.unpack_from(record.value)[1])
    return None
