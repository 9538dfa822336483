"""Replicas of compacted topics: their batches differ, and what must agree is compared record by record."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.protocol.batch import assign
from tidelog.protocol.markers import Marker, encode_marker
from tidelog.protocol.records import Record, encode_batch
from tidelog.spark.pipelines.audit import Audit, AuditReport, audit

TOPIC = "latest"
BROKERS = ("broker-1", "broker-2", "broker-3")
COMMIT, ABORT = Marker(commits=True, coordinator_epoch=0), Marker(commits=False, coordinator_epoch=0)


def plain(offset: int, key: str, value: str | None) -> bytes:
    text = None if value is None else value.encode()
    return bytes(encode_batch([Record(offset, 1000 + offset, key.encode(), text)], leader_epoch=0))


def in_transaction(offset: int, key: str, value: str) -> bytes:
    record = Record(offset, 1000 + offset, key.encode(), value.encode())
    return bytes(
        encode_batch(
            [record],
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            base_sequence=offset,
            transactional=True,
        )
    )


def end(offset: int, marker: Marker) -> bytes:
    batch = encode_marker(marker, 7, 0, offset=offset, now_ms=1000 + offset)
    assign(batch, 0, offset, leader_epoch=0)
    return bytes(batch)


LOG = {
    0: plain(0, "a", "a0"),
    1: plain(1, "b", "b1"),
    2: plain(2, "a", "a2"),
    3: in_transaction(3, "b", "aborted"),
    4: end(4, ABORT),
    5: plain(5, "gone", "before"),
    6: plain(6, "gone", None),
    7: in_transaction(7, "c", "c7"),
    8: end(8, COMMIT),
    9: plain(9, "d", "d9"),
}
COMPACTED = {1, 2, 7, 8, 9}  # nothing older, nothing aborted, and the tombstone has expired

Judge = Callable[..., AuditReport]


@pytest.fixture
def judge(spark: SparkSession, tmp_path: Path) -> Judge:
    """Writes the second replica, beside a complete and a compacted one, and compares all three."""

    def write(broker: str, batches: Iterable[bytes]) -> str:
        directory = tmp_path / broker / "data" / f"{TOPIC}-0"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
        return str(tmp_path / broker)

    def compare(second: dict[int, bytes]) -> AuditReport:
        logs = (LOG, second, {offset: LOG[offset] for offset in COMPACTED})
        directories = [
            write(broker, [log[offset] for offset in sorted(log)])
            for broker, log in zip(BROKERS, logs, strict=True)
        ]
        return audit(spark, Audit([TOPIC], directories=directories, compacted=[TOPIC]))

    return compare


def test_replicas_that_removed_different_records_agree(judge: Judge) -> None:
    report = judge({offset: LOG[offset] for offset in COMPACTED | {0, 6}})
    assert report.holds, report.findings
    first, second, third = report.compacted
    assert (first.broker, second.broker, third.broker) == BROKERS
    assert (first.records, second.records, third.records) == (7, 7, 5)
    assert (first.keys, second.keys, third.keys) == (5, 5, 5)


def test_another_record_at_the_same_offset_is_found(judge: Judge) -> None:
    report = judge({**{offset: LOG[offset] for offset in COMPACTED}, 9: plain(9, "d", "other")})
    assert report.counts == {"differs": 1}
    (finding,) = report.findings
    assert (finding.offset, finding.broker) == (9, "broker-2")
    assert finding.detail == "record 9 is another one than broker-1 has"


def test_a_lost_newest_record_is_found(judge: Judge) -> None:
    report = judge({offset: LOG[offset] for offset in COMPACTED - {2} | {0, 3, 4, 5}})
    found = {one.offset: one.detail for one in report.findings}
    assert {one.broker for one in report.findings} == {"broker-2"} and report.counts == {"differs": 2}
    assert found[2].endswith("and here at offset 0")
    # The tombstone was removed, and what it deleted is back.
    assert found[6].endswith("and here at offset 5")


def test_nothing_is_demanded_of_a_replica_beyond_its_end(judge: Judge) -> None:
    # Its marker is not there yet, so whether record 7 counts is not known to the second replica.
    report = judge({offset: LOG[offset] for offset in (1, 2, 7)})
    assert report.holds, report.findings
    assert [one.keys for one in report.compacted] == [5, 3, 5]
