"""The order of things in a round."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tidelog.client.cluster_view import ClusterView, PartitionView
from tidelog.lab.experiment.reader import read_text
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties
from tidelog.lab.run.ports import Parts
from tidelog.lab.run.round import RoundPlayer

TWO_DISKS = """\
title = "two disks, one after the other"
before = 0.0
lasts = 0.2
after = 0.0

[[topics]]
name = "records"

[[timeline]]
at = 0
fault = "wipe"
on = "2"
lasts = 0.1

[[timeline]]
at = 0.1
fault = "wipe"
on = "3"
lasts = 0.1
"""


class Target:
    """Notes what happens. A controller that lost its disk votes again when it was asked for it twice."""

    bootstrap = "nowhere:1"
    brokers = voters = (1, 2, 3)

    def __init__(self) -> None:
        self.story: list[str] = []
        self._asked = 0

    def view(self, *topics: str) -> ClusterView:
        return ClusterView({}, 1, {each: [PartitionView(1, 0, (1, 2, 3), (1, 2, 3))] for each in topics})

    def controller(self) -> int:
        return 1

    def ended(self) -> tuple[int, ...]:
        return ()

    def inject(self, fault: str, parties: Parties, parameters: Mapping[str, object]) -> Injected:
        def heal() -> None:
            self.story.append(f"{parties.first[0]} started")
            self._asked = 2

        self.story.append(f"{parties.first[0]} wiped")
        return Injected(fault, heal)

    def votes_again(self) -> bool:
        if self._asked:
            self._asked -= 1
            if not self._asked:
                self.story.append("votes again")
        return not self._asked


class Topics:
    def is_in_sync(self) -> bool:
        return True

    def leaders(self) -> dict[str, list[int]]:
        return {"records": [1]}


class Workload:
    """Nothing is written, and nothing is waited for."""

    def acknowledged(self) -> Mapping[str, int]:
        return {}

    acknowledged_by_partition = acknowledged

    def mark(self, kind: str, name: str) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_the_next_disk_is_lost_when_the_controllers_vote_again(tmp_path: Path) -> None:
    """Two of three without a vote are no majority, though never two were hit at once."""
    target = Target()
    parts = Parts(lambda plan: cast(Any, Workload()), cast(Any, None))
    experiment = read_text(TWO_DISKS, "disks", "disks.toml")
    player = RoundPlayer(cast(Any, target), experiment, cast(Any, Topics()), parts, tmp_path, lambda *_: None)
    record = player.play()
    assert target.story == ["2 wiped", "2 started", "votes again", "3 wiped", "3 started", "votes again"]
    assert record.is_redundant
