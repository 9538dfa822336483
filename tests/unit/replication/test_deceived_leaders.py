"""A leader that the controllers chose as complete lacks records which a follower knows to be committed."""

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import FetchAsk, FetchItem
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair
from unit.replication.test_broken_replicas import contradicting_pair


class Deceived:
    """The follower has records 0 to 2, all committed; the leader has only the first."""

    def __init__(self) -> None:
        self.pair: Pair = contradicting_pair()
        self.damaged: list[int | None] = []
        self._generation = 1 << 31
        host = self.pair.hosts[LEADER]
        host.ports = host.ports._replace(on_damaged=lambda driver: self.damaged.append(driver.damage.offset))

    @property
    def leader(self) -> ReplicaDriver:
        return self.pair.at(LEADER, self.pair.keys[0])

    def trust(self, *replicas: int) -> None:
        self.leader.successors.complete = frozenset(replicas)

    def ask(self, epoch: int, last_epoch: int) -> None:
        item = FetchItem(self.pair.keys[0], epoch, 3, last_epoch, 0, 3)
        self._generation += 1
        self.pair.hosts[LEADER].fetch_server.ask(
            FetchAsk(FOLLOWER, 7, self._generation, 0, [item], [], 500, 1 << 20)
        )


def test_it_steps_back_for_one_that_is_complete() -> None:
    deceived = Deceived()
    deceived.trust(LEADER, FOLLOWER)
    deceived.pair.begin_epoch(1)
    replica = deceived.leader.replica
    assert (replica.role, replica.leader, deceived.damaged) == (Role.FOLLOWER, NO_BROKER, [1])
    assert deceived.leader.stand_in.gathers_when_it_leads
    assert deceived.pair.at(FOLLOWER, deceived.pair.keys[0]).log.end_offset == 3


def test_it_leads_on_for_one_without_which_records_are_committed() -> None:
    deceived = Deceived()
    deceived.trust(LEADER)
    with pytest.raises(InvariantViolation, match="below the high watermark"):
        deceived.pair.begin_epoch(1)
    assert (deceived.leader.replica.role, deceived.damaged) == (Role.LEADER, [])


def test_it_leads_on_when_the_records_were_given_up() -> None:
    deceived = Deceived()
    deceived.trust(LEADER, FOLLOWER)
    for driver in (deceived.leader, deceived.pair.at(FOLLOWER, deceived.pair.keys[0])):
        driver.unclean_epoch = 1
    deceived.pair.begin_epoch(1)
    assert (deceived.leader.replica.role, deceived.damaged) == (Role.LEADER, [])
    assert deceived.pair.ends()[0] == (1, 1)


def test_it_leads_on_when_another_one_may_have_led_in_between() -> None:
    """A follower of a later epoch knows what was committed there, and the leader is only late."""
    deceived = Deceived()
    deceived.trust(LEADER, FOLLOWER)
    deceived.ask(epoch=2, last_epoch=1)
    assert (deceived.leader.replica.role, deceived.damaged) == (Role.LEADER, [])
    deceived.ask(epoch=0, last_epoch=0)
    assert (deceived.leader.replica.role, deceived.damaged) == (Role.FOLLOWER, [1])


def test_it_leads_on_for_one_whose_log_is_empty_where_records_were_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has dropped everything, so it knows no epoch, and its high watermark is the start of its log."""
    deceived = Deceived()
    deceived.trust(LEADER, FOLLOWER)
    monkeypatch.setattr(type(deceived.leader.log), "start_offset", 3)
    deceived.ask(epoch=0, last_epoch=-1)
    assert (deceived.leader.replica.role, deceived.damaged) == (Role.LEADER, [])


def test_what_was_committed_since_it_stepped_back_is_not_dropped() -> None:
    deceived = Deceived()
    deceived.trust(LEADER, FOLLOWER)
    deceived.pair.begin_epoch(1)
    leader = deceived.leader
    leader.lead(2, (LEADER, FOLLOWER), (LEADER,), 9)
    leader.log.epochs.assign(2, 1)
    deceived.pair.append(0)
    leader.lead(3, (LEADER, FOLLOWER), (LEADER,), 10)
    leader.damage.step_back(3)
    assert deceived.damaged == [1, 2]
