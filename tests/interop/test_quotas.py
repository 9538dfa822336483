"""Client quotas: a client that is over one is told how long to wait, and is not listened to meanwhile.

Ten seconds' worth may be used at once, so each test uses up a little more.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from . import calls
from .records import batch
from .wire import ConnectionEnded, Wire

pytestmark = pytest.mark.interop

NONE = timedelta(0)
_numbers = count()


@pytest.fixture
def client() -> str:
    """A client id that no other test uses: what was used of a quota is remembered."""
    return f"client-{time.time_ns()}-{next(_numbers)}"


class Limited:
    """A quota, for as long as the test runs."""

    def __init__(self, wire: Wire, entity: dict[str, str | None], key: str) -> None:
        self._wire = wire
        self._entity = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
        self._key = key

    def set(self, value: float | None) -> None:
        change = {"key": self._key, "value": value or 0.0, "remove": value is None}
        entry = {"entity": self._entity, "ops": [change]}
        answer = self._wire.call("alter_client_quotas", 1, entries=[entry], validate_only=False)
        assert [each.error_code for each in answer.entries] == [ErrorCode.none]


@pytest.fixture
def limited(wire: Wire) -> Iterator[Any]:
    made: list[Limited] = []

    def limit(entity: dict[str, str | None], key: str, value: float) -> Limited:
        quota = Limited(wire, entity, key)
        made.append(quota)
        quota.set(value)
        return quota

    yield limit
    for quota in made:
        quota.set(None)


def produced(wire: Wire, topic: str, size: int, version: int = 9) -> timedelta:
    """The throttle time after a batch of this size."""
    data = bytes(batch(b"x" * size))
    answer = wire.call("produce", version, **calls.produce_request(topic, data, 0, -1))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    throttle: timedelta = answer.throttle_time
    return throttle


def seconds_of(wire: Wire) -> float:
    """How long the broker takes to answer a request that it usually answers at once."""
    began = time.monotonic()
    wire.call("metadata", 12, topics=[])
    return time.monotonic() - began


@pytest.mark.parametrize("version", [3, 8, 9])
def test_produce(bootstrap: str, topic: str, client: str, limited: Any, version: int) -> None:
    limited({"client-id": client}, "producer_byte_rate", 50_000)
    with Wire(bootstrap, client_id=client) as wire, Wire(bootstrap, client_id="another") as other:
        assert produced(wire, topic, 400_000, version) == NONE
        throttle = produced(wire, topic, 200_000, version)
        assert 0.5 < throttle.total_seconds() < 3
        assert produced(other, topic, 400_000, version) == NONE
        assert seconds_of(other) < 0.5
        assert seconds_of(wire) > throttle.total_seconds() * 0.8 - 0.2


def test_a_connection_that_has_written_before_the_quota(
    bootstrap: str, topic: str, client: str, limited: Any
) -> None:
    """Its requests look alike, and take the short way through the broker."""
    with Wire(bootstrap, client_id=client) as wire:
        for _ in range(3):
            assert produced(wire, topic, 300_000) == NONE
        quota = limited({"client-id": client}, "producer_byte_rate", 50_000)
        assert produced(wire, topic, 300_000) == NONE
        throttle = produced(wire, topic, 300_000)
        assert throttle > NONE
        quota.set(None)
        assert seconds_of(wire) > throttle.total_seconds() * 0.8 - 0.2
        for _ in range(3):
            assert produced(wire, topic, 300_000) == NONE


def test_connections_of_one_client_share_its_quota(
    bootstrap: str, topic: str, client: str, limited: Any
) -> None:
    limited({"client-id": client}, "producer_byte_rate", 50_000)
    with Wire(bootstrap, client_id=client) as one, Wire(bootstrap, client_id=client) as other:
        assert produced(one, topic, 400_000) == NONE
        assert produced(other, topic, 200_000) > NONE


def test_the_default_of_all_client_ids_is_for_each(
    bootstrap: str, topic: str, client: str, limited: Any
) -> None:
    limited({"client-id": None}, "producer_byte_rate", 50_000)
    limited({"client-id": client}, "producer_byte_rate", 1_000_000_000)
    with Wire(bootstrap, client_id=client) as exempt, Wire(bootstrap, client_id=f"{client}-2") as slow:
        assert produced(exempt, topic, 700_000) == NONE
        assert produced(slow, topic, 700_000) > NONE


@pytest.mark.parametrize("version", [4, 11, 12])
def test_fetch(bootstrap: str, topic: str, client: str, limited: Any, version: int) -> None:
    with Wire(bootstrap) as writer:
        for _ in range(10):
            produced(writer, topic, 100_000)
    limited({"client-id": client}, "consumer_byte_rate", 40_000)
    with Wire(bootstrap, client_id=client) as wire:
        part = calls.fetch_partition(0, 0, partition_max_bytes=1 << 30)
        fetch = calls.fetch_request([{"topic": topic, "partitions": [part]}], max_bytes=1 << 30)
        first = wire.call("fetch", version, **fetch)
        records = first.responses[0].partitions[0].records
        # No more than a window's worth at once, however much the client asks for.
        assert 300_000 < len(records) <= 40_000 * 11
        second = wire.call("fetch", version, **fetch)
        assert second.throttle_time.total_seconds() > 1
        assert seconds_of(wire) > 0.8


def test_request_time(bootstrap: str, client: str, limited: Any) -> None:
    """A hundredth of a percent of the event loop: a millisecond in ten seconds."""
    limited({"client-id": client}, "request_percentage", 0.01)
    with Wire(bootstrap, client_id=client) as wire:
        waits = (wire.call("metadata", 12, topics=None).throttle_time for _ in range(200))
        assert next(wait for wait in waits if wait > NONE) <= timedelta(seconds=11)


class TestChangesOfTopics:
    def create(self, wire: Wire, name: str, partitions: int, version: int = 7) -> Any:
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = wire.call("create_topics", version, topics=[wanted], timeout=30_000, validate_only=False)
        return answer.topics[0].error_code, answer.throttle_time

    def test_newer_clients_are_refused(self, bootstrap: str, client: str, limited: Any) -> None:
        limited({"client-id": client}, "controller_mutation_rate", 2)
        with Wire(bootstrap, client_id=client) as wire:
            # The last one may overdraw.
            assert self.create(wire, f"{client}-a", 20) == (ErrorCode.none, NONE)
            code, wait = self.create(wire, f"{client}-b", 5)
            assert code is ErrorCode.none
            assert wait > NONE
            # Muted until the bucket is no longer empty; then it is overdrawn again at once.
            code, wait = self.create(wire, f"{client}-c", 20)
            assert code is ErrorCode.none
            with Wire(bootstrap, client_id=client) as unaware:
                code, wait = self.create(unaware, f"{client}-d", 1)
                assert code is ErrorCode.throttling_quota_exceeded
                assert wait.total_seconds() > 5
            with Wire(bootstrap, client_id=client) as old:
                code, wait = self.create(old, f"{client}-e", 1, version=5)
                assert code is ErrorCode.none
                assert wait.total_seconds() > 5
            with Wire(bootstrap, client_id=client) as deleting:
                answer = deleting.call("delete_topics", 5, topic_names=[f"{client}-a"], timeout=30_000)
                assert answer.responses[0].error_code is ErrorCode.throttling_quota_exceeded
            with Wire(bootstrap, client_id=client) as growing:
                wanted = {"name": f"{client}-a", "count": 30, "assignments": None}
                answer = growing.call(
                    "create_partitions", 3, topics=[wanted], timeout=30_000, validate_only=False
                )
                assert answer.results[0].error_code is ErrorCode.throttling_quota_exceeded
            with Wire(bootstrap, client_id=f"{client}-2") as other:
                assert self.create(other, f"{client}-f", 1) == (ErrorCode.none, NONE)


@pytest.mark.not_kafka  # which delays them, too, and lets them in
def test_connections_of_an_address(bootstrap: str, limited: Any) -> None:
    quota = limited({"ip": "127.0.0.1"}, "connection_creation_rate", 1)

    def is_served() -> bool:
        try:
            with Wire(bootstrap) as wire:
                return bool(wire.versions())
        except ConnectionEnded:
            return False

    served = [is_served() for _ in range(14)]
    assert served[:9] == [True] * 9
    assert not all(served)
    quota.set(None)
    assert all(is_served() for _ in range(14))


def test_a_real_producer_is_slowed_down_and_loses_nothing(
    bootstrap: str, topic: str, client: str, limited: Any
) -> None:
    limited({"client-id": client}, "producer_byte_rate", 100_000)
    told: list[float] = []
    delivered: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client,
            "throttle_cb": lambda event: told.append(event.throttle_time),
            "batch.size": 100_000,
        }
    )
    began = time.monotonic()
    for _ in range(130):
        producer.produce(topic, b"x" * 10_000, on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(60) == 0
    assert delivered == [None] * 130
    assert max(told) > 0
    assert time.monotonic() - began > 1.5
