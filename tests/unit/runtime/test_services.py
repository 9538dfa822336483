"""Slices of long work: one after another, so that together they do not hold the event loop either."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidelog.broker.slices import in_slices
from tidelog.runtime import services
from tidelog.runtime.services import LoopServices

TURNS = 20


def work(name: str, count: int, done: list[str]) -> Iterator[None]:
    for _ in range(count):
        done.append(name)
        yield


def run(count: int, done: list[str]) -> None:
    """Three clients have work of ``count`` slices each; the turns of the loop are noted in between."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = LoopServices(loop)
        for name in "abc":
            in_slices(made, work(name, count, done), 1, lambda: None)
        for _ in range(TURNS):
            done.append("|")
            await asyncio.sleep(0)
        made.close()

    asyncio.run(main())


def test_one_turn_of_the_loop_takes_only_some_of_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SLICES_S", 0.0)
    done: list[str] = []
    run(3, done)
    assert "".join(done).rstrip("|") == "abc|a|b|c|a|b|c"


def test_short_slices_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SLICES_S", 60.0)
    done: list[str] = []
    run(3, done)
    assert "".join(done).rstrip("|") == "abc|abc|abc"


class TestWorkOfTheCluster:
    @pytest.fixture(autouse=True)
    def _one_of_each_kind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(services, "SLICES_S", 0.0)
        monkeypatch.setattr(services, "URGENT_S", 0.0)

    def turns(self, *wanted: tuple[str, bool]) -> str:
        async def main() -> str:
            done: list[str] = []
            made = LoopServices(asyncio.get_running_loop())
            for name, urgent in wanted:
                made.in_turn(lambda name=name: done.append(name), urgent=urgent)  # type: ignore[misc]
            for _ in range(TURNS):
                done.append("|")
                await asyncio.sleep(0)
            made.close()
            return "".join(done).strip("|")

        return asyncio.run(main())

    def test_goes_first_and_not_all_at_once(self) -> None:
        assert self.turns(("a", False), ("X", True), ("Y", True), ("Z", True)) == "Xa|Y|Z"

    def test_does_not_keep_clients_from_their_turn(self) -> None:
        wanted = [("X", True), ("Y", True), ("a", False), ("b", False)]
        assert self.turns(*wanted) == "Xa|Yb"

    def test_goes_on_when_one_fails(self) -> None:
        async def main() -> list[str]:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: done.append(type(context["exception"]).__name__))
            made, done = LoopServices(loop), list[str]()

            def fail() -> None:
                raise ValueError

            made.in_turn(fail, urgent=True)
            made.in_turn(lambda: done.append("Y"), urgent=True)
            made.in_turn(lambda: done.append("a"))
            for _ in range(TURNS):
                await asyncio.sleep(0)
            made.close()
            return done

        assert asyncio.run(main()) == ["a", "ValueError", "Y"]


def test_a_slice_that_fails_does_not_stop_the_others() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: done.append(type(context["exception"]).__name__))
        made, done = LoopServices(loop), list[str]()

        def fail() -> None:
            raise ValueError

        for each in (fail, lambda: done.append("a"), fail, lambda: done.append("b")):
            made.in_turn(each)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        made.close()
        return done

    assert asyncio.run(main()) == ["ValueError", "a", "ValueError", "b"]


def test_a_suspended_machine_counts_the_time() -> None:
    """The kernel shows a process in its own time namespace what one sees after a suspension: more time since
    boot than the monotonic clock counted.
    """
    program = (
        "import asyncio, time; from tidelog.runtime.services import LoopServices; "
        "print(LoopServices(asyncio.new_event_loop()).uptime_ms() / 1000 - time.monotonic())"
    )
    suspended_s = 1_000_000
    command = ["unshare", "--time", "--boottime", str(suspended_s), sys.executable, "-c", program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no time namespaces here: {error}")
    assert float(done.stdout) > suspended_s - 10
