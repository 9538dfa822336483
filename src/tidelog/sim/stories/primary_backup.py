"""Mode ``primary-backup`` with two copies, the synchronous double write: an acknowledgement means that the
primary and a backup have the record.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.primary_backup_group import (
    both_killed,
    controllers_killed,
    disk_full,
    frozen,
    group,
    is_back,
    is_missed,
    is_whole,
)
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def double_primary_killed() -> Story:
    """1. The primary is killed: as with one copy, and the backup has every acknowledged record."""
    story = group(2)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.read(at="B"), ["r1"])
    story.start("A")
    story.until(lambda: is_whole(story), "the return of A")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def double_backup_killed() -> Story:
    """2 and 3. The backup is killed: pending writes fail for lack of copies, later ones are refused before
    anything is written; reads continue.
    """
    story = group(2)
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    waiting = story.send()
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    expect(story.await_answer(waiting), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    expect(story.write(), ErrorCode.NOT_ENOUGH_REPLICAS)
    expect(story.read(), ["r1"])
    story.start("B")
    story.until(lambda: is_whole(story), "the return of B")
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def double_one_of_two_backups_killed() -> Story:
    """2. One of two backups is killed: writes continue."""
    story = Story(3, replication_mode="primary-backup", min_insync_replicas="2")
    story.kill("B")
    expect(story.write(), ErrorCode.NONE)
    story.run(2000)
    expect(story.write(), ErrorCode.NONE)
    return story


def double_both_killed() -> Story:
    """4 and 6. Both are killed: as with one copy."""
    return both_killed(group(2))


def double_primary_frozen() -> Story:
    """7. The primary is frozen for 30 s: as with one copy."""
    return frozen(group(2))


def double_primary_cut_off_with_a_client() -> Story:
    """8. The primary is disconnected from all but a client: it acknowledges nothing."""
    story = group(2)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.cut("A", "BXYZ")
    waiting = story.send(at="A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    expect(story.read(at="B"), ["r1"])
    expect(story.await_answer(waiting, 1000), None)
    story.heal()
    story.until(lambda: is_whole(story), "the return of A")
    story.await_answer(waiting)
    return story.end()


def double_primary_loses_power() -> Story:
    """9. The primary loses power and its unsynced records: the backup is ahead of it on the same history, so
    it first copies them back. Nothing is lost.
    """
    story = group(2)
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
        story.run(700)
    story.power_off("A")
    story.run(200)
    story.start("A")
    story.until(lambda: is_back(story), "the return of A")
    expect(story.read(), ["r1", "r2", "r3"])
    story.tell_logs()
    return story


def double_primary_loses_its_disk() -> Story:
    """10. The primary returns with an empty disk: it copies all records back from the backup, then leads."""
    story = group(2)
    for _ in range(2):
        expect(story.write(), ErrorCode.NONE)
    story.lose_disk("A")
    story.start("A")
    story.until(lambda: is_back(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    expect(story.read(), ["r1", "r2", "r3"])
    story.tell_logs()
    return story


def double_backup_slow() -> Story:
    """11. A slow backup: each write waits for it."""
    story = group(2)
    story.slow_down("A", "B", 250)
    waiting = story.send()
    expect(story.await_answer(waiting, 400), None)
    expect(story.await_answer(waiting, 2000), ErrorCode.NONE)
    return story


def double_degrades() -> Story:
    """11. The backup is down, and the topic allows fewer copies after a second: from then on one is enough,
    until the backup has caught up.
    """
    story = group(2, replication_degrade_after_ms="1000")
    story.kill("B")
    story.until(lambda: story.in_sync() == "A", "the departure of B")
    expect(story.write(), ErrorCode.NOT_ENOUGH_REPLICAS)
    story.run(1500)
    expect(story.write(), ErrorCode.NONE)
    story.start("B")
    story.until(lambda: is_whole(story), "the return of B")
    story.run(500)
    story.kill("B")
    waiting = story.send()
    expect(story.await_answer(waiting), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return story


def double_disk_full() -> Story:
    """12. The primary's disk is full: as with one copy."""
    return disk_full(group(2))


def double_flipped_bit() -> Story:
    """13. A bit flips in an old segment of the primary: as with one copy."""
    return group(2, segment_bytes="300").be_damaged()


def double_controllers_killed() -> Story:
    """14 and 15. The active controller is killed, then a majority of them: no effect."""
    return controllers_killed(group(2))


def double_retry_of_an_idempotent_producer() -> Story:
    """16. The backup does not respond in time, and the producer gets an error and retries: its record is
    there once.
    """
    story = group(2)
    story.cut("A", "B")
    first = story.send(idempotent=True)
    story.kill("B")
    expect(story.await_answer(first), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    story.heal()
    story.start("B")
    story.until(lambda: is_whole(story), "the return of B")
    story.run(50)  # A hears of it, too.
    expect(story.await_answer(story.send_again(first)), ErrorCode.NONE)
    expect(story.read(), ["r1"])
    return story


STORIES = (
    double_primary_killed,
    double_backup_killed,
    double_one_of_two_backups_killed,
    double_both_killed,
    double_primary_frozen,
    double_primary_cut_off_with_a_client,
    double_primary_loses_power,
    double_primary_loses_its_disk,
    double_backup_slow,
    double_degrades,
    double_disk_full,
    double_flipped_bit,
    double_controllers_killed,
    double_retry_of_an_idempotent_producer,
)
