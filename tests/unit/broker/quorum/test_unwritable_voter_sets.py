"""A voter whose sets cannot be stored stops voting and leading."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.quorum.voters import PartitionVoters
from tidelog.controller.image import PartitionImage
from tidelog.errors import StorageError
from tidelog.replication.replica import Role
from tidelog.replication.voters import VoterHistory, VoterSet
from tidelog.replication.votes import Follow

PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 5)


class FullFile:
    def save(self, entries: Any) -> None:
        raise StorageError("no space left")


class LeadingElection:
    """Only what the voter sets ask of an election."""

    forgot = False

    def retire(self) -> list[Follow]:
        return [Follow(5, -1)]

    def change_voters(self, voters: VoterSet, now_ms: int, *, needed: bool) -> None: ...


@pytest.mark.parametrize("event", ["cut", "skipped"])
def test_its_followers_and_clients_are_told(event: str) -> None:
    elected: list[Follow] = []
    driver: Any = SimpleNamespace(
        key=("t", 0),
        replica=SimpleNamespace(me=1, role=Role.LEADER, high_watermark=0),
        voter=SimpleNamespace(elect=elected.extend),
        change_replicas=lambda replicas: None,
    )
    services: Any = SimpleNamespace(uptime_ms=lambda: 0)
    file: Any = FullFile()
    election: Any = LeadingElection()
    history = VoterHistory(VoterSet.of((1, 2)))
    history.appended(7, VoterSet.of((1,)))
    voters = PartitionVoters(driver, election, history, file, services, lambda: PARTITION)
    if event == "cut":
        voters.cut(5)
    else:
        voters.skipped()
    assert elected == [Follow(5, -1)]
