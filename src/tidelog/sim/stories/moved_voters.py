"""Mode ``quorum``: replicas are moved; what the controllers know of the voters meanwhile."""

from tidelog.errors import ErrorCode
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.telling import expect


def _moving_to_ade() -> Memory:
    """Of five brokers, A, B and C have the partition, and D and E replace B and C."""
    story = Memory(5, flush_messages="1000")
    story.move("ABC")
    story.until(lambda: len(story.partition().replicas) == 3, "the end of the first move")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.move("ADE")
    return story


def half_lose_their_tails() -> Memory:
    """Without syncing, a move has reached four voters, and two of them lose power. The others are half of the
    voters, and there is no leader. The controllers know the set before, of five, in which they would be
    enough together with the removed one: they still let the operator decide.
    """
    story = _moving_to_ade()
    story.until(lambda: story.who_votes("A") == "A C D E", "the removal of B")
    story.power_off("DE")
    story.kill("A")
    story.start("ADE")
    story.expect_nobody()
    expect(story.in_sync(), "ABC")
    story.recover()
    expect(story.await_leader(not_by=""), "A")
    story.until(lambda: not story.partition().is_moving, "the end of the move")
    story.await_return("D and E")
    expect(story.write(), ErrorCode.NONE)
    expect(story.read(), ["r1", "r2"])
    return story


def stops_without_controllers() -> Memory:
    """The controllers are unreachable during a move: it waits after the next step, so that they are never
    further behind than that. It continues when they are back.
    """
    story = _moving_to_ade()
    story.until(lambda: story.who_votes("A") == "A B C D", "the first new voter")
    story.kill("XYZ")
    story.run(3000)
    expect(story.who_votes("A"), "A B C D")
    expect(story.write(at="A"), ErrorCode.NONE)
    story.start("XYZ")
    story.until(lambda: not story.partition().is_moving, "the end of the move")
    expect(story.who_votes(story.elected()), "A D E")
    story.await_return("everybody")
    return story


STORIES = (half_lose_their_tails, stops_without_controllers)
