"""Leaders that were chosen though they lack records: whoever has more gives it up and follows."""

import pytest

from tidelog.config.topic import TopicConfig
from tidelog.replication.fetching import BACKOFF_MS
from tidelog.replication.voting import TICK_MS
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


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


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_follower_with_a_compacted_log_copies_the_log_of_its_leader_from_the_start(policy: str) -> None:
    """What the leader lacks may have superseded older records, which compaction has removed here only."""
    pair = Pair()
    for value in (b"a", b"b", b"c", b"d"):
        pair.append(value=value)
    pair.clock.settle()
    follower, leader = pair.at(FOLLOWER, pair.keys[0]), pair.at(LEADER, pair.keys[0])
    follower.log.config = TopicConfig(cleanup_policy=frozenset({policy}))
    leader.log.truncate_to(2)
    leader.replica.watermark.offset = 0
    cuts: list[int] = []
    follower._before_cut = cuts.append
    elect_uncleanly(pair, 1)
    pair.clock.advance(2 * (BACKOFF_MS + TICK_MS))
    assert cuts == ([0] if policy == "compact" else [2])
    assert pair.ends() == [(2, 2)]
    assert follower.replica.high_watermark == leader.replica.high_watermark == 2
    assert follower.given_up == 2  # Not what was only fetched again.


def test_a_compacted_log_without_an_unclean_election_is_cut_where_it_diverges() -> None:
    pair = Pair()
    for _ in range(4):
        pair.append()
    pair.clock.settle()
    follower, leader = pair.at(FOLLOWER, pair.keys[0]), pair.at(LEADER, pair.keys[0])
    follower.log.config = TopicConfig(cleanup_policy=frozenset({"compact"}))
    leader.log.truncate_to(3)
    leader.replica.watermark.offset = follower.replica.watermark.offset = 3
    cuts: list[int] = []
    follower._before_cut = cuts.append
    pair.begin_epoch(1)
    pair.clock.advance(2 * (BACKOFF_MS + TICK_MS))
    assert (cuts, pair.ends()) == ([3], [(3, 3)])


def test_a_truncation_is_synced_though_acknowledgements_require_no_sync() -> None:
    """If the truncated records returned after a power failure, they might be taken for committed ones."""
    pair = Pair()
    for _ in range(4):
        pair.append()
    pair.clock.settle()
    follower, leader = pair.at(FOLLOWER, pair.keys[0]), pair.at(LEADER, pair.keys[0])
    leader.log.truncate_to(2)
    leader.replica.watermark.offset = follower.replica.watermark.offset = 0
    syncs = pair.hosts[FOLLOWER].syncer.syncs
    pair.begin_epoch(1)
    pair.clock.advance(2 * (BACKOFF_MS + TICK_MS))
    assert pair.ends() == [(2, 2)]
    assert not follower.replica.limits.durable and pair.hosts[FOLLOWER].syncer.syncs == syncs + 1
