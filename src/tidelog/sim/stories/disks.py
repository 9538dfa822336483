"""Disks that say that all is well, and have lost a write or put it elsewhere: a batch with a good checksum in
the wrong place is damage like any other, and a replica that is damaged lets whole ones take over.
"""

from collections.abc import Callable
from typing import Any

from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.checkers.damage import Damage
from tidelog.sim.checkers.promises import Place
from tidelog.sim.stories.operations import delete_records
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500
OLD_SEGMENT = "300"  # bytes: a few batches


def _misdirect_newest(story: Story, letter: str) -> None:
    """The last batch is written in the place of the one before it, while the process is dead."""
    machine = story.machine(letter)
    path, content = story.segments(letter)[-1]
    (first, _), (place_of, lost), (position, newest) = list(iterate(content))[-3:]
    story.tell(f"on the disk of {letter} the newest batch lies in the place of the one before it")
    machine.disk.misdirect((path, position), (path, place_of), newest.size)
    machine.decayed = True
    place = Place(story.cluster.checker.metadata.newest.topics[TOPIC], 0)
    planted = content[position : position + newest.size]
    before = next(header.base_offset for at, header in iterate(content) if at == first)
    for at, what in ((place_of, planted), (position, bytes(newest.size))):
        damage = Damage(machine.node_id, place.key, machine.disk, path, at, before, what)
        story.cluster.checker.damaged(place, damage)
    expect(lost.size, newest.size)


def isr_misdirected_write() -> Story:
    """A follower's newest record was written in the place of the one before it, with a valid checksum. The
    follower notices the missing offset, fetches both records again, and serves all of them when it leads.
    """
    story = Story(flush_messages="1")
    for _ in range(4):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.until(lambda: "B" not in story.in_sync(), "the departure of B")
    _misdirect_newest(story, "B")
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    story.tell_logs()
    story.kill("AC")
    story.until(lambda: story.leader() == "B", "the election of B")
    expect(story.read(at="B"), ["r1", "r2", "r3", "r4"])
    story.start("AC")
    story.until(story.all_in_sync, "the return of A and C")
    return story.end()


def isr_damaged_last_member() -> Story:
    """A follower finds a damaged old record and reports it. Before the controllers receive the report, the
    leader dies and the follower is elected as the last member. A replica that left the in-sync set earlier
    returns and catches up: it joins and leads, and the damaged record is fetched from it.
    """
    story = Story(segment_bytes=OLD_SEGMENT, min_insync_replicas="1")
    for _ in range(6):
        expect(story.write(), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.until(lambda: "B" not in story.in_sync(), "the departure of B")
    story.flip_bit("B")
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    say_again = _lose_reports(story, "B")
    story.tell("B reads its old segments back")
    story.driver("B").damage.found(0, "the CRC does not match")
    story.run(1000)
    story.kill("A")
    story.until(lambda: story.leader() == "B", "the election of B")
    say_again()
    story.until(lambda: bool(story.partition().offline), "the report of B")
    story.start("C")
    story.until(lambda: story.leader() == "C", "the election of C")
    story.start("A")
    story.until(story.all_in_sync, "the return of A and B")
    expect(story.read(), [f"r{number}" for number in range(1, 8)])
    return story.end()


def _lose_reports(story: Story, letter: str) -> Callable[[], None]:
    """The broker's reports about its logs do not arrive until the returned function is called."""
    machine = story.machine(letter)
    send = machine.send

    def send_some(to: int, message: Any, *, in_order: bool = False) -> None:
        if not isinstance(getattr(message, "ask", None), OfflineAsk):
            send(to, message, in_order=in_order)

    def stop() -> None:
        story.tell(f"what {letter} says of its logs arrives again")
        machine.send = send  # type: ignore[method-assign]

    story.tell(f"what {letter} says of its logs does not arrive")
    machine.send = send_some  # type: ignore[method-assign]
    return stop


def isr_lost_write_before_the_start() -> Story:
    """A follower finds that the disk lost a deleted record, before the log start but in a segment that still
    exists. The follower restarts its log at its start, and is a member again.
    """
    story = Story(segment_bytes=OLD_SEGMENT)
    for _ in range(6):
        expect(story.write(), ErrorCode.NONE)
    expect(delete_records(story, 1), ErrorCode.NONE)
    story.run(CHECKPOINTED_MS)
    story.kill("B")
    story.until(lambda: "B" not in story.in_sync(), "the departure of B")
    _lose_first(story, "B")
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    epoch = story.partition().leader_epoch
    story.tell("B reads its old segments back")
    story.driver("B").damage.found(0, "a batch claims 12 bytes")
    story.until(lambda: story.is_led_anew(epoch) or not story.all_in_sync(), "the report of B")
    story.until(story.all_in_sync, "the repair")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    return story.end()


def _lose_first(story: Story, letter: str) -> None:
    """The write of the first batch never reached the disk."""
    machine = story.machine(letter)
    path, content = story.segments(letter)[0]
    position, header = next(iterate(content))
    story.tell(f"the disk of {letter} has lost the write of the first batch")
    machine.disk.lose_write(path, position, header.size)
    machine.decayed = True
    place = Place(story.cluster.checker.metadata.newest.topics[TOPIC], 0)
    damage = Damage(
        machine.node_id, place.key, machine.disk, path, position, header.base_offset, bytes(header.size)
    )
    story.cluster.checker.damaged(place, damage)


STORIES = (isr_misdirected_write, isr_damaged_last_member, isr_lost_write_before_the_start)
