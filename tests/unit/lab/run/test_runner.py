"""What the runner does besides running."""

from pathlib import Path

import pytest

from tidelog.client.cluster_view import PartitionView
from tidelog.lab.run.runner import _new_directory, _set_aside
from tidelog.lab.run.topics import _leaders
from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.indicators.history import _files


def test_a_second_run_into_the_same_directory_has_histories_of_its_own(tmp_path: Path) -> None:
    """With the events of the first run, its records would count as lost."""
    names = [_new_directory(tmp_path / "h", "leader-killed-1").name for _ in range(3)]
    assert names == ["leader-killed-1", "leader-killed-1.2", "leader-killed-1.3"]


def test_histories_of_a_round_that_was_not_finished_are_no_histories(tmp_path: Path) -> None:
    """Nothing was read back: every record would count as lost."""
    for _ in range(2):
        directory = _new_directory(tmp_path, "leader-killed-1")
        (directory / "records-1.lab.jsonl").touch()
        _set_aside(directory)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["_unfinished-leader-killed-1", "_unfinished-leader-killed-1.2"]
    with pytest.raises(OptionError, match="There is no history in"):
        _files(str(tmp_path))
    (_new_directory(tmp_path, "leader-killed-1") / "records-1.lab.jsonl").touch()
    assert _files(str(tmp_path)) == ([], [f"{tmp_path}/leader-killed-1/records-1.lab.jsonl"])


def test_leaders_of_partitions_that_no_broker_knows_yet() -> None:
    known = [PartitionView(2, 1, (2, 1), (2, 1))]
    assert _leaders(known, 3) == [2, -1, -1]
    assert _leaders([], 2) == [-1, -1]
