"""A primary that came back with less than it had: it copies back before it leads, or stops and says why."""

from typing import Any

import pytest

from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.attachments.restorer import (
    FORCED_WAIT_MS,
    Mandate,
    Restoring,
    deleted_before,
    has_heard_enough,
)
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.messages import Message, TailGot
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica, Role
from tidelog.sim.disk import SimulatedDisk
from unit.replication.replica_pair import NOW_MS, Clock

A, B, C, D = 1, 2, 3, 4
KEY = ("t", 0)


class Group:
    """A primary and its backups; ``a="001"`` is a log of three records, of the epochs 0, 0 and 1."""

    def __init__(self, copies: int = 2, mode: str = "primary-backup", **logs: str) -> None:
        self.clock = Clock()
        self.silent: set[int] = set()
        self.proposals: list[ProposeInSync] = []
        self.hosts = {}
        for me, name in enumerate("abc"[: len(logs)], 1):
            ports = HostPorts(on_proposal=lambda driver, proposal: self.proposals.append(proposal))
            host = self.hosts[me] = Host(me, self.clock, _Peers(self), lambda: 0.5, ports)
            disk = SimulatedDisk()
            disk.make_directory("data")
            log = Log.open(disk, "data/t-0", TopicConfig(), clean=False, now_ms=NOW_MS)
            for offset, epoch in enumerate(map(int, logs[name])):
                record = Record(offset, NOW_MS, None, f"{epoch}@{offset}".encode(), ())
                log.append_batches(memoryview(encode_batch([record], leader_epoch=epoch)), NOW_MS)
            replica = Replica(me, log, MODES[mode].policy, Limits(min_in_sync=copies))
            driver = ReplicaDriver(KEY, log, replica, self.clock, host)
            driver.adopt(MODES[mode])
            host.add(driver)
            host.start()

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(self.hosts)

    def at(self, me: int) -> ReplicaDriver:
        return self.hosts[me].drivers[KEY]

    def appoint(
        self, *, epoch: int = 9, last_leader: int = A, forced: bool = False, acted_epoch: int = -1
    ) -> "Group":
        for backup in self.replicas[1:]:
            self.at(backup).follow(epoch, A, self.replicas, 0)
        if forced:
            for each in self.replicas:
                self.at(each).unclean_epoch = epoch
        sound = frozenset(self.replicas[1:])
        mandate = Mandate(
            epoch, self.replicas, 0, last_leader, sound, forced, copies=0, acted_epoch=acted_epoch
        )
        self.hosts[A].restore(self.at(A), mandate)
        self.clock.advance(500)
        return self

    def confirm(self, epoch: int = 9) -> "Group":
        """The controllers take the primary's proposal."""
        assert self.proposals[-1].members == (A,)
        self.at(A).end_restoring()
        self.at(A).lead(epoch, self.replicas, (A,), 1)
        self.clock.advance(500)
        return self

    def ends(self) -> list[int]:
        return [self.at(each).log.end_offset for each in self.replicas]


class _Peers:
    def __init__(self, group: Group) -> None:
        self._group = group

    def send(self, to: int, message: Message) -> None:
        group = self._group
        if not group.silent & {to, message.sender}:
            group.clock.soon(lambda: group.hosts[to].receive(message))


@pytest.mark.parametrize(
    ("copies", "replicas", "sound", "heard", "enough"),
    [
        (2, 2, {B}, set(), False),
        (2, 2, {B}, {B}, True),
        (2, 2, set(), {B}, True),  # It is all there is.
        (2, 3, {B, C}, {B}, False),
        (2, 3, {B, C}, {B, C}, True),
        (3, 3, {B, C}, {C}, True),
        (3, 3, {B}, {C}, False),  # It may have forgotten what it acknowledged.
        (3, 3, {B}, {B, C}, True),
        (1, 3, {B, C}, {B}, False),
        (1, 3, {B, C}, {B, C}, True),
        (1, 1, set(), set(), True),
    ],
)
def test_who_must_be_heard(
    copies: int, replicas: int, sound: set[int], heard: set[int], enough: bool
) -> None:
    mandate = Mandate(9, tuple(range(1, replicas + 1)), 0, A, frozenset(sound))
    assert has_heard_enough(mandate, copies, heard) is enough


@pytest.mark.parametrize("primary", ["", "0", "00", "001"])
def test_what_a_backup_has_more_is_copied_back(primary: str) -> None:
    group = Group(a=primary, b="0012").appoint(last_leader=A if primary else -1)
    assert group.ends() == [4, 4]
    assert group.at(A).replica.role is Role.FOLLOWER  # It has not been told to lead yet.
    group.confirm()
    assert (group.at(A).replica.role, group.at(A).replica.high_watermark) == (Role.LEADER, 4)
    assert group.ends() == [4, 4]


