"""Kafka's requests as kio has them, but where brokers tell each other what Kafka has no field for.

An own field is tagged with a number that Kafka is far from. Whoever does not know it skips it, and whoever
does not send it means its default.
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
    """Where the coordinator's log ended when it sent the marker: an earlier marker has no larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedTxnMarkersRequest(WriteTxnMarkersRequest):
    markers: tuple[OrderedTxnMarker, ...]


_OWN: dict[tuple[int, int], type[Any]] = {(27, 2): OrderedTxnMarkersRequest}


def load_request_schema(api_key: int, version: int) -> type[Any]:
    return _OWN.get((api_key, version)) or kio_import.load_request_schema(api_key, version)
