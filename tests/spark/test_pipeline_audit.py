"""Replicas compared: sound ones pass, and every kind of damage is found where it was done."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tidelog.protocol import batch as batches
from tidelog.spark import OptionError
from tidelog.spark.pipelines.audit import Audit, AuditReport, audit
from tidelog.spark.pipelines.audit.scanning import scan
from tidelog.testing import Cluster, running_cluster

RECORDS = 600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("audited")) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("audited", 2, 3)])["audited"].result(30)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 20, "enable.idempotence": True}
    )
    for number in range(RECORDS):
        producer.produce("audited", key=str(number), value=f"value {number}", partition=number % 2)
    producer.flush()
    return "audited"


@pytest.fixture
def copies(cluster: Cluster, topic: str, tmp_path: Path) -> list[Path]:
    """The segment directories of three brokers, to be damaged."""
    found = []
    for broker in cluster:
        target = tmp_path / broker.directory.name / "data"
        for path in (broker.directory / "data").glob(f"{topic}-*"):
            shutil.copytree(path, target / path.name)
        found.append(tmp_path / broker.directory.name)
    return found


Judge = Callable[[list[Path]], AuditReport]


@pytest.fixture
def judge(spark: SparkSession, topic: str) -> Judge:
    return lambda copies: audit(spark, Audit([topic], directories=[str(path) for path in copies]))


def segment(copy: Path, partition: int = 0) -> Path:
    (path,) = (copy / "data" / f"audited-{partition}").glob("*.log")
    return path


def places(path: Path) -> list[tuple[int, batches.BatchHeader]]:
    return list(batches.iterate(path.read_bytes()))


def test_replicas_of_a_sound_cluster_are_equal(
    spark: SparkSession, cluster: Cluster, topic: str, copies: list[Path], judge: Judge
) -> None:
    cluster.await_in_sync(topic)
    report = audit(spark, Audit([topic], cluster.bootstrap))
    assert report.holds and len(report.replicas) == 6
    assert sum(one.end_offset for one in report.replicas) == 3 * RECORDS
    assert all(one.compared_to == one.end_offset and one.behind == 0 for one in report.replicas)
    assert judge(copies).holds


def test_every_mode_is_read_from_every_broker(cluster: Cluster) -> None:
    """What the tasks of an audit do, without Spark."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    names = {"in-sync-set": "isr", "in-quorum": "quorum", "with-backup": "primary-backup"}
    topics = [NewTopic(name, 1, 3, config={"replication.mode": mode}) for name, mode in names.items()]
    for created in admin.create_topics(topics).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(60):
        for name in names:
            producer.produce(name, f"value {number}")
    producer.flush()
    cluster.await_in_sync(*names)
    for name in names:
        found: dict[str, list[bytes]] = {}

        def is_complete(name: str = name, found: dict[str, list[bytes]] = found) -> bool:
            """A follower learns the high watermark with its next fetch."""
            replicas = Audit([name], cluster.bootstrap).replicas()
            rows = {one.broker: list(scan(one)) for one in replicas}
            assert not [row["unread"] for read in rows.values() for row in read if "unread" in row]
            found.update({broker: [row["digest"] for row in read] for broker, read in rows.items()})
            return all(read and read[-1]["next_offset"] >= 60 for read in rows.values())

        cluster.wait_for(is_complete, f"{name} is not complete on all brokers")
        assert found.keys() == {str(broker.node_id) for broker in cluster}
        assert len({tuple(digests) for digests in found.values()}) == 1


def test_a_changed_record_is_located(copies: list[Path], judge: Judge) -> None:
    sound = segment(copies[0]).read_bytes()
    position, header = places(segment(copies[0]))[3]
    data = bytearray(sound)
    data[data.index(b"value", position)] = ord("V")
    segment(copies[0]).write_bytes(data)
    report = judge(copies)
    assert not report.holds and report.counts == {"corrupt": 1, "differs": 1}
    assert {(one.offset, one.broker) for one in report.findings} == {(header.base_offset, "broker-1")}
    segment(copies[0]).write_bytes(sound)

    # With a CRC that fits, only the comparison finds it, and says which record it is.
    batches.write_crc(memoryview(data)[position:], 0, header.size)
    path = segment(copies[1])
    path.write_bytes(data)
    (finding,) = judge(copies).findings
    assert (finding.kind, finding.broker) == ("differs", "broker-2")
    assert finding.place == f"{path.name}, byte {position}"
    assert f"record {header.base_offset} differs in value" in finding.detail


def test_what_is_missing_twice_or_out_of_order_is_found(copies: list[Path], judge: Judge) -> None:
    hole, twice, swapped = (segment(copy, 1) for copy in copies)
    found = places(hole)
    data = hole.read_bytes()
    pieces = [data[at : at + header.size] for at, header in found]

    hole.write_bytes(b"".join(pieces[:2] + pieces[3:]))
    report = judge([copies[0], copies[2]])
    gap = found[2][1]
    assert [(one.kind, one.offset) for one in report.findings] == [
        ("differs", gap.base_offset),
        ("gap", gap.base_offset),
    ]
    hole.write_bytes(data)

    again = bytearray(pieces[1])
    batches.assign(again, 0, found[-1][1].next_offset, found[-1][1].leader_epoch)
    twice.write_bytes(data + again)
    report = judge(copies[:2])
    (finding,) = (one for one in report.findings if one.kind == "duplicate")
    assert finding.offset == found[-1][1].next_offset
    assert f"already at offset {found[1][1].base_offset}" in finding.detail
    twice.write_bytes(data)

    swapped.write_bytes(b"".join([*pieces[:1], pieces[2], pieces[1], *pieces[3:]]))
    assert {"order", "gap"} <= judge([copies[2]]).counts.keys()


def test_a_replica_that_is_behind_is_told_and_refutes_nothing(copies: list[Path], judge: Judge) -> None:
    path = segment(copies[2])
    found = places(path)
    watermark = found[-1][1].next_offset
    for copy in copies:
        (copy / "data" / "replication-offset-checkpoint").write_text(f"0\n1\naudited 0 {watermark}\n")
    position, header = found[-2]
    path.write_bytes(path.read_bytes()[:position])
    report = judge(copies)
    (behind,) = (one for one in report.replicas if one.behind)
    assert report.holds and (behind.broker, behind.behind) == ("broker-3", watermark - header.base_offset)


def test_a_replica_that_cannot_be_read_is_named(spark: SparkSession, cluster: Cluster, topic: str) -> None:
    cluster.await_in_sync(topic)
    stopped = cluster[3]
    stopped.stop()
    try:
        report = audit(spark, Audit([topic], cluster.bootstrap))
    finally:
        stopped.start()
    assert not report.holds and report.counts == {"unread": 2}
    assert {(one.broker, one.partition) for one in report.findings} == {("3", 0), ("3", 1)}
    assert all("broker 3" in one.detail for one in report.findings)
    read = [one for one in report.replicas if one.broker != "3"]
    assert sum(one.compared_to for one in read) == 2 * RECORDS


def test_what_cannot_be_audited_is_refused(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no topic nothing"):
        audit(spark, Audit(["nothing"], cluster.bootstrap))
    with pytest.raises(OptionError, match="no partition of nothing"):
        audit(spark, Audit(["nothing"], directories=[str(tmp_path)]))