def test_backups_that_have_less_follow_as_soon_as_it_leads() -> None:
    group = Group(a="0011", b="00").appoint()
    assert group.ends() == [4, 2]
    assert group.confirm().ends() == [4, 4]


def test_a_backup_that_comes_back_with_less_is_not_waited_for() -> None:
    group = Group(a="00", b="000")
    group.silent.add(B)
    group.appoint()
    restoring = group.at(A).restorer
    assert isinstance(restoring, Restoring)
    restoring.got(TailGot(B, KEY, ErrorCode.NONE, 9, 0, 5))  # Then it lost power, and two of its records.
    group.clock.advance(2000)
    assert not group.proposals
    group.silent.clear()
    group.hosts[A].broker_restarted(B)
    group.clock.advance(500)
    assert group.confirm().ends() == [3, 3]


def test_a_backup_that_keeps_expired_records_has_nothing_to_copy() -> None:
    group = Group(a="001", b="001")
    group.at(A).log.advance_start(3)
    group.appoint()
    assert group.proposals[-1].members == (A,)
    assert group.confirm().ends() == [3, 3]


def test_an_epoch_without_records_is_nothing_to_copy() -> None:
    group = Group(a="", b="")
    group.at(A).log.epochs.assign(2, 0)
    group.at(B).log.epochs.assign(3, 0)
    group.appoint()
    assert group.proposals[-1].members == (A,)


def test_offsets_of_expired_records_are_not_given_again() -> None:
    """The backup has nothing left of what the primary lacks, but it was there."""
    group = Group(a="0", b="00011")
    group.at(B).log.advance_start(5)
    group.appoint()
    assert group.confirm().ends() == [5, 5]


def test_the_longer_of_two_backups_is_asked() -> None:
    group = Group(a="0", b="000", c="0001").appoint()
    assert group.ends() == [4, 3, 4]
    assert group.confirm().ends() == [4, 4, 4]


def test_two_backups_have_to_be_heard_where_one_of_them_may_lack_a_copy() -> None:
    group = Group(a="0", b="00", c="0001")
    group.silent.add(C)
    group.appoint()
    assert (group.ends()[0], group.proposals) == (1, [])
    group.silent.clear()
    group.clock.advance(500)
    assert group.ends()[0] == 4
    assert group.proposals


def test_different_histories_stop_it_and_nothing_is_dropped() -> None:
    group = Group(a="00011", b="0002222").appoint()
    assert group.ends() == [5, 7]
    assert group.proposals == []
    problem = group.at(A).restorer
    assert isinstance(problem, Restoring)
    assert "diverge at offset 3 (epoch 0): its own log ends at 5, the other at 7" in problem.problem


def test_also_when_ours_is_the_longer_one() -> None:
    group = Group(a="000222", b="00011").appoint()
    assert group.ends() == [6, 5]
    assert group.proposals == []


@pytest.mark.parametrize(
    ("a", "b", "acted_epoch", "superseded"),
    [
        ("000222", "00011", 2, True),
        ("0002", "00011111", 2, True),
        ("00022233", "00011", 2, True),  # What came after the acting leader does not matter.
        ("000222", "00011", 3, False),  # The last leader's first record is lost.
        ("000222", "00011", 1, False),  # The other log has records of the last leader, and ours has none.
        ("000333", "00011122", 2, False),
        ("00222", "00111333", 2, False),  # It has newer records than the last leader that we know of.
    ],
)
def test_a_log_that_the_last_leader_superseded(a: str, b: str, acted_epoch: int, superseded: bool) -> None:
    group = Group(a=a, b=b).appoint(acted_epoch=acted_epoch)
    assert bool(group.proposals) is superseded
    if superseded:
        assert group.confirm().ends() == [len(a), len(a)]
    else:
        assert group.ends() == [len(a), len(b)]


def test_forced_ours_is_the_right_history() -> None:
    group = Group(a="00011", b="0002222").appoint(forced=True)
    assert group.proposals
    assert group.confirm().ends() == [5, 5]
    assert group.at(B).given_up == 4


def test_forced_it_still_takes_what_others_have_more_of_the_same_history() -> None:
    group = Group(copies=1, a="", b="0012").appoint(last_leader=-1, forced=True)
    assert group.ends() == [4, 4]


def test_forced_it_does_not_wait_for_ever() -> None:
    group = Group(a="00", b="0011")
    group.silent.add(B)
    group.appoint(forced=True)
    assert group.proposals == []
    group.clock.advance(FORCED_WAIT_MS)
    assert group.proposals


def test_an_empty_disk_and_one_copy_is_for_an_operator() -> None:
    """Only the primary need have had the newest records: nobody can say what is missing."""
    group = Group(copies=1, a="", b="00").appoint(last_leader=-1)
    assert (group.ends(), group.proposals) == ([0, 2], [])
    restoring = group.at(A).restorer
    assert isinstance(restoring, Restoring)
    assert "the last primary's disk was replaced" in restoring.problem


