"""Leaders that were chosen though they lack records: whoever has more gives it up and follows."""

import pytest
from replica_pair import FOLLOWER, LEADER, Pair

from tidelog.replication.fetching import BACKOFF_MS
from tidelog.replication.voting import TICK_MS


def elect_uncleanly(pair: Pair, epoch: int) -> None:
    for key in pair.keys:
        pair.at(FOLLOWER, key).unclean_epoch = epoch
    pair.begin_epoch(epoch)


@pytest.mark.parametrize("kept", [0, 2])
def test_a_follower_that_has_deleted_more_than_the_leader_ever_had(kept: int) -> None:
    """It would wait until the leader gets there; and with a minimum of two, the leader waits for it."""
    pair = Pair()
    for _ in range(6):
        pair.append()
    pair.clock.settle()
    follower, leader = pair.at(FOLLOWER, pair.keys[0]), pair.at(LEADER, pair.keys[0])
    follower.log.advance_start(6 - kept)
    leader.log.truncate_to(2)
    leader.replica.watermark.offset = 0
    elect_uncleanly(pair, 1)
    pair.clock.advance(2 * (BACKOFF_MS + TICK_MS))
    assert pair.ends() == [(2, 2)]
    assert follower.replica.high_watermark == leader.replica.high_watermark == 2
