"""Reads while brokers die and leaders change, and what is said when records or topics are gone.

The tasks are run here as Spark's workers run them, so that a fault strikes between two batches and not at
some time.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidelog.client.apis import Api
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClusterUnreachable, UnknownTopic
from tidelog.spark.reading.batch import TidelogReader
from tidelog.spark.reading.batches import CorruptRecords
from tidelog.spark.reading.columns import default_schema
from tidelog.spark.reading.loss import DataLoss
from tidelog.spark.reading.settings import read_settings
from tidelog.testing import Cluster

from .golden import produce, read

CreateTopic = Callable[..., str]


def reader(bootstrap: str, topic: str, **options: object) -> TidelogReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "columns": "partition,offset,value"}
    given |= {name.replace("__", "."): str(value) for name, value in options.items()}
    return TidelogReader(read_settings(given, streaming=False), default_schema(given))


def offsets(batches: Iterator) -> list[int]:  # type: ignore[type-arg]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_leaders_that_die_while_they_are_read_from(
    tidelog_cluster: Cluster, create_topic: CreateTopic
) -> None:
    topic = create_topic(1, 3, at=tidelog_cluster.bootstrap)
    produce(tidelog_cluster.bootstrap, topic, [b"x" * 1000] * 2_000, batch_num_messages=20)
    tidelog_cluster.await_in_sync(topic)
    reading = reader(tidelog_cluster.bootstrap, topic, kafka__max__partition__fetch__bytes=50_000)
    (task,) = reading.partitions()
    batches = reading.read(task)
    found = [offset for _ in range(5) for offset in next(batches).column("offset").to_pylist()]
    killed = tidelog_cluster.leader_of(topic)
    killed.kill()
    found += [offset for _ in range(5) for offset in next(batches).column("offset").to_pylist()]
    # Back, and leader again: the second change is one without a death.
    killed.start()
    tidelog_cluster.await_in_sync(topic)
    second = tidelog_cluster.leader_of(topic)
    assert second is not killed
    second.stop()
    found += offsets(batches)
    assert found == list(range(2_000))


def test_a_frozen_leader_is_left_behind(tidelog_cluster: Cluster, create_topic: CreateTopic) -> None:
    topic = create_topic(1, 3, at=tidelog_cluster.bootstrap)
    produce(tidelog_cluster.bootstrap, topic, [b"x" * 1000] * 500, batch_num_messages=20)
    tidelog_cluster.await_in_sync(topic)
    reading = reader(
        tidelog_cluster.bootstrap,
        topic,
        kafka__max__partition__fetch__bytes=50_000,
        kafka__request__timeout__ms=1_000,
    )
    (task,) = reading.partitions()
    batches = reading.read(task)
    found = next(batches).column("offset").to_pylist()
    frozen = tidelog_cluster.leader_of(topic)
    frozen.pause()
    found += offsets(batches)
    frozen.resume()
    assert found == list(range(500))


@pytest.mark.tidelog_settings({"replica.selector.class": "rack-aware"})
def test_a_reader_asks_the_replica_in_its_own_rack(
    tidelog_cluster: Cluster, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidelog_cluster.stop()
    for broker in tidelog_cluster:
        broker.settings["broker.rack"] = f"rack-{broker.node_id}"
    tidelog_cluster.start()
    topic = create_topic(1, 3, at=tidelog_cluster.bootstrap)
    produce(tidelog_cluster.bootstrap, topic, [b"x" * 1000] * 500, batch_num_messages=20)
    tidelog_cluster.await_in_sync(topic)
    near = tidelog_cluster.followers_of(topic)[0]
    asked: list[int] = []
    send = BrokerConnection.send

    def noted(self: BrokerConnection, api: int, *request: Any, **options: Any) -> None:
        if api == Api.FETCH:
            asked.append(self.address[1])
        send(self, api, *request, **options)

    monkeypatch.setattr(BrokerConnection, "send", noted)
    reading = reader(
        tidelog_cluster.bootstrap,
        topic,
        kafka__client__rack=f"rack-{near.node_id}",
        kafka__max__partition__fetch__bytes=50_000,
    )
    (task,) = reading.partitions()
    batches = reading.read(task)
    found = next(batches).column("offset").to_pylist()
    assert asked[0] == tidelog_cluster.leader_of(topic).port
    assert set(asked[1:]) == {near.port}
    near.kill()
    found += offsets(batches)
    assert found == list(range(500))


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    wanted = [TopicPartition(topic, 0, offset)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records(wanted).values():
        done.result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def test_records_that_are_deleted_while_they_are_read(bootstrap: str, create_topic: CreateTopic) -> None:
    for fails in (True, False):
        topic = create_topic(1)
        produce(bootstrap, topic, [b"x" * 1000] * 300, batch_num_messages=10)
        reading = reader(
            bootstrap, topic, kafka__max__partition__fetch__bytes=20_000, failOnDataLoss=str(fails).lower()
        )
        (task,) = reading.partitions()
        batches = reading.read(task)
        found = next(batches).column("offset").to_pylist()
        delete_before(bootstrap, topic, 250)
        if fails:
            with pytest.raises(DataLoss, match=r"now has offsets 250 to 300 .*failOnDataLoss=false"):
                offsets(batches)
        else:
            with pytest.warns(
                UserWarning, match="Going on with what there is, because failOnDataLoss is false"
            ):
                found += offsets(batches)
            # One fetch was on its way when the records went; behind it comes what is left.
            assert found[-50:] == list(range(250, 300))
            assert found == sorted(set(found))
            assert len(found) < 300


def test_a_topic_that_is_deleted_while_it_is_read(bootstrap: str, create_topic: CreateTopic) -> None:
    for fails in (True, False):
        topic = create_topic(1)
        produce(bootstrap, topic, [b"x" * 1000] * 300, batch_num_messages=10)
        reading = reader(
            bootstrap, topic, kafka__max__partition__fetch__bytes=20_000, failOnDataLoss=str(fails).lower()
        )
        (task,) = reading.partitions()
        batches = reading.read(task)
        found = next(batches).column("offset").to_pylist()
        delete_topic(bootstrap, topic)
        if fails:
            with pytest.raises(DataLoss, match=f"{topic}.* any more"):
                offsets(batches)
        else:
            with pytest.warns(UserWarning, match=f"{topic}.* any more"):
                found += offsets(batches)
            assert found == list(range(len(found)))


def test_offsets_that_are_not_there_when_a_read_is_planned(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 100)
    delete_before(bootstrap, topic, 40)
    named = {"startingOffsets": f'{{"{topic}":{{"0":10}}}}', "endingOffsets": f'{{"{topic}":{{"0":200}}}}'}
    with pytest.raises(DataLoss, match=r"has offsets 40 to 100 .*, and \[10, 200\) was to be read"):
        reader(bootstrap, topic, **named).partitions()
    going_on = reader(bootstrap, topic, **named, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="Going on"):
        (task,) = going_on.partitions()
    assert offsets(going_on.read(task)) == list(range(40, 100))


def test_a_topic_that_is_not_there(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(UnknownTopic, match="There is no topic nowhere in the cluster at"):
        reader(bootstrap, "nowhere").partitions()
    with pytest.raises(Exception, match="There is no topic nowhere in the cluster at"):
        read(spark, bootstrap, "nowhere").collect()


def test_a_bad_option_reaches_the_user_of_spark(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="Option failOnDataLoss is 'perhaps'; allowed: true, false"):
        read(spark, bootstrap, "orders", failOnDataLoss="perhaps").collect()


def test_partitions_that_are_not_there_or_not_named(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    with pytest.raises(UnknownTopic, match="has no partition 7, which option assign names; it has 2"):
        given = {"kafka.bootstrap.servers": bootstrap, "assign": f'{{"{topic}":[0,7]}}'}
        TidelogReader(read_settings(given, streaming=False), default_schema(given)).partitions()
    with pytest.raises(Exception, match=f"says nothing about {topic}-1; it must name all partitions"):
        reader(bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}').partitions()
    with pytest.raises(Exception, match=f"names {topic}-2, which is not read"):
        reader(bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":0,"1":0,"2":0}}}}').partitions()


def test_a_cluster_that_does_not_answer() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match=f"no broker of {address} answers"):
            reader(address, "orders", kafkaConsumer__pollTimeoutMs=200).partitions()


def test_damaged_records_are_told_and_never_handed_out(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"needle-%d" % number for number in range(50)])
    host, port = bootstrap.split(":")
    with damaging_proxy(host, int(port), b"needle-25", b"needle-!!") as address:
        reading = reader(address, topic)
        (task,) = reader(bootstrap, topic).partitions()
        with pytest.raises(CorruptRecords, match=f"offset 0 of {topic}-0 is damaged: the CRC does not match"):
            offsets(reading.read(task))


class damaging_proxy:  # noqa: N801
    """Stands between a client and a broker, names itself as the broker, and changes some bytes."""

    def __init__(self, host: str, port: int, old: bytes, new: bytes) -> None:
        self._broker = (host, port)
        self._old, self._new = old, new
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"127.0.0.1:{self._port}"

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._broker)
            threading.Thread(target=self._pass, args=(client, broker, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(broker, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, changes: bool) -> None:
        own, theirs = self._port.to_bytes(4, "big"), self._broker[1].to_bytes(4, "big")
        while data := source.recv(1 << 20):
            if changes:
                data = data.replace(self._old, self._new).replace(b"127.0.0.1" + theirs, b"127.0.0.1" + own)
            target.sendall(data)
        target.close()
