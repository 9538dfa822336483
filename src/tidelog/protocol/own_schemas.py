"""Kafka's requests and responses as in kio, with additional fields between brokers.

Our fields have tags far from Kafka's. Receivers that do not know them skip them, and a missing field means
its default.
"""

from dataclasses import dataclass, field
from typing import Any

from tidelog.protocol import kio_import  # isort: skip - before anything else of kio
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2.response import PartitionData, TopicData, VoteResponse
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds(EpochEndOffset):
    start_offset: i64 = field(metadata={"kafka_type": "int64", "tag": OWN_TAG}, default=i64(0))
    """Where the log of the replica begins, for a replica that is to lead. Consumers do not get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndsOfTopic(OffsetForLeaderTopicResult):
    partitions: tuple[LogEnds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndsResponse(OffsetForLeaderEpochResponse):
    topics: tuple[LogEndsOfTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteForPartition(vote_request.PartitionData):
    heals: i64 = field(metadata={"kafka_type": "int64", "tag": OWN_TAG}, default=i64(-1))
    """The loss for which the voter was readmitted. Its own log may not show that yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteForTopic(vote_request.TopicData):
    partitions: tuple[VoteForPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteForTopicsRequest(vote_request.VoteRequest):
    topics: tuple[VoteForTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteOnPartition(PartitionData):
    start_offset: i64 = field(metadata={"kafka_type": "int64", "tag": OWN_TAG}, default=i64(0))
    """Where the log of the voter begins. A candidate may have missed that records were deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesOnTopic(TopicData):
    partitions: tuple[VoteOnPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesResponse(VoteResponse):
    topics: tuple[VotesOnTopic, ...]


_REQUESTS: dict[tuple[int, int], type[Any]] = {
    (27, 2): OrderedTxnMarkersRequest,
    (52, 2): VoteForTopicsRequest,
}
_RESPONSES: dict[tuple[int, int], type[Any]] = {(23, 4): LogEndsResponse, (52, 2): VotesResponse}


def load_request_schema(api_key: int, version: int) -> type[Any]:
    return _REQUESTS.get((api_key, version)) or kio_import.load_request_schema(api_key, version)


def load_response_schema(api_key: int, version: int) -> type[Any]:
    return _RESPONSES.get((api_key, version)) or kio_import.load_response_schema(api_key, version)
