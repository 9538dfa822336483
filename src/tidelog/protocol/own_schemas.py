"""Kafka's requests as in kio, with additional fields between brokers.

Our fields have tags far from Kafka's. Receivers that do not know them skip them, and a missing field means
its default.
"""

from dataclasses import dataclass, field
from typing import Any

from tidelog.protocol import kio_import  # isort: skip - before anything else of kio
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.static.primitive import i64

OWN_TAG = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedTxnMarker(WritableTxnMarker):
    coordinator_offset: i64 = field(metadata={"kafka_type": "int64", "tag": OWN_TAG}, default=i64(-1))
    """The end of the coordinator's log when it sent the marker: an earlier marker has no larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedTxnMarkersRequest(WriteTxnMarkersRequest):
    markers: tuple[OrderedTxnMarker, ...]


_OWN: dict[tuple[int, int], type[Any]] = {(27, 2): OrderedTxnMarkersRequest}


def load_request_schema(api_key: int, version: int) -> type[Any]:
    return _OWN.get((api_key, version)) or kio_import.load_request_schema(api_key, version)
