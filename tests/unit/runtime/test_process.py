"""The process of a broker, without one: what its log says while it starts."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.node.node import Node
from tidelog.runtime import process


@pytest.mark.parametrize(
    ("leader", "words"), [(-1, "there is no active controller"), (2, "has not admitted this broker")]
)
def test_a_start_that_takes_long_says_what_is_missing(
    leader: int, words: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "STARTING_S", 0.0)
    node = cast("Node", SimpleNamespace(ready=False, metadata=SimpleNamespace(leader=leader)))

    async def start() -> bool:
        stop = asyncio.Event()
        loop: Any = asyncio.get_running_loop()
        starting = asyncio.ensure_future(process._until_ready(node, loop, stop))
        while not caplog.messages:
            await asyncio.sleep(0)
        stop.set()
        return await starting

    with caplog.at_level(logging.WARNING):
        assert not asyncio.run(start())
    assert caplog.messages[0].startswith("still starting: ")
    assert words in caplog.messages[0]
