"""Server-sent events."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

from tidelog.page.events import BACKLOG_MAX, BROWSERS_MAX, Hub, encode


def message(data: bytes) -> Any:
    lines = data.decode().split("\n\n")
    return json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))


def test_a_line_break_in_a_name_does_not_end_an_event() -> None:
    data = encode({"changes": {"t/a\n\ndata: {}": "\r\n</script>"}})
    assert data.count(b"\n") == 2
    assert message(data)["changes"] == {"t/a\n\ndata: {}": "\r\n</script>"}


def test_everything_first_and_then_changes() -> None:
    async def run() -> list[Any]:
        hub = Hub(lambda: {"all": {"a": 1}})
        async with aclosing(hub.stream()) as stream:  # type: ignore[type-var]
            first = await anext(stream)
            hub.send({"changes": {"a": 2}})
            found = [message(first), message(await anext(stream)), len(hub)]
        return [*found, len(hub)]

    assert asyncio.run(run()) == [{"all": {"a": 1}}, {"changes": {"a": 2}}, 1, 0]


def test_a_browser_that_does_not_keep_up_gets_everything_once_it_reads() -> None:
    """As it is then, and without the changes before that: they would bring old values back."""

    async def run() -> tuple[list[Any], int]:
        state = {"a": 0}
        asked = 0

        def everything() -> dict[str, Any]:
            nonlocal asked
            asked += 1
            return {"all": dict(state)}

        hub = Hub(everything)
        async with aclosing(hub.stream()) as stream:  # type: ignore[type-var]
            await anext(stream)
            for number in range(10 * BACKLOG_MAX + 7):
                state["a"] = number
                hub.send({"changes": {"a": number}})
            found = [message(await anext(stream))]
            hub.send({"changes": {"a": -1}})
            return [*found, message(await anext(stream))], asked

    last = 10 * BACKLOG_MAX + 6
    assert asyncio.run(run()) == ([{"all": {"a": last}}, {"changes": {"a": -1}}], 2)


def test_there_are_only_so_many_streams() -> None:
    async def run() -> list[bool]:
        hub = Hub(lambda: {"all": {}})
        streams = [hub.stream() for _ in range(BROWSERS_MAX)]
        found = [hub.is_full]
        for stream in streams:
            await anext(stream)
        found.append(hub.is_full)
        await streams[0].aclose()  # type: ignore[attr-defined]
        return [*found, hub.is_full]

    assert asyncio.run(run()) == [False, True, False]


def test_streams_end_with_the_page() -> None:
    async def course() -> None:
        hub = Hub(lambda: {"all": {}})
        stream = hub.stream()
        assert await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        hub.close()
        assert await waiting == b""
        assert [each async for each in stream] == []
        assert len(hub) == 0

    asyncio.run(course())
