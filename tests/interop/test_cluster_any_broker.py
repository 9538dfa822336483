"""Whatever changes the cluster can be asked of any broker, and is there at that broker when it answers."""

import contextlib
import threading
import time

import pytest

from interop import calls
from interop.wire import Wire
from tidelog.client.cluster_view import active_controller
from tidelog.errors import ErrorCode
from tidelog.testing import Broker, Cluster

pytestmark = pytest.mark.interop

TIMEOUT_MS = 20_000


def create(wire: Wire, name: str, partitions: int = 3) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 3}
    (result,) = wire.call("create_topics", 7, topics=[topic], timeout=TIMEOUT_MS).topics
    assert result.error_code == 0, result


def partitions_of(wire: Wire, name: str) -> int:
    """As this broker knows it; 0 when it does not."""
    (topic,) = wire.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics
    return len(topic.partitions)


@pytest.fixture
def brokers(tidelog_shared_cluster: Cluster) -> list[Broker]:
    return list(tidelog_shared_cluster)


def test_topics_are_made_changed_and_deleted_through_each(brokers: list[Broker]) -> None:
    for number, broker in enumerate(brokers):
        name = f"through-{number}"
        with Wire(broker.bootstrap) as wire:
            create(wire, name)
            assert partitions_of(wire, name) == 3

            more = [{"name": name, "count": 5, "assignments": None}]
            (result,) = wire.call("create_partitions", 3, topics=more, timeout=TIMEOUT_MS).results
            assert result.error_code == 0, result
            assert partitions_of(wire, name) == 5

            change = {"name": "retention.ms", "config_operation": 0, "value": "12345"}
            resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
            (result,) = wire.call("incremental_alter_configs", 1, resources=[resource]).responses
            assert result.error_code == 0, result
            wanted = {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}
            (found,) = wire.call("describe_configs", 4, resources=[wanted]).results
            assert [config.value for config in found.configs] == ["12345"]

            gone = wire.call("delete_topics", 6, topics=[{"name": name}], timeout=TIMEOUT_MS)
            assert [result.error_code for result in gone.responses] == [0]
            assert partitions_of(wire, name) == 0


def test_refusals_are_the_controllers(brokers: list[Broker]) -> None:
    with Wire(brokers[0].bootstrap) as wire:
        create(wire, "twice")
    for broker in brokers:
        with Wire(broker.bootstrap) as wire:
            again = {"name": "twice", "num_partitions": 1, "replication_factor": 1}
            (result,) = wire.call("create_topics", 7, topics=[again], timeout=TIMEOUT_MS).topics
            assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_that_is_missing_is_made_by_whoever_is_asked_for_it(brokers: list[Broker]) -> None:
    for number, broker in enumerate(brokers):
        with Wire(broker.bootstrap) as wire:
            wanted = [{"name": f"missing-{number}"}]
            (topic,) = wire.call("metadata", 12, topics=wanted, allow_auto_topic_creation=True).topics
            assert topic.error_code == 0
            assert topic.partitions


def test_no_producer_id_is_given_twice(brokers: list[Broker]) -> None:
    given = []
    for _ in range(5):
        for broker in brokers:
            with Wire(broker.bootstrap) as wire:
                answer = wire.call(
                    "init_producer_id", 4, transactional_id=None, producer_id=-1, producer_epoch=-1
                )
                assert answer.error_code == 0
                given.append(answer.producer_id)
    assert len(set(given)) == len(given)


