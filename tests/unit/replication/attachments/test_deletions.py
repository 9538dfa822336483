"""Deleted and expired records: how the log start reaches followers, and when a deletion lasts."""

from errno import EIO

import pytest

from tidelog.replication.fetch_server import COMMIT_WITHIN_MS
from tidelog.replication.fetching import BACKOFF_MS
from tidelog.replication.modes import MODES
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


def test_a_deleted_beginning_reaches_the_follower() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.deletions.delete_before(2)
    pair.clock.settle()
    assert follower.log.start_offset == 2


def test_a_deletion_lasts_when_all_that_may_lead_have_heard_of_it() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader = pair.at(LEADER, pair.keys[0])
    pair.deaf = True
    leader.deletions.delete_before(2)
    pair.clock.settle()
    assert leader.deletions.low_watermark == 0
    leader.lead(0, (1, 2), (1,), 1)  # The follower has left, and holds everything committed.
    leader.successors.complete = frozenset({FOLLOWER})
    assert leader.deletions.low_watermark == 0
    leader.successors.complete = frozenset()
    assert leader.deletions.low_watermark == 2


@pytest.mark.parametrize("me", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_a_deletion_lasts_when_it_is_recorded(me: int) -> None:
    """A disk refuses a name. The follower tries again after a pause, although its leader responds at once."""
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    pair.clock.advance(COMMIT_WITHIN_MS)
    leader, follower = (pair.at(each, pair.keys[0]) for each in (LEADER, FOLLOWER))
    pair.disks[me].failing["create"] = EIO
    leader.deletions.delete_before(2)
    before = len(pair.asks())
    pair.clock.settle()
    pair.clock.advance(10 * BACKOFF_MS)
    assert len(pair.asks()) - before <= 11
    assert (leader.log.start_offset, follower.log.start_offset) == (2, 2)
    assert leader.deletions.low_watermark == 0
    pair.disks[me].failing.clear()
    pair.clock.advance(4 * BACKOFF_MS)
    assert leader.log.keep_start()
    assert leader.deletions.low_watermark == 2


def test_a_beginning_that_expired_reaches_a_follower_without_new_records() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.log.advance_start(2)  # As retention does.
    leader.begins_later()
    pair.clock.settle()
    assert follower.log.start_offset == 2
    assert leader.deletions.low_watermark == 2


def test_where_replicas_vote_a_deletion_is_a_record() -> None:
    pair = Pair()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.adopt(MODES["quorum"])
    follower.adopt(MODES["quorum"])
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    assert leader.deletions.delete_before(2) == 4
    assert (leader.log.start_offset, leader.replica.high_watermark) == (2, 3)  # Nobody else has it yet.
    pair.clock.settle()
    assert leader.replica.high_watermark == 4
    assert (follower.log.start_offset, follower.log.end_offset) == (2, 4)
    assert leader.deletions.delete_before(2) == leader.log.end_offset == 4  # It is there already.
