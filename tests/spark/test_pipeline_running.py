"""Waiting for streaming queries, with queries that are told when to end: no Spark is started."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from tidelog.spark.pipelines import running

TOO_BUSY = PySparkRuntimeError("Python worker failed to connect back.")
WRONG = PySparkRuntimeError("the table is not there")


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAUSE_S", "PAUSE_MAX_S", "POLL_S"):
        monkeypatch.setattr(running, name, 0.0)


class Query:
    """Ends after it was looked at ``looks`` times, with a failure or without."""

    def __init__(self, looks: int = 1, failure: Exception | None = None) -> None:
        self._looks, self._failure = looks, failure
        self.recentProgress: list[Any] = []

    @property
    def isActive(self) -> bool:
        self._looks -= 1
        return self._looks >= 0

    def exception(self) -> Exception | None:
        return self._failure if self._looks < 0 else None

    def stop(self) -> None:
        self._looks = 0


class Writer:
    """Starts one query after the other, or fails to."""

    def __init__(self, *starts: Query | Exception, when_failed: Callable[[], None] = lambda: None) -> None:
        self.left = list(starts)
        self._when_failed = when_failed

    def trigger(self, **_: Any) -> "Writer":
        return self

    def start(self) -> Query:
        started = self.left.pop(0)
        if isinstance(started, Exception):
            self._when_failed()
            raise started
        return started


def run(writer: Writer, **more: Any) -> running.Outcome:
    return running.run(writer, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("looks", range(5))
def test_a_failure_is_never_taken_for_an_end(looks: int) -> None:
    with pytest.raises(PySparkRuntimeError, match="not there"):
        run(Writer(Query(looks, WRONG)))


def test_a_process_that_was_too_slow_is_started_again() -> None:
    writer = Writer(TOO_BUSY, Query(2, TOO_BUSY), TOO_BUSY, Query())
    assert not run(writer).stopped
    assert not writer.left


def test_a_failed_start_is_told() -> None:
    with pytest.raises(PySparkRuntimeError, match="not there"):
        run(Writer(WRONG, Query()))


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10_000, 40))
    monkeypatch.setattr("time.monotonic", lambda: float(next(times)))
    writer = Writer(*[TOO_BUSY] * 20)
    with pytest.raises(running.MachineTooBusy, match="too busy"):
        run(writer)
    assert len(writer.left) == 11  # tried at 0 s, 40 s, … 320 s


def test_failures_far_apart_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 100_000, 400))
    monkeypatch.setattr("time.monotonic", lambda: float(next(times)))
    assert not run(Writer(*[TOO_BUSY] * 20, Query())).stopped


def test_whoever_waits_can_be_stopped() -> None:
    stop = Event()
    writer = Writer(TOO_BUSY, Query(), when_failed=stop.set)
    assert run(writer, stop=stop).stopped
    assert len(writer.left) == 1
