"""What a backup serves while its primary is down: nothing that was never confirmed."""

from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.primary_backup_group import force, promote
from tidelog.sim.telling import expect


class StandInStory(ChangeStory):
    def run_finely(self, milliseconds: float) -> None:
        self.world.run_until(self.world.now_ms + milliseconds)

    def until_known(self, letter: str, end_offset: int) -> None:
        """Until a replica has the records before an offset, and not a moment longer."""
        for _ in range(2000):
            if self.driver(letter).log.end_offset >= end_offset:
                return
            self.run_finely(0.05)
        expect(self.driver(letter).log.end_offset, end_offset)


def leader_of_another_mode() -> StandInStory:
    """From isr to primary-backup while the leader has a record that no other replica has. The new primary
    dies before the old leader could compare its log: that record is not confirmed, and no reader gets it.
    """
    story = StandInStory()
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() not in "A nobody", "an election")
    old = story.leader()
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.cut(old, "BC".replace(old, "") + "A")
    expect(story.write(acks=1, at=old), ErrorCode.NONE)
    story.change("primary-backup")
    story.until(lambda: story.partition().mode == "primary-backup", "the change")
    story.run(100)
    story.kill("A")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    expect(story.read(at=old), ["r1"])
    story.heal()
    story.start("A")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    expect(story.read(), ["r1", "r3"])
    return story


def forced_promotion() -> StandInStory:
    """An operator promotes a backup and gives up what it lacks. Another, disconnected backup has one of those
    records, which it never knew to be confirmed: when the new primary dies, that backup does not serve it. It
    serves nothing: it has not compared its log, so it does not know what was given up.
    """
    story = StandInStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("C", "AB")
    story.send()
    story.until_known("B", 2)
    story.kill("A")
    story.cut("B", "ACXYZ")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    promote(story, "C")
    force(story)
    story.until(lambda: acting_leader(story.partition()) >= 0, "the new primary")
    story.run(300)
    story.kill("C")
    story.until(lambda: story.leader() == "nobody", "the end of its leadership")
    story.heal()
    story.run(1000)
    expect(story.driver("B").replica.readable_end_offset, 1)
    expect(story.read(at="B"), [])
    story.start("AC")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    expect(story.read(), ["r1", "r3"])
    return story


def given_up_in_another_mode() -> StandInStory:
    """An unclean election in mode isr gives r2 up, which B knows to be committed, and the topic changes to
    primary-backup. B comes back and cannot reach the primary, which stops: B serves no reader what was given
    up. When it has compared its log, it serves what is confirmed now.
    """
    story = StandInStory()
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.kill("AB")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(2000)
    story.start("C")
    story.run(1000)
    story.elect_unclean()
    story.cut("B", "AC")
    story.start("A")
    story.until(lambda: story.in_sync() == "AC", "the return of A")
    story.change("primary-backup")
    story.await_change("primary-backup")
    expect(story.write(), ErrorCode.NONE)
    story.start("B")
    story.run(2000)
    story.kill("AC")
    story.until(lambda: story.leader() == "nobody", "the end of its leadership")
    story.run(1000)
    expect(story.read(at="B"), [])
    story.heal()
    story.start("AC")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    story.run(1000)
    story.kill("AC")
    story.until(lambda: story.leader() == "nobody", "the end of its leadership")
    story.run(1000)
    expect(story.read(at="B"), ["r1", "r3"])
    return story


def agreed_and_confirmed() -> StandInStory:
    """The primary is killed when its backup has a record and does not know yet that it is confirmed. It has
    it from this primary: two copies, so readers get it.
    """
    story = StandInStory(2, replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.send()
    story.until_known("B", 2)
    story.kill("A")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(50)  # until B has heard of it, too
    expect(story.read(at="B"), ["r1", "r2"])
    return story


def restarted() -> StandInStory:
    """The primary is killed when its backup has an unconfirmed record, and the backup is restarted: it no
    longer knows from which leader it had the record, and serves only what it knows to be confirmed.
    """
    story = StandInStory(2, replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(6000)
    story.send()
    story.until_known("B", 2)
    story.kill("AB")
    story.start("B")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(1000)
    expect(story.read(at="B"), ["r1"])
    story.start("A")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of A")
    expect(story.read(), ["r1", "r2"])
    return story


STORIES = (
    leader_of_another_mode,
    forced_promotion,
    given_up_in_another_mode,
    agreed_and_confirmed,
    restarted,
)
