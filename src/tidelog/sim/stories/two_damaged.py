"""The primary and a backup are damaged and do not know it. What is acknowledged then is on damaged logs only:
both drop it with the damage.
"""

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.batches import entries
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.stories.primary_backup_group import is_back, is_whole
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
OLD_SEGMENT = "300"  # bytes: a few batches
RECORDS = 10  # three segments
HEAD_START_MS = 3  # If the controllers heard of B's damage first, B would copy from A what A drops later.
FIRST_KEPT = 6  # after the first record of the second segment, which is damaged


def _acknowledged_on_damaged_logs(*, deleted_before: int = 0) -> Story:
    """A and B are damaged, and only they have the last record."""
    story = Story(
        3, replication_mode="primary-backup", min_insync_replicas="2", segment_bytes=OLD_SEGMENT
    )  # fmt: skip
    for _ in range(RECORDS):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("AB")
    story.flip_bit("A", segment=1)
    story.flip_bit("B")
    story.start("AB")
    story.until(lambda: is_back(story), "the return of A and B")
    story.run(100)
    if deleted_before:
        expect(delete_records(story, deleted_before), ErrorCode.NONE)
        story.run(1000)
    story.cut("C", "AB")
    expect(story.write(), ErrorCode.NONE)
    story.tell_logs()
    return story


def _read_back(story: Story, letter: str, segment: int) -> None:
    """The scrubber finds the first batch of the segment."""
    story.tell(f"{letter} reads its old segments back")
    _, first = next(iterate(story.segments(letter)[segment][1]))
    story.driver(letter).damage.found(first.base_offset, "the CRC does not match")


def _read_from(story: Story, offset: int) -> list[str]:
    found: list[str] = []
    while batch := list(entries(story.read_at(story.leader(), offset + len(found)).records)):
        found += [entry.value.decode() for entry in batch]
    story.tell(f"read at {story.leader()} from {offset} on: {' '.join(found)}")
    return found


def _drop_one_after_the_other(story: Story) -> None:
    epoch = story.partition().leader_epoch
    _read_back(story, "A", 1)
    story.run(1000)
    story.heal()
    story.until(lambda: story.is_led_anew(epoch) and is_whole(story), "the repair of A")
    epoch = story.partition().leader_epoch
    _read_back(story, "B", 0)
    story.until(lambda: story.is_led_anew(epoch) and is_whole(story), "the repair of B")


def double_both_drop_a_record() -> Story:
    """The primary and a backup have damaged old records. They acknowledge a record that the other backup does
    not get. Both find the damage at the same time and drop it with everything after it: the record is lost,
    and the primary restores what the other backup has.
    """
    story = _acknowledged_on_damaged_logs()
    _read_back(story, "A", 1)
    _read_back(story, "B", 0)
    story.run(1000)
    story.heal()
    story.until(lambda: is_whole(story), "the repair")
    expect(story.read(), [f"r{number}" for number in range(1, RECORDS + 1)])
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def double_dropped_one_after_the_other() -> Story:
    """The same, but the backup finds its damage when the primary has restored its log: nothing is lost."""
    story = _acknowledged_on_damaged_logs()
    _drop_one_after_the_other(story)
    expect(story.read(), [f"r{number}" for number in range(1, RECORDS + 2)])
    return story.end()


def double_both_drop_deleted_records() -> Story:
    """The same as with damaged records that both drop, but an administrator has deleted the damaged records
    before they are found. They are still in the files. Both drop them with everything after them, and begin
    again at the log start: the record that only they had is lost, and no other.
    """
    story = _acknowledged_on_damaged_logs(deleted_before=FIRST_KEPT)
    _read_back(story, "A", 1)
    story.run(HEAD_START_MS)
    _read_back(story, "B", 0)
    story.run(1000)
    story.heal()
    story.until(lambda: is_whole(story), "the repair")
    expect(_read_from(story, FIRST_KEPT), [f"r{number}" for number in range(FIRST_KEPT + 1, RECORDS + 1)])
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def double_deleted_records_dropped_one_after_the_other() -> Story:
    """The same, but the backup finds its damage when the primary has restored its log: nothing is lost."""
    story = _acknowledged_on_damaged_logs(deleted_before=FIRST_KEPT)
    _drop_one_after_the_other(story)
    expect(_read_from(story, FIRST_KEPT), [f"r{number}" for number in range(FIRST_KEPT + 1, RECORDS + 2)])
    return story.end()


STORIES = (
    double_both_drop_a_record,
    double_dropped_one_after_the_other,
    double_both_drop_deleted_records,
    double_deleted_records_dropped_one_after_the_other,
)
