"""From one replication mode to another: every step waits until it is safe, and is one record."""

from uuid import UUID

import pytest

from tidelog.config import BrokerConfig
from tidelog.controller import brokers, configs, leader_assignment, logs, reassignment, topics
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import BrokerRegistered, PartitionChanged, TopicConfigChanged
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import mode_changes
from tidelog.controller.successions.steps import EPOCHS_AHEAD
from tidelog.errors import ErrorCode, InvalidConfig, InvalidRequest, TidelogError
from unit.controller import clusters
from unit.controller.clusters import cluster, created

RULES = Rulebook(BrokerConfig.parse({}))
A, B, C = 1, 2, 3


@pytest.fixture
def image() -> ClusterImage:
    return cluster(A, B, C, records=[created("t", [A, B, C], [B, C, A])])


def wish(image: ClusterImage, mode: str, **more: str) -> ClusterImage:
    return image.apply(configs.change_topic(image, "t", {"replication.mode": mode, **more}, RULES))


def fence(image: ClusterImage, *fenced: int) -> ClusterImage:
    for broker in fenced:
        image = image.apply(clusters.fence(image, broker, RULES.at(image)))
    return image


def unfence(image: ClusterImage, broker: int) -> ClusterImage:
    return image.apply(clusters.unfence(image, broker, RULES.at(image)))


def one(image: ClusterImage, index: int = 0) -> PartitionImage:
    return image.topics["t"].partitions[index]


def propose(
    image: ClusterImage,
    leader: int,
    members: tuple[int, ...],
    epoch: int | None = None,
    *,
    sealed: bool = False,
    member_epochs: tuple[int, ...] = (),
) -> ClusterImage:
    """The leader of partition 0 proposes members; ``sealed``: they hold all of what it ended."""
    partition = one(image)
    asked = InSyncProposal(
        leader,
        image.brokers[leader].broker_epoch,
        image.topics["t"].topic_id,
        0,
        partition.leader_epoch if epoch is None else epoch,
        partition.partition_epoch,
        members,
        member_epochs,
        sealed=sealed,
    )
    return image.apply(leader_assignment.change_in_sync(image, asked, RULES.at(image)).records)


def waits(image: ClusterImage) -> dict[int, str]:
    left = mode_changes.pending(image.topics["t"], BrokerAvailability.of(image))
    return {each.partition: each.waits_for for each in left}


class TestIsrAndPrimaryBackup:
    def test_there_and_back(self, image: ClusterImage) -> None:
        there = wish(image, "primary-backup")
        first, second = there.topics["t"].partitions
        assert (first.mode, first.leader, first.leader_epoch, first.mode_epoch) == ("primary-backup", A, 1, 1)
        assert (second.mode, second.leader, second.in_sync) == ("primary-backup", B, (B, C, A))
        assert waits(there) == {}
        paused = wish(there, "isr")
        assert one(paused).mode == "primary-backup"
        assert waits(paused)[0] == "the primary, which pauses until enough replicas hold its whole log"
        back = one(propose(paused, A, (A, C), sealed=True))
        assert (back.mode, back.leader, back.leader_epoch, back.in_sync) == ("isr", A, 2, (A, C))

    def test_a_replica_that_holds_everything_stays_eligible(self, image: ClusterImage) -> None:
        """Its copy is one of those that the topic requires."""
        after = one(wish(fence(image, C, B), "primary-backup", **{"min.insync.replicas": "2"}))
        assert (after.mode, after.in_sync, after.eligible, after.copies) == ("primary-backup", (A,), (B,), 0)

    def test_only_the_word_of_the_present_primary_counts(self, image: ClusterImage) -> None:
        paused = wish(wish(image, "primary-backup"), "isr")
        for leader, epoch in ((B, 1), (A, 0), (A, 2)):
            with pytest.raises(TidelogError) as refusal:
                propose(paused, leader, (leader,), epoch, sealed=True)
            assert refusal.value.code is ErrorCode.FENCED_LEADER_EPOCH

    def test_a_set_that_was_proposed_before_the_pause_ends_nothing(self, image: ClusterImage) -> None:
        paused = wish(wish(image, "primary-backup"), "isr")
        assert one(propose(paused, A, (A, B))).mode == "primary-backup"

    def test_a_primary_that_is_not_in_sync_is_waited_for(self, image: ClusterImage) -> None:
        away = fence(image, A)
        assert one(away).leader == B
        waiting = wish(away, "primary-backup")
        assert (one(waiting).mode, one(waiting).leader) == ("isr", B)
        assert waits(waiting) == {0: "broker 1, which is to be the primary: it is not in sync"}
        back = unfence(waiting, A)
        assert one(back).mode == "isr"
        done = propose(back, B, (B, C, A))
        assert (one(done).mode, one(done).leader, one(done).leader_epoch) == ("primary-backup", A, 2)

    def test_a_primary_that_is_away_is_waited_for(self, image: ClusterImage) -> None:
        there = fence(wish(image, "primary-backup"), A)
        assert one(there).leader == -1
        waiting = wish(there, "isr")
        assert waits(waiting)[0] == "broker 1, the primary: it may hold records that no other replica has"
        back = unfence(waiting, A)
        assert (one(back).mode, one(back).leader) == ("primary-backup", A)
        assert one(propose(back, A, (A, B), sealed=True)).mode == "isr"

    def test_a_primary_that_copies_back_is_waited_for(self, image: ClusterImage) -> None:
        there = wish(image, "primary-backup")
        again = BrokerRegistered(A, UUID(int=99), "host-1", 9092, broker_epoch=9, fenced=True)
        registered = there.apply(brokers.register(there, again, RULES.at(there), forgot=True, empty=False))
        waiting = wish(unfence(registered, A), "isr")
        assert (one(waiting).mode, one(waiting).leader) == ("primary-backup", A)
        assert "copy back records" in waits(waiting)[0]


