"""Partitions of a primary share its backups; primaries are even."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import Site
from tidelog.controller.placement_groups import spread_groups
from tidelog.errors import TidelogError


@given(
    brokers=st.integers(1, 8),
    partitions=st.integers(1, 40),
    replicas=st.integers(1, 8),
    racks=st.integers(1, 4),
)
def test_groups(brokers: int, partitions: int, replicas: int, racks: int) -> None:
    replicas = min(replicas, brokers)
    sites = [Site(broker, f"r{broker % racks}") for broker in range(brokers)]
    placed = spread_groups(sites, partitions, replicas)
    groups: dict[int, list[int]] = {}
    for assignment in placed:
        assert len(set(assignment)) == replicas
        assert groups.setdefault(assignment[0], assignment) == assignment
        assert len({broker % racks for broker in assignment}) == min(racks, replicas, brokers)
    led = Counter(assignment[0] for assignment in placed)
    assert max(led.values()) - min(led[broker] for broker in range(brokers)) <= 1


def test_a_ring_of_pairs() -> None:
    assert spread_groups([Site(1), Site(2), Site(3)], 3, 2) == [[1, 2], [2, 3], [3, 1]]


def test_a_topic_that_grows_keeps_its_groups() -> None:
    sites = [Site(1), Site(2), Site(3)]
    assert spread_groups(sites, 3, 2, topic=[(1, 3), (2, 1)]) == [[3, 1], [1, 3], [2, 1]]


def test_who_does_not_serve_is_no_primary_and_the_last_choice_as_backup() -> None:
    sites = [Site(1), Site(2, serves=False), Site(3)]
    assert spread_groups(sites, 2, 2) == [[1, 3], [3, 1]]


def test_more_replicas_than_brokers() -> None:
    with pytest.raises(TidelogError, match="larger than the number of brokers"):
        spread_groups([Site(1)], 1, 2)
