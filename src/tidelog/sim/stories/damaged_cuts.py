"""Damage that was not read yet, found by a truncation: the producers' state is restored from the rest of the
log.
"""

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
SEGMENT = "400"  # bytes: five batches


def _misdirect(story: Story, letter: str) -> None:
    """The third batch is written in the place of the second one, while the process is dead."""
    machine = story.machine(letter)
    path, content = story.segments(letter)[0]
    (_, before), (target, _), (source, moved) = list(iterate(content))[:3]
    story.tell(f"on the disk of {letter} the third batch lies in the place of the second one")
    machine.disk.misdirect((path, source), (path, target), moved.size)
    place = Place(story.cluster.checker.metadata.newest.topics[TOPIC], 0)
    for at, what in ((target, content[source : source + moved.size]), (source, bytes(moved.size))):
        damage = Damage(machine.node_id, place.key, machine.disk, path, at, before.base_offset, what)
        story.cluster.checker.damaged(place, damage)


def isr_found_by_a_cut() -> Story:
    """A disconnected leader has unreplicated records, some of them in a new segment, and is killed. Its disk
    misplaces a batch in the old segment, which a start does not read. When it follows and truncates its tail,
    it reads the rest to restore its producers and finds the damage: it reports it, truncates there and
    fetches the records again.
    """
    story = Story(segment_bytes=SEGMENT, flush_messages="1")
    for _ in range(4):
        expect(story.write(idempotent=True), ErrorCode.NONE)
    story.cut("A", "BCXYZ")
    for _ in range(4):
        story.send(idempotent=True)
        story.run(50)
    expect(len(story.segments("A")), 2)
    story.run(CHECKPOINTED_MS)
    story.tell_logs()
    story.kill("A")
    story.heal()
    _misdirect(story, "A")
    story.start("A")
    story.until(lambda: story.is_led_anew(1) and story.all_in_sync(), "the repair of A", 5000)
    return story.end()


STORIES = (isr_found_by_a_cut,)
