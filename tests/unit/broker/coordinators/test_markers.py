"""Markers on their way: to the right leaders, again and again, and no further than needed."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.coordinators.markers import BACKOFF_MAX_MS, WRITE_TXN_MARKERS, MarkerOrder, MarkerSender
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.transactions.effects import SendMarkers
from tidelog.types import TopicPartition
from unit.broker.fakes import FakeServices

Done = Callable[[Any], None]


class Cluster:
    """Brokers that are asked to write markers, and answer when told to."""

    def __init__(self) -> None:
        self.broker_id = 99  # leads nothing
        self.services = FakeServices()
        self.links = self
        self.image = ClusterImage()
        self.asked: list[tuple[int, Any, Done]] = []
        self.sender = MarkerSender(self, lambda topic: None)  # type: ignore[arg-type]

    def leaders(self, **leaders: list[int]) -> None:
        """Who leads the partitions of each topic; -1 is nobody."""
        topics = {
            name: TopicImage(
                name,
                UUID(int=number),
                tuple(PartitionImage((1, 2, 3), (1, 2, 3), leader, 0) for leader in brokers),
                {},
            )
            for number, (name, brokers) in enumerate(leaders.items())
        }
        self.image = ClusterImage(topics=topics)

    def request(self, broker_id: int, api_key: int, body: Any, done: Done) -> None:
        assert api_key == WRITE_TXN_MARKERS
        self.asked.append((broker_id, requests.request_of(api_key, body), done))

    def order(self, *partitions: tuple[str, int], producer_id: int = 7) -> tuple[MarkerOrder, list[str]]:
        done: list[str] = []
        places = frozenset(TopicPartition(*each) for each in partitions)
        markers = SendMarkers("id", producer_id, 3, True, 2, places)
        order = MarkerOrder(markers, 5, 4711, lambda: done.append("done"))
        self.sender.send(order)
        self.services.settle()
        return order, done

    def answer(self, **refused: ErrorCode) -> list[tuple[int, list[str]]]:
        """Answer all that was asked; who was asked, and for which partitions."""
        asked, self.asked = self.asked, []
        told = []
        for broker_id, request, done in asked:
            markers = [
                {
                    "producer_id": marker.producer_id,
                    "topics": [
                        {
                            "name": topic.name,
                            "partitions": [
                                {
                                    "partition_index": index,
                                    "error_code": refused.get(f"{topic.name}{index}", ErrorCode.NONE),
                                }
                                for index in topic.partition_indexes
                            ],
                        }
                        for topic in marker.topics
                    ],
                }
                for marker in request.markers
            ]
            told.append(
                (
                    broker_id,
                    [
                        f"{topic.name}{index}"
                        for marker in request.markers
                        for topic in marker.topics
                        for index in topic.partition_indexes
                    ],
                )
            )
            done(requests.response_of(WRITE_TXN_MARKERS, {"markers": markers}))
        self.services.settle()
        return told


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_one_request_per_leader(cluster: Cluster) -> None:
    cluster.leaders(a=[1, 2], b=[1])
    _, done = cluster.order(("a", 0), ("a", 1), ("b", 0))
    (first, second) = cluster.asked
    (marker,) = first[1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
    assert not done
    assert sorted(cluster.answer()) == [(1, ["a0", "b0"]), (2, ["a1"])]
    assert done == ["done"]
    assert second[0] != first[0]


def test_what_comes_meanwhile_goes_together(cluster: Cluster) -> None:
    cluster.leaders(a=[1])
    orders = [cluster.order(("a", 0), producer_id=number)[1] for number in range(5)]
    assert len(cluster.asked) == 1, "one request under way at a time"
    cluster.answer()
    assert len(cluster.asked) == 1
    assert [marker.producer_id for marker in cluster.asked[0][1].markers] == [1, 2, 3, 4]
    cluster.answer()
    assert orders == [["done"]] * 5
    assert not cluster.asked


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_refusal_is_tried_again_with_the_leader_of_then(cluster: Cluster, code: ErrorCode) -> None:
    cluster.leaders(a=[1, 1])
    _, done = cluster.order(("a", 0), ("a", 1))
    cluster.answer(a1=code)
    assert (done, cluster.asked) == ([], [])
    cluster.leaders(a=[1, 2])
    cluster.services.advance(1000)
    assert cluster.answer() == [(2, ["a1"])]
    assert done == ["done"]


@pytest.mark.parametrize(
    "code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT]
)
def test_a_broker_that_is_away_is_tried_again_less_and_less_often(cluster: Cluster, code: ErrorCode) -> None:
    cluster.leaders(a=[1])
    order, done = cluster.order(("a", 0))
    for _ in range(12):
        (asked,) = cluster.asked
        cluster.asked.clear()
        asked[2](TidelogError("away", code))
        cluster.services.advance(BACKOFF_MAX_MS)
    assert order.backoff_ms == BACKOFF_MAX_MS
    assert cluster.answer() == [(1, ["a0"])]
    assert done == ["done"]


def test_a_partition_without_a_leader_waits_and_the_others_do_not(cluster: Cluster) -> None:
    cluster.leaders(a=[1, -1])
    _, done = cluster.order(("a", 0), ("a", 1))
    assert cluster.answer() == [(1, ["a0"])]
    cluster.services.advance(5000)
    assert (done, cluster.asked) == ([], [])
    cluster.leaders(a=[1, 3])
    cluster.services.advance(5000)
    assert cluster.answer() == [(3, ["a1"])]
    assert done == ["done"]


def test_a_deleted_topic_needs_no_marker(cluster: Cluster) -> None:
    cluster.leaders(a=[1])
    _, done = cluster.order(("a", 0), ("gone", 0), ("a", 7))
    assert cluster.answer() == [(1, ["a0"])]
    assert done == ["done"]
    _, done = cluster.order(("gone", 0))
    assert done == ["done"]
    assert not cluster.asked


def test_a_topic_deleted_while_its_marker_is_on_its_way(cluster: Cluster) -> None:
    cluster.leaders(a=[1], b=[1])
    _, done = cluster.order(("a", 0), ("b", 0))
    cluster.leaders(a=[1])
    cluster.answer(b0=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert done == []
    cluster.services.advance(1000)
    assert done == ["done"]


def test_a_newer_epoch_in_a_partition_settles_it(cluster: Cluster) -> None:
    cluster.leaders(a=[1])
    _, done = cluster.order(("a", 0))
    cluster.answer(a0=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert done == ["done"]


def test_who_is_replaced_stops(cluster: Cluster) -> None:
    cluster.leaders(a=[1, 1])
    order, done = cluster.order(("a", 0), ("a", 1))
    order.closed = True
    cluster.answer(a1=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.services.advance(60_000)
    assert (done, cluster.asked) == ([], [])


def test_an_answer_that_leaves_a_partition_out_is_no_yes(cluster: Cluster) -> None:
    cluster.leaders(a=[1])
    _, done = cluster.order(("a", 0))
    (asked,) = cluster.asked
    cluster.asked.clear()
    asked[2](requests.response_of(WRITE_TXN_MARKERS, {"markers": []}))
    assert done == []
    cluster.services.advance(1000)
    cluster.answer()
    assert done == ["done"]
