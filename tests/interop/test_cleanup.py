"""Retention and compaction as a consumer sees them."""

import time

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .clients import CLIENTS
from .conftest import CreateTopic
from .records import batch, batches, records
from .wire import Wire

pytestmark = pytest.mark.interop

MEBIBYTE = 1 << 20


def now_ms() -> int:
    return int(time.time() * 1000)


def await_start(wire: Wire, topic: str, offset: int) -> None:
    calls.eventually(
        lambda: calls.start_offset(wire, topic) >= offset, f"{topic} starts at {offset} or later"
    )


class TestRetention:
    def test_by_size(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(retention_bytes=2 * MEBIBYTE, segment_bytes=MEBIBYTE, file_delete_delay_ms=0)
        for _ in range(60):
            calls.produce(wire, topic, bytes(batch(b"x" * 100_000)))
        # Ten records a segment; whole segments go as long as at least the wanted size stays.
        await_start(wire, topic, 30)
        start = calls.start_offset(wire, topic)
        assert calls.end_offset(wire, topic) == 60
        assert (60 - start) * 100_000 >= 2 * MEBIBYTE - 100_000
        assert calls.fetch(wire, topic, 0).error_code is ErrorCode.offset_out_of_range
        assert records(calls.fetch(wire, topic, start).records)[0].offset == start

    def test_by_time(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(retention_ms=3_600_000, segment_bytes=MEBIBYTE)
        old, new = now_ms() - 7_200_000, now_ms()
        for n in range(15):
            at = old if n < 10 else new
            data = batch(b"x" * 100_000, timestamps_ms=[at])
            assert calls.produce(wire, topic, bytes(data)).error_code is ErrorCode.none
        await_start(wire, topic, 10)
        assert calls.start_offset(wire, topic) == 10
        assert calls.end_offset(wire, topic) == 15

    def test_the_newest_segment_goes_too_when_all_of_it_is_old(
        self, wire: Wire, create_topic: CreateTopic
    ) -> None:
        topic = create_topic(retention_ms=3_600_000)
        calls.produce(wire, topic, bytes(batch(b"old", timestamps_ms=[now_ms() - 7_200_000])))
        await_start(wire, topic, 1)
        assert calls.produce(wire, topic, bytes(batch(b"next"))).base_offset == 1

    def test_without_limits_nothing_goes(self, wire: Wire, create_topic: CreateTopic) -> None:
        keep = create_topic(retention_ms=-1, segment_bytes=MEBIBYTE)
        gone = create_topic(retention_ms=3_600_000, segment_bytes=MEBIBYTE)
        data = bytes(batch(b"x" * 900_000, timestamps_ms=[now_ms() - 7_200_000]))
        for topic in (keep, gone):
            for _ in range(3):
                calls.produce(wire, topic, data)
        await_start(wire, gone, 3)  # retention has been at work
        assert calls.start_offset(wire, keep) == 0


COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": MEBIBYTE,
    "min_cleanable_dirty_ratio": 0.01,
    "delete_retention_ms": 0,
}


class TestCompaction:
    def fill(self, wire: Wire, topic: str, last_turn: int) -> None:
        """Ten keys, written again and again; then one more segment, as the newest is never compacted."""
        for turn in range(last_turn + 1):
            keys = [b"key-%d" % n for n in range(10)]
            values = [b"turn-%d-" % turn + b"x" * 20_000] * 10
            assert calls.produce(wire, topic, bytes(batch(*values, keys=keys))).error_code is ErrorCode.none

    def read(self, wire: Wire, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        found: list[tuple[int, bytes | None, bytes | None]] = []
        offset, end = 0, calls.end_offset(wire, topic)
        while offset < end:
            answer = calls.fetch(wire, topic, offset)
            assert answer.error_code is ErrorCode.none
            parts = batches(answer.records)
            assert parts, f"nothing at offset {offset}"
            found += [(r.offset, r.key, r.value) for r in records(answer.records) if r.offset >= offset]
            offset = parts[-1].next_offset
        return found

    def test_the_newest_value_of_each_key_stays(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(**COMPACTED)
        self.fill(wire, topic, 30)
        everything = self.read(wire, topic)
        calls.eventually(
            lambda: len(self.read(wire, topic)) < 150, "most of the 310 records are compacted away"
        )
        kept = self.read(wire, topic)
        assert [offset for offset, _, _ in kept] == sorted(offset for offset, _, _ in kept)
        assert set(kept) <= set(everything)  # offsets and values of what stays never change
        assert latest(kept) == latest(everything)
        assert calls.end_offset(wire, topic) == 310

    def test_a_tombstone_removes_its_key_and_then_itself(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(**COMPACTED)
        self.fill(wire, topic, 2)
        calls.produce(wire, topic, bytes(batch(None, keys=[b"key-3"])))

        def without_the_key() -> bool:
            # Compaction looks at closed segments only: keep writing other keys, so that segments close.
            data = batch(b"x" * 300_000, keys=[b"filler"])
            calls.produce(wire, topic, bytes(data))
            return all(key != b"key-3" for _, key, _ in self.read(wire, topic))

        calls.eventually(without_the_key, "neither the key's values nor its tombstone are left")
        kept = {key for _, key, _ in self.read(wire, topic)}
        assert {b"key-%d" % n for n in range(10) if n != 3} <= kept

    def test_every_client_reads_a_compacted_log(
        self, wire: Wire, create_topic: CreateTopic, bootstrap: str
    ) -> None:
        """Offsets have holes now, and batches may be empty; a consumer must get over both."""
        topic = create_topic(**COMPACTED)
        self.fill(wire, topic, 30)
        calls.eventually(
            lambda: len(self.read(wire, topic)) < 150, "most of the 310 records are compacted away"
        )
        expected = latest(self.read(wire, topic))
        for client in CLIENTS:
            received = client.consume(bootstrap, topic, calls.end_offset(wire, topic))
            assert latest([(r.offset, r.key, r.value) for r in received]) == expected, client.name


def latest(found: list[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in found}
