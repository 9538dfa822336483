"""Transactions in a cluster of three: coordinators and leaders die, what is committed is whole everywhere."""

import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster, running_cluster

from . import calls
from .cluster_load import create_topic
from .consumed import offset_of, value_of
from .transactional import TIMEOUT_S, find_coordinator, stable_offset
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

PARTITIONS = 6
SETTINGS = {
    "transaction.state.log.num.partitions": 6,
    "transaction.state.log.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, settings=SETTINGS) as cluster:
        yield cluster


def coordinator(cluster: Cluster, name: str) -> Broker:
    found: list[int] = []

    def told() -> bool:
        with Wire(cluster.running[0].bootstrap) as wire:
            answer = wire.call("find_coordinator", 4, key_type=1, coordinator_keys=[name]).coordinators[0]
        found.append(answer.node_id)
        return answer.error_code is ErrorCode.none and cluster[answer.node_id].is_running

    cluster.wait_for(told, f"nobody coordinates {name}")
    return cluster[found[-1]]


class Writer(threading.Thread):
    """Writes one record to every partition in each transaction; every fourth is aborted on purpose."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__()
        self._cluster = bootstrap
        self._transactional_id = name
        self._ending = threading.Event()
        self.committed: list[bytes] = []  # said to be
        self.unclear: list[bytes] = []  # nobody knows: the answer was lost with the producer
        self.aborted: list[bytes] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            producer = self._begin()
            number = 0
            while not self._ending.is_set():
                number += 1
                value = b"%d" % number
                try:
                    producer.begin_transaction()
                    for partition in range(PARTITIONS):
                        producer.produce("t", value, partition=partition)
                    if number % 4 == 0:
                        producer.flush(TIMEOUT_S)
                        self._abort(producer, value)
                    else:
                        self._commit(producer, value)
                except confluent_kafka.KafkaException as error:
                    if error.args[0].txn_requires_abort():
                        self._abort(producer, value)
                    else:
                        self.unclear.append(value)
                        producer = self._begin()
        except BaseException as error:
            self.error = error

    def _begin(self) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._cluster,
                "transactional.id": self._transactional_id,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )
        while True:
            try:
                producer.init_transactions(TIMEOUT_S)
                return producer
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _commit(self, producer: confluent_kafka.Producer, value: bytes) -> None:
        while True:
            try:
                producer.commit_transaction(TIMEOUT_S)
                self.committed.append(value)
                return
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def _abort(self, producer: confluent_kafka.Producer, value: bytes) -> None:
        self.aborted.append(value)
        while True:
            try:
                producer.abort_transaction(TIMEOUT_S)
                return
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def await_progress(self) -> None:
        goal = len(self.committed) + 20
        calls.eventually(
            lambda: len(self.committed) >= goal or self.error is not None, "transactions are committed"
        )
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        self._ending.set()
        self.join()
        if self.error is not None:
            raise self.error


def read_committed(cluster: Cluster, partition: int) -> list[bytes]:
    """What a reader of committed records gets once nothing is open any more."""
    leader = cluster.leader_of("t", partition)
    with Wire(leader.bootstrap) as wire:
        calls.eventually(
            lambda: stable_offset(wire, "t", partition) == calls.end_offset(wire, "t", partition),
            f"all transactions in t-{partition} have ended",
        )
        end_offset = calls.end_offset(wire, "t", partition)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", partition, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None
            if not message.error():
                found.append(value_of(message))
            elif offset_of(message) >= end_offset:
                return found
    finally:
        consumer.close()


@pytest.mark.parametrize("victim", ["coordinator", "leader"])
@pytest.mark.parametrize("how", [Broker.kill, Broker.stop], ids=["killed", "stopped"])
def test_transactions_stay_whole(cluster: Cluster, victim: str, how: object) -> None:
    create_topic(cluster.bootstrap, "t", PARTITIONS)
    writer = Writer(cluster.bootstrap, "whole")
    writer.start()
    try:
        for round_ in range(2):
            writer.await_progress()
            struck = (
                coordinator(cluster, "whole") if victim == "coordinator" else cluster.leader_of("t", round_)
            )
            how(struck)  # type: ignore[operator]
            writer.await_progress()
            struck.start()
            cluster.await_ready()
            cluster.await_in_sync("t", "__transaction_state")
    finally:
        writer.end()
    parts = [read_committed(cluster, partition) for partition in range(PARTITIONS)]
    assert all(part == parts[0] for part in parts), "a transaction is in all partitions or in none"
    found = parts[0]
    assert found == sorted(set(found), key=int), "once and in order"
    assert set(writer.committed) <= set(found) <= set(writer.committed) | set(writer.unclear)
    assert writer.aborted


def test_all_die_with_transactions_open(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap, "t", PARTITIONS)
    writer = Writer(cluster.bootstrap, "all")
    writer.start()
    try:
        for _ in range(2):
            writer.await_progress()
            cluster.kill()
            cluster.start()
    finally:
        writer.end()
    parts = [read_committed(cluster, partition) for partition in range(PARTITIONS)]
    assert all(part == parts[0] for part in parts)
    assert set(writer.committed) <= set(parts[0]) <= set(writer.committed) | set(writer.unclear)


def test_every_broker_coordinates_some(cluster: Cluster) -> None:
    names = [f"id-{number}" for number in range(30)]
    with Wire(cluster[1].bootstrap) as wire:
        find_coordinator(wire, names[0], 1)
    assert {coordinator(cluster, name).node_id for name in names} == {1, 2, 3}
