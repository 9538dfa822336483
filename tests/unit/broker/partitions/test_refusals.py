"""Log lines about refused records: enough to see them, too few to fill a disk."""

from collections.abc import Sequence

import pytest

from tidelog.broker.partitions import refusals
from tidelog.broker.partitions.refusals import INTERVAL_MS, Refusals
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import TopicPartition
from unit.broker.fakes import FakeServices

REFUSAL = TidelogError("no", ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> FakeServices:
    monkeypatch.setattr(refusals, "REMEMBERED_MAX", 3)
    return FakeServices()


def note(noted: Refusals, partitions: Sequence[int]) -> None:
    for index in partitions:
        noted.note(TopicPartition("t", index), REFUSAL, "peer")


def test_each_partition_is_logged_once_a_minute(
    services: FakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    noted = Refusals(services)
    note(noted, [0, 1, 0, 1])
    assert len(caplog.records) == 2
    services.advance(INTERVAL_MS)
    note(noted, [0, 1, 0, 1])
    assert len(caplog.records) == 4


def test_more_partitions_than_are_remembered_are_not_logged_again_and_again(
    services: FakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    noted = Refusals(services)
    for _ in range(5):
        note(noted, range(10))
    assert len(caplog.records) == 3
    services.advance(INTERVAL_MS)
    note(noted, range(10))
    assert len(caplog.records) == 6
