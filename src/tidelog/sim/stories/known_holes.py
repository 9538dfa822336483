"""Gaps that were known for a while before they were closed."""

from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.telling import expect


def others_hold_more_than_the_last_member() -> SeamStory:
    """min.insync.replicas=1: two members leave, and the last one loses power and the end of its log, which
    both others hold. It asks them before it leads, and copies it back.
    """
    story = SeamStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.power_off("A")
    story.repair_disk("A")
    story.start("ABC")
    story.until(story.all_in_sync, "the return of all")
    story.end()
    expect(story.read(), ["r1", "r2"])
    return story


def last_member_is_alone() -> SeamStory:
    """The last member loses power, and no other replica returns: it waits for them shortly, and then leads
    with what it has.
    """
    story = SeamStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.power_off("A")
    story.repair_disk("A")
    story.start("A")
    story.until(lambda: story.is_led_anew(1) and acting_leader(story.partition()) >= 0, "that A leads")
    story.run(100)
    expect(story.read(), ["r1"])
    expect(story.write(), ErrorCode.NONE)
    story.start("BC")
    story.until(story.all_in_sync, "the return of all")
    return story.end()


def longest_log_was_not_the_last_one() -> SeamStory:
    """All members lose power, and the last one to report it has kept less than another: that one's records
    are copied back.
    """
    story = SeamStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("AC")
    expect(story.write(), ErrorCode.NONE)
    story.run(8000)
    story.power_off("ABC")
    story.repair_disk("A")
    story.repair_disk("C")
    story.start("AB")
    story.run(300)
    story.start("C")
    story.until(story.all_in_sync, "the return of all")
    story.end()
    expect(story.read(), ["r1", "r2"])
    return story


def slow_backup_at_the_end_of_a_move() -> SeamStory:
    """Two copies on three replicas, one of them slow. A reassignment removes one of the two that hold the
    newest record: it leaves once the slow one has the record. Then the primary loses its disk.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.slow_down("A", "B", 3000)
    expect(story.write(), ErrorCode.NONE)
    story.move("AB")
    story.run(500)
    expect(story.has_moved_to("AB"), False)
    story.tell_logs()
    story.heal()
    story.until(lambda: story.has_moved_to("AB"), "the end of the move")
    story.lose_disk("A")
    story.start("A")
    story.until(lambda: story.is_led_anew(1) and story.all_in_sync(), "the return of A")
    expect(story.read(), ["r1", "r2"])
    return story


def disk_is_lost_before_the_end_of_a_move() -> SeamStory:
    """The primary loses its disk while the slow backup still lacks a record, at the end of a move: the
    leaving replica is still there, and gives the record back.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.slow_down("A", "B", 3000)
    expect(story.write(), ErrorCode.NONE)
    story.move("AB")
    story.run(500)
    story.tell_logs()
    story.lose_disk("A")
    story.heal()
    story.start("A")
    story.until(lambda: story.has_moved_to("AB") and story.all_in_sync(), "the end of the move")
    expect(story.read(), ["r1", "r2"])
    return story


def written_during_the_end_of_a_move() -> SeamStory:
    """While a move waits only for the slow backup, a copy on the leaving replica does not count: new writes
    wait for the slow one.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.slow_down("A", "B", 3000)
    expect(story.write(), ErrorCode.NONE)
    story.move("AB")
    story.run(100)
    sent = story.send()
    story.run(500)
    story.tell_logs()
    expect(sent.reply, None)
    story.heal()
    expect(story.await_answer(sent), ErrorCode.NONE)
    story.until(lambda: story.has_moved_to("AB"), "the end of the move")
    story.lose_disk("A")
    story.start("A")
    story.until(lambda: story.is_led_anew(1) and story.all_in_sync(), "the return of A")
    expect(story.read(), ["r1", "r2", "r3"])
    return story


def voter_that_has_not_heard_of_a_deletion() -> SeamStory:
    """Records are deleted while a voter that holds everything committed is disconnected. The deletion is a
    record: the voter is not elected before it has that record, and nothing returns.
    """
    story = SeamStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("C", "AB")
    story.run(3000)
    expect(delete_records(story, 2), ErrorCode.NONE)
    story.tell_logs()
    story.kill("AB")
    story.heal()
    story.start("B")
    story.await_leader()
    story.run(1000)
    story.tell_logs()
    expect([story.driver(letter).log.start_offset for letter in "BC"], [2, 2])
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    return story.end()


def deletion_that_only_its_leader_has() -> SeamStory:
    """A leader that hears no majority cannot delete records, and does not acknowledge the deletion."""
    story = SeamStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BC")
    expect(delete_records(story, 2) is ErrorCode.NONE, False)
    story.heal()
    story.await_leader()
    story.run(3000)
    return story.end()


def _given_up_together(story: SeamStory) -> SeamStory:
    """A and B are in sync; C is not, and is the only one that the controllers still hear."""
    expect(story.write(), ErrorCode.NONE)
    story.cut("C", "AB")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.await_answer(waiting), ErrorCode.NONE)
    return story


def forced_while_members_follow() -> SeamStory:
    """A leader and the only other member are both disconnected from the controllers. An operator forces C to
    lead. That B follows A is not enough: A acknowledges nothing more.
    """
    story = _given_up_together(SeamStory(min_insync_replicas="1"))
    story.cut("AB", "XYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    for _ in range(4):
        expect(story.write(at="A", acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        expect(story.write(at="A"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(300)
    expect(story.write(at="C"), ErrorCode.NONE)
    story.heal()
    return story.end_whole("A and B")


def followed_again_after_a_forced_election() -> SeamStory:
    """A disconnected leader has a pending write that waits for B. When B fetches again, A may have a
    successor: it commits nothing, and the write is refused.
    """
    story = _given_up_together(SeamStory(min_insync_replicas="1"))
    story.cut("A", "BXYZ")
    waiting = story.send()
    story.cut("B", "XYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.elect_unclean()
    story.run(100)
    story.tell("A and B reach each other again")
    for one, other in ("AB", "BA"):
        story.network.mend(*story.nodes(one + other))
    story.run(2000)
    expect(story.await_answer(waiting), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.driver("A").replica.high_watermark, 2)
    story.heal()
    return story.end_whole("A and B")


STORIES = (
    others_hold_more_than_the_last_member,
    last_member_is_alone,
    longest_log_was_not_the_last_one,
    slow_backup_at_the_end_of_a_move,
    disk_is_lost_before_the_end_of_a_move,
    written_during_the_end_of_a_move,
    voter_that_has_not_heard_of_a_deletion,
    deletion_that_only_its_leader_has,
    forced_while_members_follow,
    followed_again_after_a_forced_election,
)
