"""The pipe to the playground's process, with a process that says what the test needs."""

import asyncio
import sys
from typing import Any

import pytest

from tidelog.page.playground import POINTS_MAX, Playground, PlaygroundFailed

pytestmark = pytest.mark.slow

ECHO = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said["action"] == "die":
        sys.exit(3)
    if said["action"] == "say":
        for number in range(said["times"]):
            print(json.dumps({"snapshot": {"at": number, "points": {"isr": [number, 1, 2.0, 3.0]}}}))
    key = "error" if said["action"] == "refuse" else "words"
    print(json.dumps({"answer": said["id"], key: said["action"]}), flush=True)
"""


def playground(sent: list[dict[str, Any]]) -> Playground:
    return Playground([sys.executable, "-c", ECHO], sent.append)


def test_answers_and_refusals() -> None:
    async def course() -> None:
        ground = playground([])
        assert await ground.act({"action": "kill"}) == "kill"
        with pytest.raises(PlaygroundFailed, match="refuse"):
            await ground.act({"action": "refuse"})
        await ground.stop()

    asyncio.run(course())


def test_snapshots_go_to_browsers_and_their_course_is_kept() -> None:
    async def course() -> None:
        sent: list[dict[str, Any]] = []
        ground = playground(sent)
        assert ground.everything() == {}
        await ground.act({"action": "say", "times": POINTS_MAX + 3})
        assert len(sent) == POINTS_MAX + 3
        everything = ground.everything()
        assert everything["at"] == POINTS_MAX + 2
        assert [point[0] for point in everything["history"]["isr"]] == list(range(3, POINTS_MAX + 3))
        await ground.stop()

    asyncio.run(course())


def test_a_process_that_ends_is_started_again() -> None:
    async def course() -> None:
        ground = playground([])
        with pytest.raises(PlaygroundFailed, match="has ended"):
            await ground.act({"action": "die"})
        assert await ground.act({"action": "freeze"}) == "freeze"
        await ground.stop()

    asyncio.run(course())


def test_the_end_of_the_page_is_the_end_of_the_process() -> None:
    async def course() -> None:
        ground = playground([])
        await ground.open()
        process = ground._process
        assert process is not None
        await ground.stop()
        assert process.returncode == 0

    asyncio.run(course())