class TestIsrToQuorum:
    def test_with_a_majority_in_sync(self, image: ClusterImage) -> None:
        after = one(wish(image, "quorum"))
        assert (after.mode, after.leader_epoch, after.mode_epoch) == ("quorum", 1, 1)
        # The voters elect; who led holds everything and should be the first to stand.
        assert (after.leader, after.last_leader) == (-1, A)

    def test_a_minority_is_waited_out(self, image: ClusterImage) -> None:
        """One member alone may hold what was committed, and two who lack it could elect each other."""
        alone = fence(image, B, C)
        waiting = wish(alone, "quorum")
        assert [each.mode for each in waiting.topics["t"].partitions] == ["isr", "isr"]
        assert waits(waiting)[0] == "a majority in sync: 1 of 3 replicas are, 2 must be"
        both = propose(unfence(waiting, B), A, (A, B))
        assert one(both).mode == "quorum"
        # It was behind, and has lost nothing.
        assert [(each.replica, each.late) for each in one(both).losses] == [(C, True)]

    def test_the_rules_are_checked_first(self, image: ClusterImage) -> None:
        with pytest.raises(InvalidConfig, match=r"min\.insync\.replicas has no meaning in mode quorum"):
            wish(image, "quorum", **{"min.insync.replicas": "2"})
        small = cluster(A, B, records=[created("t", [A, B])])
        with pytest.raises(InvalidConfig, match="refused for 2 replicas"):
            wish(small, "quorum")


