"""Messages of replicas besides fetches: votes, new leaders, leadership transfer, and parts of snapshots."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.replication.messages import (
    LeaderBegan,
    SnapshotAsk,
    SnapshotGot,
    StandNow,
    VoteRequested,
    VoteResponded,
)
from tidelog.replication.votes import Tail, VoteRequest, VoteResponse
from tidelog.runtime.peers.exchange import (
    UNANSWERED,
    Exchange,
    by_topic,
    index_of,
    name_of,
    topic_id_of,
    topic_of,
)
from tidelog.types import SnapshotId


class VoteExchange(Exchange[VoteRequested, VoteResponded]):
    api_key = 52
    at_once_max = 500

    def body(self, to: int, cluster_id: str, asks: Sequence[VoteRequested]) -> Fields:
        def partition(requested: VoteRequested) -> Fields:
            request = requested.request
            return {
                "partition_index": index_of(requested.key),
                "replica_epoch": request.epoch,
                "replica_id": request.candidate,
                "replica_directory_id": request.candidate_directory,
                "voter_directory_id": request.voter_directory,
                "last_offset_epoch": request.tail.last_epoch,
                "last_offset": request.tail.end_offset,
                "pre_vote": request.pre,
                "heals": request.heals,
            }

        topics = by_topic(asks, lambda requested: requested.key, partition)
        return {
            "cluster_id": cluster_id or None,
            "voter_id": to,
            "topics": [{"topic_name": name_of(topic), "partitions": parts} for topic, parts in topics],
        }

    def asks(self, request: Any) -> list[VoteRequested]:
        return [
            VoteRequested(
                part.replica_id,
                (topic_of(topic.topic_name), part.partition_index),
                VoteRequest(
                    part.replica_epoch,
                    part.replica_id,
                    Tail(part.last_offset_epoch, part.last_offset),
                    part.pre_vote,
                    part.replica_directory_id,
                    part.voter_directory_id,
                    part.heals,
                ),
            )
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[VoteRequested], gots: Sequence[VoteResponded | None]) -> Fields:
        def partition(pair: tuple[VoteRequested, VoteResponded | None]) -> Fields:
            requested, responded = pair
            if responded is None:
                return {"partition_index": index_of(requested.key), "error_code": UNANSWERED, "leader_id": -1}
            response = responded.response
            return {
                "partition_index": index_of(requested.key),
                "error_code": ErrorCode.NONE,
                "leader_id": response.leader,
                "leader_epoch": response.epoch,
                "vote_granted": response.granted,
                "start_offset": response.start_offset,
            }

        topics = by_topic(zip(asks, gots, strict=True), lambda pair: pair[0].key, partition)
        return {"topics": [{"topic_name": name_of(topic), "partitions": parts} for topic, parts in topics]}

    def gots(self, peer: int, asks: Sequence[VoteRequested], response: Any) -> Iterator[VoteResponded]:
        pre = {requested.key: requested.request.pre for requested in asks}
        for topic in response.topics:
            for part in topic.partitions:
                key = (topic_of(topic.topic_name), part.partition_index)
                if part.error_code == ErrorCode.NONE and key in pre:
                    response = VoteResponse(
                        peer,
                        part.leader_epoch,
                        part.vote_granted,
                        part.leader_id,
                        pre[key],
                        part.start_offset,
                    )
                    yield VoteResponded(peer, key, response)

    def token(self, message: VoteRequested | VoteResponded) -> Hashable:
        pre = message.request.pre if isinstance(message, VoteRequested) else message.response.pre
        return message.key, pre


class NewLeaderExchange(Exchange[LeaderBegan, LeaderBegan]):
    api_key = 53
    at_once_max = 500
    one_way = True

    def body(self, to: int, cluster_id: str, asks: Sequence[LeaderBegan]) -> Fields:
        return {"cluster_id": cluster_id or None, "voter_id": to, "topics": self._topics(asks)}

    def asks(self, request: Any) -> list[LeaderBegan]:
        return [
            LeaderBegan(part.leader_id, (topic_of(topic.topic_name), part.partition_index), part.leader_epoch)
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[LeaderBegan], gots: Sequence[LeaderBegan | None]) -> Fields:
        return {"topics": self._topics(asks)}

    @staticmethod
    def _topics(asks: Sequence[LeaderBegan]) -> list[Fields]:
        def partition(began: LeaderBegan) -> Fields:
            return {
                "partition_index": index_of(began.key),
                "leader_id": began.sender,
                "leader_epoch": began.epoch,
            }

        topics = by_topic(asks, lambda began: began.key, partition)
        return [{"topic_name": name_of(topic), "partitions": parts} for topic, parts in topics]

    def gots(self, peer: int, asks: Sequence[LeaderBegan], response: Any) -> Iterable[LeaderBegan]:
        return ()


class HandOverExchange(Exchange[StandNow, StandNow]):
    api_key = 54
    at_once_max = 500
    one_way = True

    def body(self, to: int, cluster_id: str, asks: Sequence[StandNow]) -> Fields:
        def partition(stand: StandNow) -> Fields:
            return {
                "partition_index": index_of(stand.key),
                "leader_id": stand.sender,
                "leader_epoch": stand.epoch,
                "preferred_candidates": [{"candidate_id": to, "candidate_directory_id": None}],
            }

        topics = by_topic(asks, lambda stand: stand.key, partition)
        return {
            "cluster_id": cluster_id or None,
            "topics": [{"topic_name": name_of(topic), "partitions": parts} for topic, parts in topics],
            "leader_endpoints": [],
        }

    def asks(self, request: Any) -> list[StandNow]:
        return [
            StandNow(part.leader_id, (topic_of(topic.topic_name), part.partition_index), part.leader_epoch)
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[StandNow], gots: Sequence[StandNow | None]) -> Fields:
        return {"error_code": ErrorCode.NONE, "topics": []}

    def gots(self, peer: int, asks: Sequence[StandNow], response: Any) -> Iterable[StandNow]:
        return ()


class SnapshotExchange(Exchange[SnapshotAsk, SnapshotGot]):
    api_key = 59

    def body(self, to: int, cluster_id: str, asks: Sequence[SnapshotAsk]) -> Fields:
        ask = asks[0]
        partition = {
            "partition": index_of(ask.key),
            "current_leader_epoch": ask.epoch,
            "snapshot_id": {"end_offset": ask.snapshot.end_offset, "epoch": ask.snapshot.epoch},
            "position": ask.position,
            "replica_directory_id": ask.directory,
        }
        return {
            "cluster_id": cluster_id or None,
            "replica_id": ask.sender,
            "max_bytes": ask.max_bytes,
            "topics": [{"name": name_of(topic_id_of(ask.key)), "partitions": [partition]}],
        }

    def asks(self, request: Any) -> list[SnapshotAsk]:
        return [
            SnapshotAsk(
                request.replica_id,
                (topic_of(topic.name), part.partition),
                part.current_leader_epoch,
                part.replica_directory_id,
                SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                part.position,
                request.max_bytes,
            )
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[SnapshotAsk], gots: Sequence[SnapshotGot | None]) -> Fields:
        def partition(pair: tuple[SnapshotAsk, SnapshotGot | None]) -> Fields:
            ask, got = pair
            snapshot = ask.snapshot if got is None else got.snapshot
            fields = {
                "index": index_of(ask.key),
                "snapshot_id": {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch},
            }
            if got is None:
                return {
                    **fields,
                    "error_code": UNANSWERED,
                    "current_leader": {"leader_id": -1, "leader_epoch": -1},
                    "position": ask.position,
                }
            return {
                **fields,
                "error_code": got.error,
                "current_leader": {"leader_id": got.leader, "leader_epoch": got.epoch},
                "size": got.size,
                "position": got.position,
                "unaligned_records": bytes(got.data),
            }

        topics = by_topic(zip(asks, gots, strict=True), lambda pair: pair[0].key, partition)
        return {"topics": [{"name": name_of(topic), "partitions": parts} for topic, parts in topics]}

    def gots(self, peer: int, asks: Sequence[SnapshotAsk], response: Any) -> Iterator[SnapshotGot]:
        for topic in response.topics:
            for part in topic.partitions:
                yield SnapshotGot(
                    peer,
                    (topic_of(topic.name), part.index),
                    ErrorCode(part.error_code),
                    part.current_leader.leader_epoch,
                    part.current_leader.leader_id,
                    SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                    part.size,
                    part.position,
                    part.unaligned_records,
                )

    def token(self, message: SnapshotAsk | SnapshotGot) -> Hashable:
        return message.key, message.snapshot, message.position
