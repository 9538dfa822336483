"""What the runner does besides running."""

from pathlib import Path

from tidelog.client.cluster_view import PartitionView
from tidelog.lab.run.runner import _new_directory
from tidelog.lab.run.topics import _leaders


def test_a_second_run_into_the_same_directory_has_histories_of_its_own(tmp_path: Path) -> None:
    """With the events of the first run, its records would count as lost."""
    names = [_new_directory(tmp_path / "h", "leader-killed-1").name for _ in range(3)]
    assert names == ["leader-killed-1", "leader-killed-1.2", "leader-killed-1.3"]


def test_leaders_of_partitions_that_no_broker_knows_yet() -> None:
    known = [PartitionView(2, 1, (2, 1), (2, 1))]
    assert _leaders(known, 3) == [2, -1, -1]
    assert _leaders([], 2) == [-1, -1]
