"""Who votes in a new cluster."""

import pytest

from tidelog.lab.voters import choose_voters, quorum_voters
from tidelog.types import majority


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_three_vote_or_five_where_there_are_as_many(brokers: int, voters: int) -> None:
    assert choose_voters(range(brokers, 0, -1)) == list(range(1, voters + 1))


def test_the_setting_names_every_voter_with_its_address() -> None:
    assert quorum_voters({2: "b:9093", 1: "a:9092"}) == "1@a:9092,2@b:9093"


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority(voters: int, needed: int) -> None:
    assert majority(voters) == needed