def test_a_backup_answers_in_the_new_epoch_only() -> None:
    """Before that, it might still take records from whoever led until now."""
    group = Group(a="0", b="00")
    group.at(B).follow(8, -1, group.replicas, 0)
    group.hosts[A].restore(group.at(A), Mandate(9, group.replicas, 0, A))
    group.clock.advance(500)
    assert (group.ends()[0], group.proposals) == (1, [])
    group.at(B).follow(9, A, group.replicas, 1)
    group.clock.advance(500)
    assert group.ends()[0] == 2


def test_while_it_gathers_nobody_is_served_from_it() -> None:
    """A backup that is ahead would be told to cut off what the primary is about to ask it for."""
    group = Group(a="0", b="0011")
    group.silent.add(A)
    group.appoint()
    group.silent.clear()
    group.clock.advance(1000)
    assert group.ends() == [4, 4]


def test_one_replica_alone_has_nobody_to_ask() -> None:
    group = Group(copies=1, a="00").appoint()
    assert group.proposals


def test_news_of_the_partition_repeat_the_wish() -> None:
    group = Group(a="00", b="00").appoint()
    assert [each.partition_epoch for each in group.proposals] == [0]
    group.hosts[A].restore(group.at(A), Mandate(9, group.replicas, 5, A, frozenset({B})))
    assert [each.partition_epoch for each in group.proposals] == [0, 5]


def test_who_forgets_is_asked_again() -> None:
    """It may have told of its log after it had lost records, and before that was known here."""
    group = Group(copies=2, a="00", b="00", c="00").appoint()
    group.silent.add(B)
    group.hosts[A].restore(group.at(A), Mandate(9, group.replicas, 5, A, frozenset({C})))
    group.clock.advance(1000)
    assert [each.partition_epoch for each in group.proposals] == [0]
    group.silent.clear()
    group.clock.advance(1000)
    assert [each.partition_epoch for each in group.proposals] == [0, 5]


def test_whom_it_copies_from_may_forget() -> None:
    """It waits for what B once had, and takes what is left."""
    group = Group(copies=2, a="0", b="0000", c="0")
    group.silent.add(C)
    group.appoint()
    group.at(B).log.truncate_to(2)
    group.silent.clear()
    group.clock.advance(1000)
    assert group.ends() == [2, 2, 1]
    assert group.proposals


def test_a_log_that_became_shorter_is_no_other_history() -> None:
    group = Group(copies=2, a="00", b="0000", c="0")
    group.silent.add(C)
    group.appoint()
    group.at(B).log.truncate_to(1)
    group.silent.clear()
    group.clock.advance(1000)
    assert group.ends() == [2, 1, 1]
    assert group.proposals


@pytest.mark.parametrize(("copies", "needed"), [(0, 1), (1, 2), (2, 2)])
def test_fewer_copies_that_were_enough_before_count(copies: int, needed: int) -> None:
    """Of three copies on three replicas one other is enough; where one or two were, all must be heard."""
    group = Group(copies=3, a="00", b="00", c="00")
    group.silent.add(C)
    for backup in group.replicas[1:]:
        group.at(backup).follow(9, A, group.replicas, 0)
    mandate = Mandate(9, group.replicas, 0, -1, frozenset({B, C}), copies=copies)
    group.hosts[A].restore(group.at(A), mandate._replace(last_leader=A))
    group.clock.advance(1000)
    assert bool(group.proposals) is (needed == 1)
    group.silent.clear()
    group.clock.advance(1000)
    assert group.proposals


def test_the_last_leader_is_enough() -> None:
    """What was acknowledged, it held: one that was put in its place need not wait for anybody else."""
    mandate = Mandate(9, (A, B, C), 0, B, frozenset({B}))
    assert has_heard_enough(mandate, 1, {B})
    assert not has_heard_enough(mandate._replace(sound=frozenset()), 1, {B})


def test_a_primary_that_lost_records_unnoticed_steps_back() -> None:
    """Its backup knows of confirmed ones that it lacks: they must not be cut off."""
    group = Group(a="00", b="0000")
    group.at(B).replica.watermark.offset = 4
    damaged: list[ReplicaDriver] = []
    group.hosts[A].ports = HostPorts(on_damaged=damaged.append)
    group.at(A).lead(9, group.replicas, (A,), 0)
    group.at(B).follow(9, A, group.replicas, 0)
    group.clock.settle()
    group.clock.advance(500)
    assert group.ends() == [2, 4]
    assert (damaged, group.at(A).replica.role) == ([group.at(A)], Role.FOLLOWER)
    assert group.at(A).replica.has_resigned(9)