class TestQuorumToIsr:
    @pytest.fixture
    def voted(self, image: ClusterImage) -> ClusterImage:
        return wish(image, "quorum")

    def test_nothing_happens_before_the_log_is_sealed(self, voted: ClusterImage) -> None:
        waiting = wish(voted, "isr")
        assert one(waiting).mode == "quorum"
        assert "seal" in waits(waiting)[0]
        assert [*leader_assignment.assign_leaders(waiting, RULES.at(waiting))] == []

    def test_the_holders_of_the_seal_are_the_members(self, voted: ClusterImage) -> None:
        after = one(propose(wish(voted, "isr"), B, (B, C), epoch=7, sealed=True))
        assert (after.mode, after.leader, after.in_sync) == ("isr", B, (B, C))
        assert after.leader_epoch == after.mode_epoch == 7 + EPOCHS_AHEAD

    def test_a_holder_that_is_fenced_is_no_member(self, voted: ClusterImage) -> None:
        waiting = fence(wish(voted, "isr"), C)
        after = one(propose(waiting, B, (B, C), epoch=7, sealed=True))
        assert (after.in_sync, after.eligible) == ((B,), ())

    def test_it_is_eligible_if_no_other_process_has_registered_for_it(self, voted: ClusterImage) -> None:
        """Nothing is committed before there are two members again, and it holds everything before."""
        waiting = fence(wish(voted, "isr"), C)
        epochs = tuple(waiting.brokers[each].broker_epoch for each in (B, C))
        after = one(propose(waiting, B, (B, C), epoch=7, sealed=True, member_epochs=epochs))
        assert (after.mode, after.leader, after.in_sync, after.eligible) == ("isr", B, (B,), (C,))
        others = epochs[0], epochs[1] + 1
        after = one(propose(waiting, B, (B, C), epoch=7, sealed=True, member_epochs=others))
        assert (after.in_sync, after.eligible) == ((B,), ())

    def test_a_fenced_holder_whose_log_has_failed_is_not_eligible(self, voted: ClusterImage) -> None:
        waiting = wish(voted, "isr")
        key, epoch = [(waiting.topics["t"].topic_id, 0)], waiting.brokers[C].broker_epoch
        failed = fence(waiting.apply(logs.take_offline(waiting, C, epoch, key, RULES.at(waiting))), C)
        epochs = tuple(failed.brokers[each].broker_epoch for each in (B, C))
        after = one(propose(failed, B, (B, C), epoch=7, sealed=True, member_epochs=epochs))
        assert (after.in_sync, after.eligible) == ((B,), ())

    @pytest.mark.parametrize("damaged", [B, C])
    def test_who_lost_records_since_is_no_member(self, voted: ClusterImage, damaged: int) -> None:
        waiting = wish(voted, "isr")
        for report in (logs.take_offline, logs.bring_online):
            key, epoch = [(waiting.topics["t"].topic_id, 0)], waiting.brokers[damaged].broker_epoch
            waiting = waiting.apply(report(waiting, damaged, epoch, key, RULES.at(waiting)))
        after = one(propose(waiting, B, (B, C), epoch=7, sealed=True))
        assert (after.mode, after.in_sync) == (("quorum", (A, C)) if damaged == B else ("isr", (B,)))

    def test_a_fenced_leader_is_not_believed(self, voted: ClusterImage) -> None:
        with pytest.raises(TidelogError) as refusal:
            propose(fence(wish(voted, "isr"), B), B, (B, C), epoch=7, sealed=True)
        assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH

    def test_the_seal_of_an_earlier_time_is_refused(self, voted: ClusterImage) -> None:
        back = wish(propose(wish(voted, "isr"), B, (B, C), epoch=7, sealed=True), "quorum")
        assert one(back).mode_epoch == 7 + EPOCHS_AHEAD + 1
        with pytest.raises(TidelogError) as refusal:
            propose(wish(back, "isr"), A, (A,), epoch=8, sealed=True)
        assert refusal.value.code is ErrorCode.FENCED_LEADER_EPOCH

    def test_a_wish_that_is_taken_back_still_ends_the_sealed_log(self, voted: ClusterImage) -> None:
        again = wish(wish(voted, "isr"), "quorum")
        after = one(propose(again, B, (B, C), epoch=7, sealed=True))
        # Its voters take records again because the seal is older than this time of votes.
        assert (after.mode, after.leader, after.mode_epoch) == ("quorum", -1, 7 + EPOCHS_AHEAD + 1)

    def test_voters_that_were_further_are_overtaken(self, voted: ClusterImage) -> None:
        """Who has not heard of the change may have elected somebody, in an epoch above the appointed one."""
        appointed = propose(wish(voted, "isr"), B, (B, C), epoch=7, sealed=True)
        topic_id, epoch = appointed.topics["t"].topic_id, appointed.brokers[C].broker_epoch
        late = InSyncProposal(C, epoch, topic_id, 0, 5000, -1, (A, B, C), elected=True)
        after = one(
            appointed.apply(leader_assignment.change_in_sync(appointed, late, RULES.at(appointed)).records)
        )
        assert (after.mode, after.leader, after.leader_epoch) == ("isr", B, 5000 + EPOCHS_AHEAD)
        epoch_only = late._replace(members=())
        records = leader_assignment.change_in_sync(appointed, epoch_only, RULES.at(appointed)).records
        assert one(appointed.apply(records)) == after
        with pytest.raises(TidelogError) as refusal:
            leader_assignment.change_in_sync(appointed, late._replace(leader_epoch=8), RULES.at(appointed))
        assert refusal.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_copy_of_an_accepted_proposal_is_not_refused_for_good(image: ClusterImage) -> None:
    """Its leader does not know yet that the proposal was accepted, nor that the replicas vote now. It may
    learn that the partition has changed, but must not continue without the new member.
    """
    before = propose(image, A, (A, B))
    known = one(before)
    copy = InSyncProposal(
        A,
        before.brokers[A].broker_epoch,
        before.topics["t"].topic_id,
        0,
        known.leader_epoch,
        known.partition_epoch,
        (A, B, C),
    )
    voted = wish(propose(before, A, (A, B, C)), "quorum")
    assert one(voted).mode == "quorum"
    with pytest.raises(TidelogError) as refusal:
        leader_assignment.change_in_sync(voted, copy, RULES.at(voted))
    assert refusal.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_between_the_outer_modes_it_is_two_steps(image: ClusterImage) -> None:
    there = wish(image, "primary-backup")
    alone = propose(wish(there, "quorum"), A, (A,), sealed=True)
    assert (one(alone).mode, one(alone).in_sync) == ("isr", (A,))
    assert waits(alone)[0] == "a majority in sync: 1 of 3 replicas are, 2 must be"
    assert one(propose(alone, A, (A, B))).mode == "quorum"


