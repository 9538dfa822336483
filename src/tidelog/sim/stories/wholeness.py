"""All faults are over, and enough replicas hold everything: the partition goes on by itself. Or it waits for
an operator, as the documentation says, however often nodes restart.
"""

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.primary_backup_group import force, group, is_whole, serves
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.story import Story
from tidelog.sim.telling import expect


def late_voter_elects() -> ChangeStory:
    """From isr to quorum while C is down: C lacks a committed record, but has lost nothing. Then B loses its
    disk and all restart: A holds everything and is elected with the vote of C.
    """
    story = ChangeStory()
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    expect(story.write(), ErrorCode.NONE)
    story.change("quorum")
    story.await_change("quorum")
    story.run(100)
    story.lose_disk("B")
    story.kill("A")
    _come_back(story, lost="B")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    return _end(story)


def late_voter_stands() -> ChangeStory:
    """From isr to quorum while C is down; C returns and has a committed record that B lacks, when A loses its
    disk: C is elected, although it was not readmitted.
    """
    story = _committed_with_a_late_voter()
    story.lose_disk("A")
    story.heal()
    _come_back(story, lost="A")
    expect(story.read(), ["r1", "r2"])
    return _end(story)


def late_voter_loses_data() -> ChangeStory:
    """From isr to quorum while C is down; then C loses its disk while A is down: C now counts as one that
    lost data. It does not help B, which lacks the record, and waits for A.
    """
    story = _committed_with_a_late_voter()
    story.kill("A")
    story.lose_disk("C")
    story.heal()
    story.start("C")
    story.run(5000)
    expect(story.leader(), "nobody")
    story.start("A")
    story.until(story.all_in_sync, "that all are readmitted")
    expect(story.read(), ["r1", "r2"])
    return _end(story)


def _committed_with_a_late_voter() -> ChangeStory:
    """r2 is committed by A and C. C was down when the topic changed to quorum, and B does not have the
    record.
    """
    story = ChangeStory()
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.change("quorum")
    story.await_change("quorum")
    story.cut("B", "AC")
    sent = story.send()
    story.start("C")
    _closely(story, lambda: sent.reply is not None)
    expect(story.await_answer(sent), ErrorCode.NONE)
    story.tell_logs()
    return story


def first_newcomer_elects() -> Memory:
    """An operator let A continue alone, and the others are added again. A is disconnected when the set of two
    voters is in its log only, and steps down: B, which does not know that it votes, votes for A.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("A")
    for letter in "BC":
        story.lose_disk(letter)
    story.start("ABC")
    story.expect_nobody()
    story.recover()
    _closely(story, lambda: story.who_votes("A") == "A B")
    story.cut("A", "BC")
    expect(story.who_votes("B"), "A")
    story.until(lambda: story.elected() == "nobody", "the end of the leadership")
    story.heal()
    story.await_leader(not_by="")
    story.await_return("B and C")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    return story


def replaced_primary_waits_for_the_operator() -> Story:
    """The primary's disk is replaced, and with one copy only it need have had the newest record. Then its
    backup, the last intact replica, loses power: that does not hide the loss, also not after another restart.
    An operator still decides.
    """
    story = group(1)
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.cut("A", "B")
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("A")
    story.heal()
    story.start("A")
    story.run(3000)
    story.power_off("B")
    story.start("B")
    story.until(lambda: story.in_sync() == "", "the word of B that it lost power")
    story.kill("A")
    story.start("A")
    story.run(5000)
    expect(serves(story), False)
    force(story)
    story.until(lambda: is_whole(story), "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.tell_logs()
    return story


def _come_back(story: ChangeStory, lost: str) -> None:
    """One with an empty disk, all others with what they had."""
    story.start("".join(letter for letter in "ABC" if not story.machine(letter).alive))
    story.until(lambda: not story.is_relied_on(lost), "the number of the loss")
    story.until(story.all_in_sync, "that all are readmitted")


def _closely(story: Story, happened: Callable[[], bool]) -> None:
    """Stop at the moment when it has happened, before any node knows of it."""
    while not happened():
        story.world.run_until(story.world.now_ms + 0.1)


def _end(story: ChangeStory) -> ChangeStory:
    story.run(500)
    story.tell_logs()
    return story


STORIES = (
    late_voter_elects,
    late_voter_stands,
    late_voter_loses_data,
    first_newcomer_elects,
    replaced_primary_waits_for_the_operator,
)
