"""What a broker remembers over a stop and a start, and how it stops."""

import threading
import uuid

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, BrokerError

from . import calls
from .records import batch, values
from .wire import ConnectionEnded, Wire

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_everything_is_as_before(broker: Broker, how: str) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "plain", 3)
        calls.create_topic(wire, "tuned", configs={"retention_ms": 123_456_000, "cleanup_policy": "compact"})
        calls.create_topic(wire, "cut")
        calls.create_topic(wire, "gone")
        calls.produce(wire, "plain", bytes(batch(b"a", b"b")), partition=1)
        calls.produce(wire, "cut", bytes(batch(b"0")))
        calls.produce(wire, "cut", bytes(batch(b"1")))
        part = {"partition_index": 0, "offset": 1}
        wire.call("delete_records", 2, topics=[{"name": "cut", "partitions": [part]}], timeout=30_000)
        wire.call("delete_topics", 5, topic_names=["gone"], timeout=30_000)
        calls.await_deletion(wire, "gone")
        before = remembered(wire)

    if how == "stop":
        broker.restart()
    else:
        broker.kill()
        broker.start()

    with Wire(broker.bootstrap) as wire:
        for topic, partitions in (("plain", 3), ("tuned", 1), ("cut", 1)):
            calls.await_topic(wire, topic, partitions)
        assert remembered(wire) == before
        assert values(calls.fetch(wire, "plain", 0, partition=1).records) == [b"a", b"b"]
        assert calls.produce(wire, "plain", bytes(batch(b"c")), partition=1).base_offset == 2
        assert calls.metadata(wire, "gone").error_code is ErrorCode.unknown_topic_or_partition


def remembered(wire: Wire) -> dict[str, object]:
    """Cluster, topic ids, settings and the bounds of each log."""
    cluster = wire.call("metadata", 12, topics=None)
    facts: dict[str, object] = {"cluster id": cluster.cluster_id}
    for topic in cluster.topics:
        resource = {"resource_type": 2, "resource_name": topic.name, "configuration_keys": None}
        configs = wire.call("describe_configs", 4, resources=[resource]).results[0].configs
        bounds = {
            part.partition_index: (
                calls.start_offset(wire, topic.name, part.partition_index),
                calls.end_offset(wire, topic.name, part.partition_index),
            )
            for part in topic.partitions
        }
        facts[topic.name] = (topic.topic_id, {each.name: each.value for each in configs}, bounds)
    return facts


def test_the_leader_epoch_does_not_go_back(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        before = calls.metadata(wire, "t").partitions[0].leader_epoch
        calls.produce(wire, "t", bytes(batch(b"old epoch")))
    broker.restart()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t")
        after = calls.metadata(wire, "t").partitions[0].leader_epoch
        assert after >= before
        part = {"partition": 0, "leader_epoch": before}
        topics = [{"topic": "t", "partitions": [part]}]
        answer = wire.call("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
        end = answer.topics[0].partitions[0]
        assert (end.leader_epoch, end.end_offset) == (before, 1)


def test_a_fenced_epoch_is_refused(broker: Broker) -> None:
    """A client that still has the leader epoch from before a leader change is told to look again."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        before = calls.metadata(wire, "t").partitions[0].leader_epoch
    broker.restart()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t")
        after = calls.metadata(wire, "t").partitions[0].leader_epoch
        fetched = calls.fetch(wire, "t", 0, max_wait=0, partition_fields={"current_leader_epoch": before})
        expected = ErrorCode.none if after == before else ErrorCode.fenced_leader_epoch
        assert fetched.error_code is expected


@pytest.mark.not_kafka
def test_after_a_clean_stop_nothing_is_scanned(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", 3)
        for partition in range(3):
            calls.produce(wire, "t", bytes(batch(b"x" * 1000)), partition=partition)
    assert broker.stop() == 0
    clean_from = len(broker.log_text())
    broker.start()
    assert "recover" not in broker.log_text()[clean_from:].lower()
    broker.kill()
    unclean_from = len(broker.log_text())
    broker.start()
    assert "recover" in broker.log_text()[unclean_from:].lower()


@pytest.mark.not_kafka
def test_a_torn_tail_is_cut_and_the_log_says_so(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        for n in range(3):
            calls.produce(wire, "t", bytes(batch(b"%d" % n)))
    broker.kill()
    segment = broker.data_directory / "t-0" / f"{0:020d}.log"
    whole = segment.stat().st_size
    with segment.open("ab") as file:
        file.write((3).to_bytes(8, "big") + bytes(batch(b"torn"))[8:-3])  # with the next offset
    said_before = len(broker.log_text())
    broker.start()
    assert segment.stat().st_size == whole
    assert "t-0" in broker.log_text()[said_before:]
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t")
        assert values(calls.fetch(wire, "t", 0).records) == [b"0", b"1", b"2"]
        assert calls.produce(wire, "t", bytes(batch(b"3"))).base_offset == 3


def test_a_stop_is_quick_and_clean_while_clients_wait_and_write(broker: Broker) -> None:
    with Wire(broker.bootstrap) as waiting, Wire(broker.bootstrap) as writing:
        calls.create_topic(waiting, "t", 2)
        request = calls.fetch_request([{"topic": "t", "partitions": [calls.fetch_partition(1, 0)]}])
        waiting.send("fetch", 12, **{**request, "max_wait": 600_000})
        acknowledged = []

        def write() -> None:
            try:
                while True:
                    acknowledged.append(calls.produce(writing, "t", bytes(batch(b"x"))).base_offset)
            except (ConnectionEnded, ConnectionError):
                return

        writer = threading.Thread(target=write)
        writer.start()
        calls.eventually(lambda: len(acknowledged) > 50, "writes are acknowledged")
        assert broker.stop() == 0
        writer.join(30)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t", 2)
        assert calls.end_offset(wire, "t") > acknowledged[-1]


@pytest.mark.not_kafka
def test_the_data_directory_belongs_to_one_broker(broker: Broker) -> None:
    """A second broker on the same directory must not even start: two writers would destroy the logs."""
    twin = type(broker)(broker.directory.parent / "twin", {"log.dirs": str(broker.data_directory)})
    with pytest.raises(BrokerError, match="ended with exit code"):
        twin.start()
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, f"still-here-{uuid.uuid4().hex[:6]}")
