"""The truth table as stories that are told the same way every time.

``pytest tests/golden --rewrite`` rewrites them; read the difference before you commit it. Each story runs a
whole cluster, and there are hundreds: ``./dev test quick`` has the first of each module only.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.sim.stories import STORIES, tell

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def stories() -> Iterator[Any]:
    """Of each module, all but the first are left out of the quick tier."""
    seen = set()
    for name, story in STORIES.items():
        module = story.__module__
        yield pytest.param(name, marks=[pytest.mark.slow] if module in seen else [])
        seen.add(module)


@pytest.mark.parametrize("name", list(stories()))
def test_story(name: str, request: pytest.FixtureRequest) -> None:
    text = "\n".join(tell(name)) + "\n"
    path = HERE / f"{name}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_trace_has_its_story() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(STORIES)
