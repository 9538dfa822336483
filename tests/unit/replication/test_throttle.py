"""Followers that catch up no faster than an operator allows."""

import pytest

from tidelog.replication.throttle import UNLIMITED, Throttle, throttled_followers
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


def test_a_rate_is_kept_over_time() -> None:
    throttle = Throttle()
    throttle.set_rate(1000, 0)
    assert throttle.limits
    assert throttle.allowance(100) == 100
    throttle.spend(300)
    assert throttle.allowance(200) <= 0
    assert throttle.allowance(400) == 100


def test_a_quiet_time_does_not_save_up_more_than_an_interval() -> None:
    throttle = Throttle()
    throttle.set_rate(1000, 0)
    assert throttle.allowance(60_000) == 1000


def test_without_a_limit() -> None:
    throttle = Throttle()
    assert not throttle.limits
    throttle.set_rate(UNLIMITED, 0)
    assert not throttle.limits


@pytest.mark.parametrize(
    ("setting", "named"),
    [("", frozenset()), ("*", None), ("0:1,0:2,1:3", frozenset({1, 2})), (" 0:1 , 1:2", frozenset({1}))],
)
def test_who_is_named(setting: str, named: frozenset[int] | None) -> None:
    assert throttled_followers(setting, 0) == named


def backlog(*, in_sync: tuple[int, ...]) -> Pair:
    pair = Pair()
    leader = pair.at(LEADER, pair.keys[0])
    leader.lead(0, (1, 2), in_sync, 1)
    leader.throttled = None
    pair.hosts[LEADER].fetch_server.throttle.set_rate(100_000, pair.clock.ms)
    pair.deaf = True
    for _ in range(40):
        pair.append(0, b"x" * 10_000)
    pair.deaf = False
    return pair


def test_who_is_not_in_sync_catches_up_slowly() -> None:
    pair = backlog(in_sync=(1,))
    pair.clock.advance(1500)
    leader_end, follower_end = pair.ends()[0]
    assert leader_end == 40
    assert 5 <= follower_end <= 20
    pair.clock.advance(6000)
    assert pair.ends()[0] == (40, 40)


def test_members_are_not_slowed_down() -> None:
    pair = backlog(in_sync=(1, 2))
    pair.clock.advance(1500)
    assert pair.ends()[0] == (40, 40)
    assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 40
