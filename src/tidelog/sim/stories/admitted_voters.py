"""Mode ``quorum``: voters whose own logs do not show yet that they vote."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.telling import expect


def added_voter_lacks_the_set() -> Memory:
    """Without syncing, a move adds a voter. It is disconnected before it has the record that says so, and the
    controllers do not learn of it. Of the three others, one loses power and one restarts. The two that lost
    nothing have the set of four: the new voter helps them to elect a leader.
    """
    story = Memory(4, flush_messages="1000")
    story.move("ABC")
    story.until(lambda: len(story.partition().replicas) == 3, "the end of the first move")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.move("ABD")
    story.until(lambda: story.who_votes("A") == "A B C D", "the new voter")
    story.cut("D", "ABC")
    story.kill("XYZ")
    story.until(lambda: story.who_votes("B") == story.who_votes("C") == "A B C D", "the set at B and C")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.power_off("B")
    story.kill("A")
    story.heal()
    story.start("XYZAB")
    expect(story.who_votes("D"), "A B C")
    story.await_leader(not_by="")
    story.until(lambda: not story.partition().is_moving, "the end of the move")
    story.await_return("B")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def readmitted_voter_lacks_the_set() -> Memory:
    """A replica is readmitted, but disconnected before it has the record that says so, and the controllers do
    not learn of it. The leader dies: the first one votes for the other, which has the record.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("C")
    story.start("C")
    story.until(lambda: not story.is_relied_on("C"), "the number of the loss")
    story.until(lambda: story.who_votes("C") == "A B", "the first half of the readmission")
    story.until(lambda: story.who_votes("A") == "A B C", "the other half")
    story.cut("C", "AB")
    story.kill("XYZ")
    story.until(lambda: story.who_votes("B") == "A B C", "the set at B")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.start("XYZ")
    expect(story.who_votes("C"), "A B")
    expect(story.await_leader(), "B")
    expect(story.read(at="B"), ["r1", "r2"])
    return story


def readmitted_for_an_earlier_loss() -> Memory:
    """A readmitted replica loses its log again, before the controllers know of the readmission. Another one
    has the record of the readmission, but lacks what the replica acknowledged since then. The readmission was
    for the earlier loss: the replica does not vote for it.
    """
    story = Memory()
    expect(story.write(), ErrorCode.NONE)
    story.lose_disk("C")
    story.start("C")
    story.until(lambda: not story.is_relied_on("C"), "the number of the loss")
    story.until(lambda: story.who_votes("C") == "A B", "the first half of the readmission")
    story.until(lambda: story.who_votes("A") == "A B C", "the other half")
    story.kill("XYZ")
    story.until(lambda: story.who_votes("B") == story.who_votes("C") == "A B C", "the set at B and C")
    story.cut("B", "AC")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.kill("AC")
    story.remove_log("C")
    story.heal()
    story.start("XYZC")
    story.expect_nobody()
    story.start("A")
    expect(story.await_leader(not_by=""), "A")
    story.await_return("C")
    expect(story.read(at="A"), ["r1", "r2"])
    return story


def leader_with_old_metadata() -> Memory:
    """Without syncing, A and B lose power, and A is elected with what they have: that heals its loss. C does
    not hear of it from the controllers, and leads next. It does not remove A from the voters because of the
    old loss. B loses power again: A and C are a majority of the voters, and elect a leader.
    """
    story = Memory(flush_messages="1000")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.power_off("AB")
    story.start("AB")
    story.until(lambda: len(story.partition().losses) == 2, "the numbers of both losses")
    story.run(100)
    story.cut("C", "XYZ")
    story.await_return("A and B")
    story.kill("A")
    expect(story.await_leader(), "C")
    story.start("A")
    story.until(lambda: story.has_opened("A") and story.driver("A").replica.leader >= 0, "A's return")
    story.cut("B", "AC")
    story.run(300)
    story.power_off("B")
    story.kill("C")
    story.heal()
    story.start("BC")
    story.await_leader(not_by="")
    story.await_return("B")
    expect(story.read(at=story.elected()), ["r1"])
    return story


STORIES = (
    added_voter_lacks_the_set,
    readmitted_voter_lacks_the_set,
    readmitted_for_an_earlier_loss,
    leader_with_old_metadata,
)
