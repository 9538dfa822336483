"""The files of a broker hold everybody's records, and secrets of users: only its own account reads them."""

from pathlib import Path

import pytest

from tidelog.testing import Broker

from . import calls
from .records import batch
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


def test_no_file_is_readable_for_others(shared_broker: Broker, topic: str) -> None:
    with Wire(shared_broker.bootstrap) as wire:
        calls.produce(wire, topic, bytes(batch(b"v")))
    root = Path(shared_broker.directory)
    found = list(root.rglob("*"))
    assert any(path.suffix == ".log" for path in found)
    assert [str(path) for path in found if mode_of(path) & 0o077] == []


def mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0  # The broker has replaced a temporary file meanwhile.
