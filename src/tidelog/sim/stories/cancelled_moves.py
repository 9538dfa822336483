"""A reassignment that is cancelled while no replica is known to be complete: mode ``isr``."""

from tidelog.controller import reassignment
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect


class CancelStory(DurabilityStory):
    """D is down, so a reassignment from A and B to C and D does not end."""

    def __init__(self) -> None:
        super().__init__(4, min_insync_replicas="1")
        self.move("AB")
        self.until(lambda: self.has_moved_to("AB"), "the smaller set")
        self.kill("D")
        self.move("CD")
        self.until(lambda: self.in_sync() == "ABC", "the arrival of C")

    def cancel(self) -> ErrorCode:
        rules = Rulebook(self.cluster.config)
        outcomes: list[ErrorCode] = []

        def done(error: TidelogError | None) -> None:
            outcomes.append(ErrorCode.NONE if error is None else error.code)

        self.cluster.decide(lambda image: reassignment.cancel(image, TOPIC, 0, rules.at(image)), done)
        self.until(lambda: bool(outcomes), "the answer")
        [code] = outcomes
        self.tell(f"cancel the move: {'ok' if code is ErrorCode.NONE else code.name}")
        return code

    def come_back(self) -> None:
        """Cancel again when A and B are in sync, and return to them."""
        self.until(lambda: self.in_sync() == "ABC", "the return of A and B")
        expect(self.cancel(), ErrorCode.NONE)
        self.until(lambda: self.has_moved_to("AB") and self.all_in_sync(), "the old set")


def last_leader_was_being_added() -> CancelStory:
    """C was added by a reassignment, led as the last member, and lost power. The reassignment cannot be
    cancelled then: C is the only replica that can lead. It can be when A and B have what C kept.
    """
    story = CancelStory()
    expect(story.write(), ErrorCode.NONE)
    story.kill("AB")
    story.until(lambda: story.leader() == story.in_sync() == "C", "the leadership of C")
    expect(story.write(), ErrorCode.NONE)
    story.tell("C syncs its log")
    story.driver("C").sync_now()
    story.power_off("C")
    story.start("C")
    story.until(lambda: not story.partition().in_sync, "the report of the loss")
    expect(story.cancel(), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    story.start("AB")
    story.come_back()
    expect(story.read(), ["r1", "r2"])
    return story.end()


def newest_log_was_being_added() -> CancelStory:
    """A and C, the last members, lost power together. A can lead, but only C has kept what they acknowledged,
    and C was added by a reassignment. It cannot be cancelled before A has copied C's log.
    """
    story = CancelStory()
    story.kill("B")
    story.until(lambda: story.in_sync() == "AC", "the removal of B")
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.tell("C syncs its log")
    story.driver("C").sync_now()
    story.power_off("AC")
    story.start("C")
    story.until(lambda: story.in_sync() == "A", "the report of C")
    story.cut("A", "C")
    story.repair_disk("A")
    story.start("A")
    story.until(lambda: not story.partition().in_sync, "the report of A")
    expect(story.cancel(), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    story.run(200)
    story.heal()
    story.start("B")
    story.come_back()
    expect(story.read(), ["r1"])
    return story.end()


STORIES = (last_leader_was_being_added, newest_log_was_being_added)
