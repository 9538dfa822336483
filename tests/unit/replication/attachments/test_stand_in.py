"""Replicas whose logs may contain what was given up."""

from types import SimpleNamespace
from typing import cast

import pytest

from tidelog.replication.attachments.stand_in import AnyMember, AnyVoter, Backup, NoStandIn
from tidelog.replication.driver import ReplicaDriver
from tidelog.types import NO_EPOCH


def driver(*, unclean_epoch: int, last_epoch: int, agreed_epoch: int = NO_EPOCH) -> ReplicaDriver:
    watermark = SimpleNamespace(agreed=(agreed_epoch, 0))
    replica = SimpleNamespace(last_epoch=last_epoch, watermark=watermark)
    return cast(ReplicaDriver, SimpleNamespace(replica=replica, unclean_epoch=unclean_epoch))


@pytest.mark.parametrize("last_epoch", [NO_EPOCH, 7])
def test_nothing_was_ever_given_up(last_epoch: int) -> None:
    assert not AnyVoter(driver(unclean_epoch=-1, last_epoch=last_epoch)).is_outdated


def test_not_confirmed_since_an_operator_decided() -> None:
    assert AnyVoter(driver(unclean_epoch=1001, last_epoch=7, agreed_epoch=7)).is_outdated


def test_a_later_leader_has_the_same_log() -> None:
    assert not AnyVoter(driver(unclean_epoch=1001, last_epoch=7, agreed_epoch=1002)).is_outdated


def test_a_record_of_a_later_leader_shows_it_after_a_restart() -> None:
    assert not AnyVoter(driver(unclean_epoch=1001, last_epoch=1002)).is_outdated


def test_only_where_leaders_write_a_record_of_their_epoch() -> None:
    """Elsewhere a log does not show whether a leader has confirmed it."""
    assert not NoStandIn(driver(unclean_epoch=1001, last_epoch=7)).is_outdated


@pytest.mark.parametrize(
    ("serves", "last_epoch", "agreed_epoch", "outdated"),
    [(True, 7, 7, True), (True, 7, 9, False), (True, 9, NO_EPOCH, False), (False, 7, 7, False)],
)
@pytest.mark.parametrize("kind", [AnyMember, Backup])
def test_one_that_serves_without_a_leader(
    kind: type[AnyMember | Backup], serves: bool, last_epoch: int, agreed_epoch: int, outdated: bool
) -> None:
    """While there is a leader, the next fetch drops what was given up."""
    member = kind(driver(unclean_epoch=8, last_epoch=last_epoch, agreed_epoch=agreed_epoch))
    member.told(serves)
    assert member.serves is serves
    assert member.is_outdated is outdated