def test_a_request_outlives_the_controller(tidelog_cluster: Cluster) -> None:
    """Asked while nobody decides: answered as soon as the next controller does."""
    controller = tidelog_cluster.controller()
    others = [broker for broker in tidelog_cluster if broker is not controller]
    failures: list[object] = []

    def keep_creating(broker: Broker, prefix: str) -> None:
        with Wire(broker.bootstrap) as wire:
            for number in range(40):
                topic = {"name": f"{prefix}-{number}", "num_partitions": 1, "replication_factor": 2}
                (result,) = wire.call("create_topics", 7, topics=[topic], timeout=TIMEOUT_MS).topics
                # Decided just before the old controller died, and asked for again.
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    failures.append(result)
                if number == 10:
                    reached.release()

    reached = threading.Semaphore(0)
    threads = [
        threading.Thread(target=keep_creating, args=(broker, f"by-{number}"))
        for number, broker in enumerate(others)
    ]
    for thread in threads:
        thread.start()
    reached.acquire()
    controller.kill()
    for thread in threads:
        thread.join()
    assert failures == []
    for number, broker in enumerate(others):
        with Wire(broker.bootstrap) as wire:
            assert all(partitions_of(wire, f"by-{number}-{each}") == 1 for each in range(40))


def test_a_request_in_flight_outlives_a_change_of_the_controller(tidelog_cluster: Cluster) -> None:
    """The active controller wrote a decision, and is replaced before it knows that the others have it. It
    forwards its client's request to its successor: the client does not hear of NOT_CONTROLLER, and finds its
    topic.

    What the others had asked for before they were paused may hold the decision. Then the successor has the
    topic when the request arrives, and says so, as Kafka does to a client that asks again.
    """
    first = tidelog_cluster.controller()
    others = [broker for broker in tidelog_cluster if broker is not first]

    def written() -> bool:
        logs = first.data_directory.glob("__cluster_metadata*/*.log")
        return any(b"in-flight" in log.read_bytes() for log in logs)

    def replaced() -> bool:
        with contextlib.suppress(OSError):  # It waits for the controller that it knows.
            return active_controller(others[0].host, others[0].port) not in (-1, first.node_id)
        return False

    with Wire(first.bootstrap) as wire:
        for broker in others:
            broker.pause()
        topic = {"name": "in-flight", "num_partitions": 3, "replication_factor": 3}
        correlation_id = wire.send("create_topics", 7, topics=[topic], timeout=60_000)
        calls.eventually(written, "the decision is written")
        first.pause()
        for broker in others:
            broker.resume()
        calls.eventually(replaced, "another controller is active")
        first.resume()
        (result,) = wire.receive("create_topics", 7, correlation_id).topics
        assert result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), result
        assert partitions_of(wire, "in-flight") == 3


def test_the_quota_for_changes_of_topics_counts_on_whichever_broker(brokers: list[Broker]) -> None:
    """The active controller counts; the broker that the client is connected to makes it wait."""
    entity = [{"entity_type": "client-id", "entity_name": "changer"}]

    def limit(value: float | None) -> None:
        change = {"key": "controller_mutation_rate", "value": value or 0.0, "remove": value is None}
        with Wire(brokers[0].bootstrap) as admin:
            answer = admin.call(
                "alter_client_quotas", 1, entries=[{"entity": entity, "ops": [change]}], validate_only=False
            )
            assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]

    def attempt(broker: Broker, name: str, partitions: int) -> tuple[ErrorCode, float]:
        with Wire(broker.bootstrap, client_id="changer") as wire:
            topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
            answer = wire.call("create_topics", 7, topics=[topic], timeout=TIMEOUT_MS)
            wait_s = answer.throttle_time.total_seconds()
            if 0 < wait_s < 3:
                began = time.monotonic()
                wire.call("metadata", 12, topics=[])
                assert time.monotonic() - began > wait_s * 0.8 - 0.2
            return ErrorCode(answer.topics[0].error_code), wait_s

    limit(1.0)
    try:
        assert attempt(brokers[0], "quota-0", 11)[0] is ErrorCode.NONE
        # It may be overdrawn once, by whichever broker comes next.
        code, wait_s = attempt(brokers[1], "quota-1", 3)
        assert code is ErrorCode.NONE
        assert 0 < wait_s < 3
        assert attempt(brokers[2], "quota-2", 20)[0] is ErrorCode.NONE
        for number, broker in enumerate(brokers):
            code, wait_s = attempt(broker, f"quota-{number}-refused", 1)
            assert code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert wait_s > 3
    finally:
        limit(None)
