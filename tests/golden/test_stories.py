"""The truth table as stories that are told the same way every time.

``pytest tests/golden --rewrite`` writes them anew; read the difference before you commit it.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.sim.stories import STORIES, tell

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, request: pytest.FixtureRequest) -> None:
    text = "\n".join(tell(name)) + "\n"
    path = HERE / f"{name}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_trace_has_its_story() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(STORIES)
