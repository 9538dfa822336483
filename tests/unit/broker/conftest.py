"""Brokers for tests; see ``fakes``."""

import pytest
from fakes import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()
