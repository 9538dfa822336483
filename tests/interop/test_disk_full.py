"""A disk that takes no more: writes are refused with KAFKA_STORAGE_ERROR, reads go on."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, running_broker

from . import calls
from .records import batch, values
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


def produce_until_refused(wire: Wire, topic: str, size: int) -> list[bytes]:
    """Write until the broker refuses; returns the values it acknowledged."""
    acknowledged: list[bytes] = []
    for n in range(10_000):
        value = b"%06d" % n + b"x" * size
        answer = calls.produce(wire, topic, bytes(batch(value)))
        if answer.error_code is ErrorCode.kafka_storage_error:
            return acknowledged
        assert answer.error_code is ErrorCode.none, answer
        assert answer.base_offset == n
        acknowledged.append(value)
    raise AssertionError("the disk never filled up")


def read_all(wire: Wire, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < calls.end_offset(wire, topic):
        answer = calls.fetch(wire, topic, len(found))
        assert answer.error_code is ErrorCode.none
        found += values(answer.records)
    return found


class TestFileSizeLimit:
    """The kernel refuses to let the broker's files grow: an error of write(2) without a special disk."""

    def test_writes_are_refused_and_reads_go_on(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t")
            calls.create_topic(wire, "other")
            calls.produce(wire, "other", bytes(batch(b"small")))
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            acknowledged = produce_until_refused(wire, "t", 50_000)
            assert acknowledged
            # It stays refused, it does not come and go; and what was acknowledged can be read.
            again = calls.produce(wire, "t", bytes(batch(b"tiny")))
            assert again.error_code is ErrorCode.kafka_storage_error
            assert read_all(wire, "t") == acknowledged
            assert values(calls.fetch(wire, "other", 0).records) == [b"small"]
            assert wire.call("metadata", 12, topics=[]).brokers

    def test_after_the_disk_was_mended_a_restart_brings_it_back(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t")
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
            acknowledged = produce_until_refused(wire, "t", 50_000)
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            calls.await_topic(wire, "t")
            assert read_all(wire, "t") == acknowledged
            answer = calls.produce(wire, "t", bytes(batch(b"again")))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, len(acknowledged))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)], capture_output=True, text=True
    )
    if mount.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {mount.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_file_system(small_disk: Path) -> None:
    with running_broker(small_disk) as broker:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t")
            acknowledged = produce_until_refused(wire, "t", 100_000)
            assert read_all(wire, "t") == acknowledged
        broker.kill()
        (small_disk / "ballast").unlink(missing_ok=True)
        broker.start()
        with Wire(broker.bootstrap) as wire:
            calls.await_topic(wire, "t")
            assert read_all(wire, "t") == acknowledged
