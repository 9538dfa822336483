"""Golden traces of the state machines themselves: events in, effects out (``core/*.txt``).

``pytest tests/golden --rewrite`` writes the output of every command anew; read the difference before you
commit it.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from core_controller import ControllerDriver
from core_machines import Driver, ElectionDriver, ReplicaDriver
from core_shards import GroupsDriver, TransactionsDriver
from datadriven import call, parse, run

from tidelog.replication.limits import Limits

TRACES = sorted((Path(__file__).parent / "core").glob("*.txt"))


class Stage:
    """The machines of one trace. The one that was made or named last is spoken to."""

    def __init__(self) -> None:
        self._drivers: dict[int, Driver] = {}
        self._now: Driver | None = None

    def execute(self, name: str, words: Mapping[str, str]) -> Iterable[str]:
        own = getattr(self, f"do_{name}", None)
        if own is not None:
            call(own, words, {})
            return ["ok"]
        assert self._now is not None, "no machine was made"
        return self._now.execute(name, words)

    def _add(self, me: int, driver: Driver) -> None:
        self._drivers[me] = self._now = driver

    def do_on(self, me: int) -> None:
        self._now = self._drivers[me]

    def do_replica(
        self, mode: str, me: int = 1, min_in_sync: int = 2, lag_max_ms: int = 1000, durable: bool = False,
        degrade_after_ms: int = -1,
    ) -> None:  # fmt: skip
        limits = Limits(min_in_sync, lag_max_ms, durable, degrade_after_ms=degrade_after_ms)
        self._add(me, ReplicaDriver(mode, limits, me))

    def do_controller(self, me: int = 9) -> None:
        self._add(me, ControllerDriver())

    def do_groups(self, me: int = 1) -> None:
        self._add(me, GroupsDriver())

    def do_transactions(self, me: int = 1) -> None:
        self._add(me, TransactionsDriver())

    def do_election(self, voters: tuple[int, ...], me: int = 1, epoch: int = 0) -> None:
        self._add(me, ElectionDriver(me, voters, epoch))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace(path: Path, request: pytest.FixtureRequest) -> None:
    text = run(path.read_text(), Stage().execute)
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_command_has_an_output() -> None:
    for path in TRACES:
        assert all(step.output for step in parse(path.read_text()) if step.command), path
