"""Deleted records and replicas that may lead next without having heard of the deletion: mode ``isr``, three
replicas, ``min.insync.replicas=2``.
"""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

AT_ONCE_MS = 0.05  # less than a message takes


def eligible_replica_has_not_deleted() -> Story:
    """C has left the in-sync set below the minimum, so it may still lead. A deletion of which it has not
    heard is not acknowledged.
    """
    story = _with_eligible_c()
    expect(delete_records(story, 2), ErrorCode.REQUEST_TIMED_OUT)
    story.kill("A")
    story.start("C")
    story.until(lambda: story.leader() == "C", "another leader")
    expect(story.driver("C").log.start_offset, 0)
    story.start("AB")
    return story.end_whole("A and B")


def deletion_without_a_replica_that_cannot_lead() -> Story:
    """C is in the in-sync set again, so neither it nor B is eligible. A deletion waits for C, and not for B,
    which cannot lead before it has caught up.
    """
    story = _with_eligible_c()
    story.start("C")
    story.until(lambda: story.in_sync() == "AC", "the return of C")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() == "C", "another leader")
    expect(story.driver("C").log.start_offset, 2)
    story.start("AB")
    return story.end_whole("A and B")


def follower_deletes_before_it_joins() -> Story:
    """C was down when records were deleted, and has all others when it is back. It hears nothing of A, which
    hears its fetches: it does not join the in-sync set before it has deleted the records, too.
    """
    story = Story()
    _fill(story)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.tell("C hears nothing of A any more")
    story.network.cut(*story.nodes("AC"))
    story.start("C")
    story.run(2000)
    story.tell_logs()
    expect(story.in_sync(), "AB")
    story.heal()
    story.until(story.all_in_sync, "the return of C")
    story.kill("AB")
    story.until(lambda: story.leader() == "C", "another leader")
    expect(story.driver("C").log.start_offset, 2)
    story.start("AB")
    return story.end_whole("A and B")


def backup_deletes_before_another_mode() -> Story:
    """The same in mode ``primary-backup``, while the topic changes to ``isr``, where C could lead."""
    story = ChangeStory(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.tell("C hears nothing of A any more")
    story.network.cut(*story.nodes("AC"))
    story.start("C")
    story.run(2000)
    story.tell_logs()
    story.change("isr")
    story.await_change("isr")
    expect(story.in_sync(), "AB")
    story.heal()
    return story.end_whole("C")


def primary_that_is_no_leader_any_more() -> ChangeStory:
    """The topic changes to ``isr``. A has paused for that and is cut off before it hears of the change, and B
    leads next. A refuses to delete records: they would be back with B.
    """
    story = ChangeStory(replication_mode="primary-backup", min_insync_replicas="2")
    _fill(story)
    story.change("isr")
    while story.partition().mode != "isr":
        story.world.run_until(story.world.now_ms + AT_ONCE_MS)
    story.cut("A", "BCXYZ")
    story.until(lambda: story.leader() == "B", "another leader")
    expect(delete_records(story, 2, at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(), ["r1", "r2", "r3"])
    story.heal()
    return story.end_whole("A")


def deletion_of_expired_records() -> Story:
    """All records have expired, and nothing is written any more. Followers tell their leader that they begin
    later, too, so a deletion of records that have expired is acknowledged.
    """
    story = _RetentionStory(retention_ms="2000")
    _fill(story)
    story.until(lambda: story.driver("A").log.start_offset == 3, "the end of the records' time")
    story.tell_logs()
    expect(delete_records(story, 2), ErrorCode.NONE)
    return story.end()


class _RetentionStory(Story):
    """The brokers look for expired records now and then."""

    def _found(self, settings: dict[str, str]) -> None:
        self.cluster.chores |= {"retention"}
        super()._found(settings)


def _fill(story: Story) -> None:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(500)


def _with_eligible_c() -> Story:
    story = Story()
    _fill(story)
    story.kill("B")
    story.until(lambda: story.in_sync() == "AC", "the departure of B")
    story.kill("C")
    story.until(lambda: story.in_sync() == "A", "the departure of C")
    return story


STORIES: list[Callable[[], Story]] = [
    eligible_replica_has_not_deleted,
    deletion_without_a_replica_that_cannot_lead,
    follower_deletes_before_it_joins,
    backup_deletes_before_another_mode,
    deletion_of_expired_records,
    primary_that_is_no_leader_any_more,
]
