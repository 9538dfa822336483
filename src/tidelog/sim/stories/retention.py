"""What retention may delete while records are damaged."""

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

BEHIND_MS = 60_000
RETENTION_MS = 5000
CHECKPOINTED_MS = 3500


def isr_age_of_damaged_segment() -> Story:
    """The clocks of the brokers are a minute behind that of the producer, and the leader's disk has lost a
    write: the leader does not know how old the records of that segment are. It does not delete them by the
    age of its file, which the others would follow, and fetches the lost record again.
    """
    story = Story(segment_bytes="400", retention_ms=str(RETENTION_MS))
    story.tell("the clocks of all brokers are set back by a minute")
    for letter in "ABC":
        story.machine(letter).clock.jumped_ms = -BEHIND_MS
    for _ in range(8):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("A")
    story.until(lambda: story.leader() not in ("A", "nobody"), "the election")
    _lose_second(story, "A")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.run(RETENTION_MS)
    story.tell("A looks for segments that have expired")
    driver, services = story.driver("A"), story.machine("A").services
    now_ms = services.now_ms() if services is not None else 0
    deleted = driver.log.enforce_retention(now_ms, driver.replica.high_watermark)
    story.tell(f"  deletes {len(deleted)}")
    story.run(500)
    story.read()
    story.until(lambda: story.leader() not in ("A", "nobody"), "the next leader")
    story.until(story.all_in_sync, "the repair of A")
    expect(story.read(), [f"r{number}" for number in range(1, 9)])
    return story.end()


def _lose_second(story: Story, letter: str) -> None:
    """Of the first segment. It is not found by scrubbing, which would be slower in a real broker."""
    machine = story.machine(letter)
    path, content = story.segments(letter)[0]
    position, header = list(iterate(content))[1]
    story.tell(f"the disk of {letter} has lost the write of its second record")
    machine.disk.lose_write(path, position, header.size)
    place = Place(story.cluster.checker.metadata.newest.topics[TOPIC], 0)
    damage = Damage(
        machine.node_id, place.key, machine.disk, path, position, header.base_offset, bytes(header.size)
    )
    story.cluster.checker.damaged(place, damage)


STORIES = (isr_age_of_damaged_segment,)