def test_after_a_forced_leadership_confirmed_records_are_given_up() -> None:
    group = Group(a="00", b="0000")
    group.at(B).replica.watermark.offset = 4
    for each in group.replicas:
        group.at(each).unclean_epoch = 9
    group.at(A).lead(9, group.replicas, (A,), 0)
    group.at(B).follow(9, A, group.replicas, 0)
    group.clock.settle()
    group.clock.advance(500)
    assert group.ends() == [2, 2]


class TestTheLastMemberDecides:
    """Where the controllers choose among members, and none of them is whole any more."""

    @pytest.mark.parametrize(
        ("logs", "kept"),
        [
            ({"a": "00", "b": "0012", "c": "001"}, "0012"),
            ({"a": "0012", "b": "00", "c": ""}, "0012"),
            # Of two that continue its log, the one with the latest epoch, however long the other is.
            ({"a": "00", "b": "00111", "c": "002"}, "002"),
            # What parts from its log was never committed, whatever its epoch.
            ({"a": "0000", "b": "002", "c": "00"}, "0000"),
            ({"a": "002", "b": "0000", "c": "0001"}, "002"),
            ({"a": "0011", "b": "00022", "c": "0002"}, "0011"),
            ({"a": "0000", "b": "002", "c": "00001"}, "00001"),
        ],
    )
    def test_what_continues_its_log_is_copied_before_anybody_leads(
        self, logs: dict[str, Any], kept: str
    ) -> None:
        group = Group(mode="isr", **logs).appoint(forced=True)
        group.clock.advance(2000)
        group.confirm().clock.advance(2000)
        for each in group.replicas:
            log = group.at(each).log
            assert [log.epochs.epoch_at(offset) for offset in range(log.end_offset)] == list(map(int, kept))

    def test_others_are_waited_for_shortly(self) -> None:
        group = Group(mode="isr", a="00", b="001", c="00")
        group.silent.add(B)
        group.appoint(forced=True)
        assert not group.proposals
        group.clock.advance(FORCED_WAIT_MS)
        assert group.confirm().ends()[0] == 2


def test_what_was_copied_is_synced_before_the_primary_counts_as_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group(a="0", b="000")
    primary = group.at(A)
    primary.sync_now()
    primary.replica.limits = primary.replica.limits._replace(durable=True)
    monkeypatch.setattr(group.hosts[A].syncer, "want", lambda driver: None)
    group.appoint()
    assert group.ends() == [3, 3]
    assert not group.proposals
    primary.sync_now()
    primary.synced()
    assert [proposal.members for proposal in group.proposals] == [(A,)]


@pytest.mark.parametrize(
    ("last_leader", "sound", "starts", "deleted"),
    [
        (B, {A, B, C}, {B: 2, C: 0}, 2),
        (B, {A, B, C}, {B: 2, C: 4}, 2),  # The clock of C may be wrong.
        (B, {A, C}, {B: 2, C: 4}, 0),  # B may have forgotten what it deleted.
        (B, {A, B, C, D}, {C: 3, D: 2}, 2),  # As many have deleted as had to.
        (B, {A, B, C, D}, {C: 3}, 0),
        (-1, {A, B, C}, {}, 0),
    ],
)
def test_what_was_deleted_for_good(
    last_leader: int, sound: set[int], starts: dict[int, int], deleted: int
) -> None:
    mandate = Mandate(9, (A, B, C, D), 0, last_leader, frozenset(sound))
    assert deleted_before(mandate, starts) == deleted


def test_who_is_promoted_deletes_what_the_last_leader_has_deleted() -> None:
    group = Group(a="000", b="000")
    group.at(B).log.advance_start(2)
    group.appoint(last_leader=B)
    log, replica = group.at(A).log, group.at(A).replica
    assert (log.start_offset, log.end_offset, replica.high_watermark) == (2, 3, 2)
    assert group.proposals[-1].members == (A,)


def test_also_after_it_has_copied_from_another() -> None:
    group = Group(a="00", b="000", c="00000")
    group.at(B).log.advance_start(3)
    group.appoint(last_leader=B)
    assert (group.at(A).log.start_offset, group.at(A).log.end_offset) == (3, 5)


@pytest.mark.parametrize(("copies", "heard", "low_watermark"), [(2, set(), 2), (3, {B}, 0), (3, {B, C}, 2)])
def test_how_many_must_have_deleted(copies: int, heard: set[int], low_watermark: int) -> None:
    """With two copies a replica cannot lead without hearing this one. With three it can."""
    group = Group(copies, a="000", b="000", c="000").appoint().confirm()
    group.silent = {B, C} - heard
    group.clock.advance(5000)
    group.at(A).deletions.delete_before(2)
    group.clock.advance(500)
    assert group.at(A).deletions.low_watermark == low_watermark