def test_both_steps_are_one_record_when_nothing_has_to_be_waited_for(image: ClusterImage) -> None:
    there = wish(image, "primary-backup")
    after = one(propose(wish(there, "quorum"), A, (A, B), sealed=True))
    assert (after.mode, after.leader, after.leader_epoch, after.mode_epoch) == ("quorum", -1, 3, 3)


def test_a_change_is_one_batch_with_its_wish(image: ClusterImage) -> None:
    records = configs.change_topic(image, "t", {"replication.mode": "primary-backup"}, RULES)
    assert [type(each) for each in records] == [TopicConfigChanged, PartitionChanged, PartitionChanged]


def test_not_during_a_reassignment_and_no_reassignment_during_it(image: ClusterImage) -> None:
    four = image.apply([BrokerRegistered(4, UUID(int=4), "host-4", 9092)])
    moving = four.apply(reassignment.begin(four, "t", 0, [A, B, 4], RULES.at(four)))
    with pytest.raises(InvalidRequest, match=r"during a reassignment \(partitions 0\)"):
        wish(moving, "quorum")
    changing = wish(fence(four, B, C), "quorum")
    with pytest.raises(InvalidRequest, match="is changing to quorum"):
        reassignment.begin(changing, "t", 0, [A, B, 4], RULES.at(changing))


def test_only_where_there_is_a_safe_step(image: ClusterImage, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {way: step for way, step in mode_changes.STEPS.items() if way != ("isr", "quorum")}
    monkeypatch.setattr(mode_changes, "STEPS", steps)
    with pytest.raises(InvalidRequest, match="no safe step from mode isr to mode quorum"):
        wish(image, "quorum")
    assert one(wish(image, "primary-backup")).mode == "primary-backup"


def test_what_coordinators_keep_stays_as_it_is(image: ClusterImage) -> None:
    inner = image.apply([created("__consumer_offsets", [A, B, C], number=2)])
    with pytest.raises(InvalidConfig, match="replication mode is always isr"):
        configs.change_topic(inner, "__consumer_offsets", {"replication.mode": "quorum"}, RULES)


def test_new_partitions_begin_in_the_wanted_mode(image: ClusterImage) -> None:
    changing = wish(fence(image, B, C), "quorum")
    grown = changing.apply([topics.add_partitions(changing, "t", 3, None)])
    assert [each.mode for each in grown.topics["t"].partitions] == ["isr", "isr", "quorum"]


def test_a_broker_s_default_changes_no_topic(image: ClusterImage) -> None:
    records = configs.change_broker(image, "", {"default.replication.mode": "quorum"}, RULES)
    after = image.apply(records)
    assert [each.mode for each in after.topics["t"].partitions] == ["isr", "isr"]
    assert [*leader_assignment.assign_leaders(after, RULES.at(after))] == []
