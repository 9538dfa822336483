"""What a directory says of its cluster, before any process is started."""

from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.cluster import LocalCluster, count_of

VOTERS = "1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23"


def write(directory: Path, voters: str, *brokers: int) -> None:
    for broker in brokers:
        path = directory / f"broker-{broker}" / "broker.toml"
        path.parent.mkdir()
        path.write_text(f'"node.id" = {broker}\n"controller.quorum.voters" = "{voters}"\n')


def test_a_new_directory_gets_three_brokers(tmp_path: Path) -> None:
    assert count_of(tmp_path) == 3


def test_a_voter_whose_files_are_gone_still_counts(tmp_path: Path) -> None:
    write(tmp_path, VOTERS, 1, 2)
    assert count_of(tmp_path) == 3


def test_voters_that_make_no_sense_are_named(tmp_path: Path) -> None:
    write(tmp_path, "one,two", 1)
    with pytest.raises(
        CommandFailed, match=r"broker-1/broker\.toml: controller\.quorum\.voters is not a list"
    ):
        count_of(tmp_path)


def test_files_that_are_gone_are_not_a_new_broker(tmp_path: Path) -> None:
    write(tmp_path, VOTERS, 1, 2, 5)
    said: list[str] = []
    LocalCluster(tmp_path, 6, 21001, said.append)._tell_differences([1, 2, 3])
    assert said == [
        "the files of brokers 3 and 4 are missing; started empty, and what others have is copied again",
        "broker 6 is new in this directory: new topics use them, existing topics stay where they are",
    ]
