"""An operator has chosen the log with which a quorum partition continues: what readers get elsewhere."""

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.history import Write
from tidelog.sim.clients.client import Client
from tidelog.sim.clients.reader import Reader
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect

CLIENT = 1900


class ChosenLog(Memory):
    def __init__(self) -> None:
        """C has the only copy of a committed record. A and B have returned with empty disks."""
        super().__init__()
        self.history = self.cluster.checker.history(TOPIC, 0)
        for number, name in enumerate((b"r1", b"r2")):
            self.history.sent(name, Write(1, number, -1, idempotent=True))
        expect(self.write(), ErrorCode.NONE)
        self.run(3500)
        self.kill("AB")
        for letter in "AB":
            self.lose_disk(letter)
        self.start("AB")
        self.expect_nobody()
        expect(self.read(at="C"), ["r1"])

    def choose_empty(self) -> None:
        """The log of A, the first replica: ``tidelog topic recover`` would choose the longest."""
        self.recover()
        self.until(lambda: self.elected() == "A", "the leader by force")

    def write_in_its_place(self) -> None:
        self.until(lambda: self.in_sync() == "AB", "the return of B")
        expect(self.write(), ErrorCode.NONE)

    def reader_of(self, letter: str) -> Reader:
        """A consumer that knows the leader from this broker's metadata. What it gets is checked."""
        client = Client(self.world, self.network, CLIENT, self.nodes(letter))
        reader = Reader(client, self.history, TOPIC, 0)
        reader.committing = False
        reader.start()
        return reader


def stand_in_has_heard() -> ChosenLog:
    """C has heard of the decision and cannot reach the new leader, which stops: C serves no reader the record
    that was given up. When it has compared its log, it serves what is committed now.
    """
    story = ChosenLog()
    story.cut("C", "AB")
    story.choose_empty()
    story.write_in_its_place()
    story.kill("AB")
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(500)
    expect(story.read(at="C"), [])
    story.kill("C")
    story.start("C")
    story.run(2000)
    expect(story.read(at="C"), [])
    story.heal()
    story.start("AB")
    story.until(story.all_in_sync, "the return of all")
    story.run(1000)
    story.kill("AB")
    story.run(3000)
    expect(story.read(at="C"), ["r2"])
    story.kill("C")
    story.start("C")
    story.run(3000)
    expect(story.read(at="C"), ["r2"])
    return story


def stand_in_has_not_heard() -> ChosenLog:
    """C cannot reach the controllers, either, and has not heard of the decision. It serves what it knows to
    be committed, until it hears of it.
    """
    story = ChosenLog()
    story.cut("C", "ABXYZ")
    story.choose_empty()
    reader = story.reader_of("C")
    story.run(500)
    expect(story.read(at="C"), ["r1"])
    expect(story.history.reads, 0)
    story.write_in_its_place()
    story.heal()
    story.until(story.all_in_sync, "the return of C")
    story.run(1000)
    expect(story.read(), ["r2"])
    expect(reader.position, story.driver("A").log.end_offset)
    expect(story.history.reads, 1)
    return story


STORIES = (stand_in_has_heard, stand_in_has_not_heard)
