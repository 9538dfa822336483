"""The marker that ends a transaction in one partition: a control batch of one record, in Kafka's format.

The record's key says whether the transaction is committed or aborted, its value who says so:

=============== ====== =====================================================================
value           type   notes
=============== ====== =====================================================================
version         int16  0
coordinator     int32  leader epoch of the coordinator's partition: a marker of an older one than
epoch                  the newest seen comes from a coordinator that was replaced
=============== ====== =====================================================================
"""

from struct import Struct
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.protocol.batch import BatchHeader, Buffer
from tidelog.protocol.records import (
    ControlType,
    Record,
    control_key,
    control_type,
    decode_batch,
    encode_batch,
)

_VALUE = Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    commits: bool  # Else it aborts.
    coordinator_epoch: int


def encode_marker(
    marker: Marker, producer_id: int, producer_epoch: int, offset: int, now_ms: int
) -> bytearray:
    """The whole batch, at ``offset``."""
    kind = ControlType.COMMIT if marker.commits else ControlType.ABORT
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(offset, now_ms, control_key(kind), value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def decode_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None where it is of another kind, or compaction has emptied it."""
    for record in decode_batch(batch, header):
        kind = control_type(record.key)
        if kind not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            raise CorruptBatch("the marker of a transaction does not say which coordinator wrote it")
        return Marker(kind == ControlType.COMMIT, _VALUE.unpack_from(record.value)[1])
    return None
