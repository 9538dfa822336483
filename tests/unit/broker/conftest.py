"""Brokers for tests; see ``fakes``."""

import pytest

from unit.broker.fakes import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()
