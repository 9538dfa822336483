"""Topics that tests of several handlers use."""

import pytest

from unit.broker.fakes import NOW_MS, FakeBroker


@pytest.fixture
def orders(broker: FakeBroker) -> FakeBroker:
    """Offsets 0 and 1 at NOW - 200, 2 at NOW (the newest), 3 at NOW - 100."""
    broker.create("orders")
    broker.append("orders", b"a", b"b", at_ms=NOW_MS - 200)
    broker.append("orders", b"c", at_ms=NOW_MS)
    broker.append("orders", b"d", at_ms=NOW_MS - 100)
    return broker


@pytest.fixture
def topic(broker: FakeBroker) -> FakeBroker:
    broker.create("orders", retention_ms=5, segment_bytes=100)
    return broker
