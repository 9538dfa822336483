"""Connections that mean no good, beside an ordinary producer: it does not notice them."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.fuzzing.hostiles import WAYS
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .records import batch
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

ROOT = Path(__file__).parents[2]
GROWTH_MAX_BYTES = 200 << 20


@pytest.fixture
def hostiles(broker: Broker) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.fuzzing.hostiles", "1", str(5 * len(WAYS)), broker.bootstrap]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.stdin.close()
        assert process.wait(30) == 0


def resident_bytes(broker: Broker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4096


def test_an_ordinary_client_beside_them(broker: Broker, hostiles: None) -> None:
    before = resident_bytes(broker)
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        until, written = time.monotonic() + 8, 0
        while time.monotonic() < until:
            answer = calls.produce(wire, "t", bytes(batch(b"v" * 1000)))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, written)
            written += 1
    log = broker.log_text()
    assert log.count("closed connection of") > 10  # They were there.
    assert "Traceback" not in log
    assert resident_bytes(broker) - before < GROWTH_MAX_BYTES
