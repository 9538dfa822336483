"""The log ends of other replicas, requested by a future leader."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.replication.messages import TailAsk, TailGot
from tidelog.runtime.peers.exchange import UNANSWERED, Exchange, by_topic, index_of, name_of, topic_of

ANY_EPOCH = (1 << 31) - 1


class TailExchange(Exchange[TailAsk, TailGot]):
    api_key = 23
    at_once_max = 500

    def body(self, to: int, cluster_id: str, asks: Sequence[TailAsk]) -> Fields:
        def partition(ask: TailAsk) -> Fields:
            return {
                "partition": index_of(ask.key),
                "current_leader_epoch": ask.epoch,
                "leader_epoch": ANY_EPOCH,
            }

        topics = by_topic(asks, lambda ask: ask.key, partition)
        return {
            "replica_id": asks[0].sender,
            "topics": [{"topic": name_of(topic), "partitions": parts} for topic, parts in topics],
        }

    def asks(self, request: Any) -> list[TailAsk]:
        return [
            TailAsk(request.replica_id, (topic_of(topic.topic), part.partition), part.current_leader_epoch)
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[TailAsk], gots: Sequence[TailGot | None]) -> Fields:
        def partition(pair: tuple[TailAsk, TailGot | None]) -> Fields:
            ask, got = pair
            if got is None:
                return {"error_code": UNANSWERED, "partition": index_of(ask.key)}
            return {
                "error_code": got.error,
                "partition": index_of(ask.key),
                "leader_epoch": got.last_epoch,
                "end_offset": got.end_offset,
                "start_offset": got.start_offset,
            }

        topics = by_topic(zip(asks, gots, strict=True), lambda pair: pair[0].key, partition)
        return {"topics": [{"topic": name_of(topic), "partitions": parts} for topic, parts in topics]}

    def gots(self, peer: int, asks: Sequence[TailAsk], response: Any) -> Iterator[TailGot]:
        epochs = {ask.key: ask.epoch for ask in asks}
        for topic in response.topics:
            for part in topic.partitions:
                key = (topic_of(topic.topic), part.partition)
                if key in epochs:
                    error = ErrorCode(part.error_code)
                    yield TailGot(
                        peer, key, error, epochs[key], part.leader_epoch, part.end_offset, part.start_offset
                    )

    def token(self, message: TailAsk | TailGot) -> Hashable:
        return message.key, message.epoch
