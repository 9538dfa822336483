"""More partitions than files the broker may have open: it keeps few open and serves all."""

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .records import batch, values
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

ALLOWED = 64
OTHER_DESCRIPTORS = 90  # sockets, the event loop, the metadata log, files that threads are writing
PARTITIONS = 400


def open_descriptors(broker: Broker) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


@pytest.mark.tidelog_settings({"log.open.files.max": ALLOWED})
def test_all_partitions_can_be_written_and_read(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", PARTITIONS)
        for turn in range(2):
            for partition in range(PARTITIONS):
                answer = calls.produce(wire, "t", bytes(batch(b"%d" % turn)), partition=partition)
                assert answer.error_code is ErrorCode.none, (turn, partition)
            assert open_descriptors(broker) <= ALLOWED + OTHER_DESCRIPTORS
        for partition in range(PARTITIONS):
            assert values(calls.fetch(wire, "t", 0, partition=partition).records) == [b"0", b"1"]
        assert open_descriptors(broker) <= ALLOWED + OTHER_DESCRIPTORS
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t", PARTITIONS)
        assert calls.end_offset(wire, "t", PARTITIONS - 1) == 2
    assert open_descriptors(broker) <= ALLOWED + OTHER_DESCRIPTORS
