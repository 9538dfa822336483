"""The scrubber's rounds over a log that changes under them."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.scrubber import Scrubber
from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import SMALL, append_many, open_log

COUNT = 60


class Round:
    """A scrubber on one log, piece by piece."""

    def __init__(self, log: Log) -> None:
        self.damages: list[str] = []
        self._pending: list[Callable[[], None]] = []
        services = SimpleNamespace(
            later=lambda delay, run: self._pending.append(run),
            offload=lambda job, done: self._pending.append(lambda: done(job())),
        )
        damage = SimpleNamespace(found=lambda offset, reason: self.damages.append(f"{offset}: {reason}"))
        driver = SimpleNamespace(damage=damage)
        partition = SimpleNamespace(log=log, name="t-0", driver=driver)
        config = SimpleNamespace(log_scrub_bytes_per_second=1)
        broker = SimpleNamespace(services=services, partitions=[partition], config=config)
        self.scrubber = Scrubber(cast("Broker", broker))
        self.scrubber.step(None)

    def go_on(self, steps: int = 500) -> list[str]:
        for _ in range(steps):
            self._pending.pop(0)()
        return self.damages


@pytest.fixture
def log() -> Log:
    log = open_log(SimulatedDisk(), SMALL)
    append_many(log, COUNT)
    assert len(log.segments) > 3
    return log


def test_damage_is_found_once_per_round(log: Log) -> None:
    segment = log.segments[1]
    segment.storage.flip(f"{segment.path}.log", segment.size - 1, 0)  # type: ignore[attr-defined]
    damages = Round(log).go_on(4 * len(log.segments))
    assert damages
    assert int(damages[0].partition(":")[0]) < log.segments[2].base_offset


@pytest.mark.parametrize("begun", range(8))
@pytest.mark.parametrize("again", [0, 1, COUNT])
def test_a_truncated_segment_is_not_damaged(
    log: Log, begun: int, again: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower drops a tail that spans two segments while a round is under way, and gets the records of
    the new leader in its place.
    """
    under_way = Round(log)
    under_way.go_on(begun)
    log.truncate_to(log.segments[1].base_offset + 1)
    if again:
        append_many(log, again, epoch=1)
    with caplog.at_level(logging.WARNING):
        assert under_way.go_on() == []
    assert not caplog.records


@pytest.mark.parametrize("begun", range(8))
def test_segments_that_are_gone_are_left_out(log: Log, begun: int, caplog: pytest.LogCaptureFixture) -> None:
    under_way = Round(log)
    under_way.go_on(begun)
    log.truncate_to(log.segments[1].base_offset)
    for segment in log.take_deleted(1 << 62):
        segment.remove()
    with caplog.at_level(logging.WARNING):
        assert under_way.go_on() == []
    assert not caplog.records
