"""Writes that a disk puts in the place of others, where the end of the file cuts them off: what is left looks
like a write that a kill interrupted, but it was written for another place.
"""

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.stories.primary_backup_group import group, is_back, is_missed
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
ELSEWHERE = 40  # the offset of the misplaced batch, in another partition


def _misplace(story: Story, letter: str) -> None:
    """A larger batch of another partition is written in the place of the newest one, while the process is
    dead.
    """
    machine = story.machine(letter)
    path, content = story.segments(letter)[-1]
    (_, before), (position, newest) = list(iterate(content))[-2:]
    other = encode_batch([Record(0, int(story.world.now_ms), None, bytes(newest.size), ())])
    planted = (ELSEWHERE.to_bytes(8, "big") + bytes(other[8:]))[: newest.size]
    story.tell(f"on the disk of {letter} a larger batch of another partition lies in the place of the newest")
    machine.disk.overwrite(path, position, planted)
    machine.decayed = True
    place = Place(story.cluster.checker.metadata.newest.topics[TOPIC], 0)
    damage = Damage(
        machine.node_id, place.key, machine.disk, path, position, before.base_offset, planted
    )  # fmt: skip
    story.cluster.checker.damaged(place, damage)


def double_cut_off_by_the_end_of_the_file() -> Story:
    """The primary is killed after an acknowledgement. Its disk has put a larger batch of another partition in
    the place of the acknowledged one, and the file ends inside it. The primary sees by the offset that no
    kill has interrupted this write: it reports the damage, and copies the record back before it leads.
    """
    story = group(2)
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    _misplace(story, "A")
    story.until(lambda: is_missed(story), "the end of the leadership")
    story.start("A")
    story.until(lambda: is_back(story), "the return of A")
    expect(story.read(), ["r1", "r2", "r3", "r4"])
    expect(story.write(), ErrorCode.NONE)
    return story.end()


STORIES = (double_cut_off_by_the_end_of_the_file,)
