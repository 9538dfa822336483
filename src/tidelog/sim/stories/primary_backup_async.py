"""Mode ``primary-backup`` with one copy: an acknowledgement means that the primary has the record."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.primary_backup_group import (
    both_killed,
    controllers_killed,
    disk_full,
    force,
    frozen,
    group,
    is_back,
    is_missed,
    is_whole,
    promote,
    serves,
)
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def async_primary_killed() -> Story:
    """1. The primary is killed: no writes until it is back. Readers use the backup as far as that got; what
    it lacks is on the primary's disk.
    """
    story = group(1)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.write(at="B"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    expect(story.read(at="B"), ["r1"])
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r2", "r4"])
    expect(story.read(at="B"), [])  # Readers have gone back.
    story.tell_logs()
    return story


def async_backup_killed() -> Story:
    """2 and 3. The backup is killed: writes continue, and it catches up later."""
    story = group(1)
    story.kill("B")
    expect(story.write(), ErrorCode.NONE)
    story.start("B")
    story.until(lambda: is_whole(story), "the return of B")
    return story.end()


def async_both_killed() -> Story:
    """4 and 6. Both are killed: no reads or writes. The backup returns first and serves readers only; with
    the primary all records are back.
    """
    return both_killed(group(1))


def async_primary_frozen() -> Story:
    """7. The primary is frozen for 30 s: its pending writes are acknowledged when it resumes, and readers use
    the backup meanwhile.
    """
    return frozen(group(1))


def async_primary_cut_off_with_a_client() -> Story:
    """8. The primary is disconnected from all but a client: it continues to acknowledge, and the backup
    serves the readers on its side as far as it got.
    """
    story = group(1)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BXYZ")
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.write(at="A"), ErrorCode.NONE)
    expect(story.read(at="A"), ["r1", "r2"])
    expect(story.read(at="B"), ["r1"])
    story.heal()
    story.until(lambda: is_whole(story), "the return of A")
    story.run(500)
    expect(story.read(), ["r1", "r2"])
    story.tell_logs()
    return story


def async_primary_loses_power() -> Story:
    """9. The primary loses power and its unsynced records: those that the backup has come back, the rest is
    lost, although it was acknowledged.
    """
    story = group(1)
    for _ in range(2):
        expect(story.write(), ErrorCode.NONE)
        story.run(700)
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.power_off("A")
    story.run(5000)
    story.heal()
    story.start("A")
    story.until(lambda: is_back(story), "the return of A")
    expect(story.read(), ["r1", "r2"])
    return story


def async_primary_loses_power_flushed() -> Story:
    """9. The primary loses power, flush.messages=1: an acknowledgement means synced, so nothing is lost."""
    story = group(1, flush_messages="1")
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.power_off("A")
    story.run(5000)
    story.heal()
    story.start("A")
    story.until(lambda: is_back(story), "the return of A")
    expect(story.read(), ["r1"])
    return story


def async_primary_loses_its_disk() -> Story:
    """10. The primary returns with an empty disk: what the backup lacks is lost, and its amount is unknown.
    It does not lead, and the backup keeps what it has, until an operator promotes it.
    """
    story = _lost_disk(group(1))
    promote(story, "B")
    story.run(3000)
    expect(serves(story), False)  # That alone gives nothing up.
    force(story)
    story.until(lambda: is_whole(story), "the promotion of B")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r3"])
    story.tell_logs()
    return story


def async_primary_loses_its_disk_and_goes_on() -> Story:
    """10. The primary returns with an empty disk, and the operator accepts the loss: the primary copies what
    the backup has, and leads.
    """
    story = _lost_disk(group(1))
    force(story)
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r3"])
    story.tell_logs()
    return story


def _lost_disk(story: Story) -> Story:
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("A")
    story.heal()
    story.start("A")
    story.run(5000)
    expect(serves(story), False)
    expect(story.read(at="B"), ["r1"])
    story.tell_logs()
    return story


def async_backup_slow() -> Story:
    """11. A slow backup: writes do not wait for it."""
    story = group(1)
    story.slow_down("A", "B", 4000)
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1"])
    return story


def async_disk_full() -> Story:
    """12. The primary's disk is full: writes are refused, and readers use the backup."""
    return disk_full(group(1))


def async_flipped_bit() -> Story:
    """13. A bit flips in an old segment of the primary: it never reaches a consumer, and the primary copies
    the records back from the backup before it continues.
    """
    return group(1, segment_bytes="300").be_damaged()


def async_controllers_killed() -> Story:
    """14 and 15. The active controller is killed, then a majority of them: no effect."""
    return controllers_killed(group(1))


def async_promoted_while_the_primary_is_away() -> Story:
    """9 and 10. Divergence: the backup was promoted and has written, and the old primary returns with a
    record that only it had. It truncates that record by its leader epoch.
    """
    story = group(1)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.until(lambda: is_missed(story), "the end of the leadership")
    promote(story, "B")
    force(story)
    story.until(lambda: serves(story), "the promotion of B")
    expect(story.write(), ErrorCode.NONE)
    story.tell_logs()
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    return story.end()


def async_promoted_by_plan() -> Story:
    """A backup is promoted while the primary is up: it first copies the newest records, and nothing is lost,
    although one copy was enough for an acknowledgement.
    """
    story = group(1)
    story.slow_down("A", "B", 300)
    waiting = [story.send() for _ in range(3)]
    promote(story, "B")
    for each in waiting:
        expect(story.await_answer(each), ErrorCode.NONE)
    story.until(lambda: is_whole(story) and story.leader() == "B", "the promotion of B")
    story.run(1000)
    expect(story.read(), ["r1", "r2", "r3"])
    story.tell_logs()
    return story


STORIES = (
    async_primary_killed,
    async_backup_killed,
    async_both_killed,
    async_primary_frozen,
    async_primary_cut_off_with_a_client,
    async_primary_loses_power,
    async_primary_loses_power_flushed,
    async_primary_loses_its_disk,
    async_primary_loses_its_disk_and_goes_on,
    async_backup_slow,
    async_disk_full,
    async_flipped_bit,
    async_controllers_killed,
    async_promoted_while_the_primary_is_away,
    async_promoted_by_plan,
)
