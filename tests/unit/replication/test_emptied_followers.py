"""A follower without records: which epoch it takes for that of its last one."""

from tidelog.replication.votes import Tail
from unit.replication.one_voter import ALL, Voter

LATER_MS = 1 << 62
LEADER = 2


def follower(epochs: dict[int, int]) -> Voter:
    """Has led the given epochs, with so many records each; the first four records have expired. It follows
    another one in epoch 9.
    """
    voter = Voter("isr")
    for epoch, records in epochs.items():
        voter.driver.lead(epoch, ALL, ALL, 0)
        for _ in range(records):
            voter.append()
        if voter.log.end_offset == 4:
            voter.log.enforce_retention(LATER_MS, 4)
    voter.driver.follow(9, LEADER, ALL, 0)
    return voter


def test_an_epoch_without_records_gives_way_to_the_one_the_leader_knows() -> None:
    voter = follower({1: 4, 5: 0})
    before = voter.driver.tail
    voter.driver.diverged(9, (1, 6))
    assert (before, voter.driver.tail) == (Tail(5, 4), Tail(1, 4))


def test_a_log_that_loses_its_last_records_is_not_older_than_a_shorter_one() -> None:
    voter = follower({1: 4, 5: 3})
    voter.replica.watermark.offset = 4
    voter.driver.diverged(9, (1, 4))
    assert voter.driver.tail == Tail(1, 4) > Tail(1, 3)


def test_records_tell_their_epoch_themselves() -> None:
    voter = follower({1: 4, 5: 3, 7: 2})
    voter.replica.watermark.offset = 4
    voter.driver.diverged(9, (6, 7))
    assert voter.driver.tail == Tail(5, 7)
    assert voter.log.epochs.entries == [(5, 4)]


def test_an_old_answer_changes_nothing() -> None:
    voter = follower({1: 4, 5: 0})
    voter.driver.diverged(8, (1, 6))
    assert voter.driver.tail == Tail(5, 4)


def test_a_new_beginning_does_not_make_a_log_older() -> None:
    voter = follower({1: 4, 5: 3})
    voter.driver.take(9, None, 7, 7)
    assert (voter.log.start_offset, voter.driver.tail) == (7, Tail(5, 7))


def test_the_leader_corrects_the_epoch_of_a_tail_that_never_was() -> None:
    voter = follower({1: 4, 5: 3})
    voter.driver.restart_at_leader_start(8)
    voter.driver.diverged(9, (3, 10))
    assert voter.driver.tail == Tail(3, 8)
