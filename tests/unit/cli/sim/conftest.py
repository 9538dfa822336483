"""Commands of the simulator switch log messages off."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def noisy_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)
