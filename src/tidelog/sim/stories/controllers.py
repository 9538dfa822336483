"""The controllers alone: three voters elect their leader among themselves, and a decision counts when two
have it on disk.
"""

from tidelog.errors import ErrorCode
from tidelog.sim.controllers_story import ControllersStory
from tidelog.sim.telling import expect


def leader_killed() -> ControllersStory:
    """1. The leader is killed: the more complete of the others is elected, and decisions continue."""
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.cut("A", "C")
    expect(story.decide(), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.until(lambda: story.decider() == "B", "an election")
    expect(story.decide(), ErrorCode.NONE)
    story.start("A")
    _until_all_know(story, 3)
    story.tell_known()
    return story


def follower_killed() -> ControllersStory:
    """2. A follower is killed: no effect."""
    story = ControllersStory()
    story.kill("B")
    expect(story.decide(), ErrorCode.NONE)
    story.run(3000)
    expect(story.decide(), ErrorCode.NONE)
    return story


def both_followers_killed() -> ControllersStory:
    """3. Both followers are killed: the leader hears no majority and steps down. Committed metadata stays
    known.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.kill("BC")
    waiting = story.ask()
    story.until(lambda: not story.decider(), "the end of the leadership")
    expect(story.await_answer(waiting), ErrorCode.NOT_CONTROLLER)
    expect(story.decide(), None)
    story.tell_known()
    story.start("B")
    story.until(lambda: bool(story.decider()), "an election")
    expect(story.decide(), ErrorCode.NONE)
    return story


def leader_and_follower_killed() -> ControllersStory:
    """4. The leader and a follower are killed: without a majority nothing is decided. The third serves what
    it knows to be committed.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.run(500)
    story.kill("AB")
    story.run(5000)
    expect(story.decide(), None)
    story.tell_known()
    story.start("A")
    story.until(lambda: bool(story.decider()), "an election")
    expect(story.decide(), ErrorCode.NONE)
    return story


def all_killed() -> ControllersStory:
    """6. All controllers are killed: the first one back waits for a second, and the more complete of the two
    leads.
    """
    story = ControllersStory()
    story.cut("C", "AB")
    expect(story.decide(), ErrorCode.NONE)
    story.kill("ABC")
    story.heal()
    story.run(1000)
    story.start("C")
    story.run(3000)
    expect(story.decider(), "")
    story.start("B")
    story.until(lambda: story.decider() == "B", "an election")
    expect(story.decide(), ErrorCode.NONE)
    story.start("A")
    _until_all_know(story, 2)
    story.tell_known()
    return story


def leader_frozen() -> ControllersStory:
    """7. The leader is frozen for 30 seconds: another is elected, and the old one steps down when it sees the
    higher epoch.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.cut("A", "BC")
    waiting = story.ask()
    story.run(100)
    story.freeze("A")
    story.heal()
    story.until(lambda: bool(story.decider()), "an election")
    expect(story.decide(), ErrorCode.NONE)
    story.run(28_000)
    story.thaw("A")
    expect(story.await_answer(waiting), ErrorCode.REQUEST_TIMED_OUT)
    _until_all_know(story, 2)
    story.tell_known()
    return story


def leader_cut_off() -> ControllersStory:
    """8. The leader is disconnected: it steps down by itself, and the other side elects a leader."""
    story = ControllersStory()
    story.cut("A", "BC")
    waiting = story.ask()
    story.until(lambda: story.decider() in ("B", "C"), "an election")
    expect(story.await_answer(waiting), ErrorCode.NOT_CONTROLLER)
    expect(story.decide(), ErrorCode.NONE)
    story.heal()
    _until_all_know(story, 1)
    story.tell_known()
    return story


def all_lose_power() -> ControllersStory:
    """9. All three controllers lose power at once: every decision was synced by two of them, so nothing is
    lost.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.power_off("ABC")
    story.start("ABC")
    story.until(lambda: bool(story.decider()), "an election")
    _until_all_know(story, 1)
    story.tell_known()
    return story


def voter_loses_its_disk() -> ControllersStory:
    """10. A voter returns with an empty disk: it does not vote until it has caught up. Otherwise it could
    help to elect a controller that lacks what it lost.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.lose_disk("B")
    story.start("B")
    expect(story.decide(), ErrorCode.NONE)
    _until_all_know(story, 2)
    story.until(story.cluster.is_whole, "the return of B")
    story.tell_known()
    story.kill("A")
    story.until(lambda: story.decider() in ("B", "C"), "an election")
    expect(story.decide(), ErrorCode.NONE)
    return story


def voter_is_damaged() -> ControllersStory:
    """13. A voter returns with a flipped bit in its newest decision, together with one that never had it,
    while the leader is frozen: it counts as one with another disk, so the two elect no leader, and the
    decision is kept.
    """
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    _until_all_know(story, 1)
    story.run(500)
    story.kill("C")
    expect(story.decide(), ErrorCode.NONE)
    story.run(500)
    story.kill("B")
    story.freeze("A")
    story.flip_bit("B")
    story.start("BC")
    story.run(5000)
    expect(story.decider(), "")
    story.thaw("A")
    story.until(lambda: bool(story.decider()), "an election")
    _until_all_know(story, 2)
    story.until(story.cluster.is_whole, "the return of B")
    story.tell_known()
    return story


def disk_full() -> ControllersStory:
    """12. The leader's disk is full: it resigns, and another controller leads."""
    story = ControllersStory()
    expect(story.decide(), ErrorCode.NONE)
    story.fill_disk("A")
    story.decide()
    story.until(lambda: story.decider() in ("B", "C"), "an election")
    expect(story.decide(), ErrorCode.NONE)
    return story


def split_vote() -> ControllersStory:
    """Split vote: two candidates stand at the same time and each votes for itself. Neither wins, and a random
    delay decides which retries first.
    """
    story = ControllersStory(size=4)
    expect(story.decide(), ErrorCode.NONE)
    story.run(500)
    story.kill("A")
    story.cut("B", "D")
    story.stand("BC")
    story.run(200)
    story.heal()
    story.until(lambda: bool(story.decider()), "an election")
    expect(story.decide(), ErrorCode.NONE)
    return story


def _until_all_know(story: ControllersStory, count: int) -> None:
    letters = [letter for letter in "ABC" if story.machine(letter).alive]
    story.until(lambda: all(len(story.known(letter)) == count for letter in letters), "that all know")


STORIES = (
    leader_killed,
    follower_killed,
    both_followers_killed,
    leader_and_follower_killed,
    all_killed,
    leader_frozen,
    leader_cut_off,
    all_lose_power,
    voter_loses_its_disk,
    voter_is_damaged,
    disk_full,
    split_vote,
)
