"""Reports of damage that arrive, or are made, a second time after an operator has decided."""

from typing import Any

from tidelog.config.modes import QUORUM
from tidelog.controller.messages import OfflineAsk
from tidelog.errors import ErrorCode
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.telling import expect

CHECKPOINTED_MS = 3500


class ReportStory(SeamStory):
    """The damage reports of A are copied."""

    def __init__(self) -> None:
        super().__init__(replication_mode=QUORUM)
        self._copies: list[tuple[int, int, Any]] = []

    def lose_two(self, *, cut_off: bool = False) -> None:
        """A finds damage at its start, and B has an empty disk: no majority is left. C is down, or
        ``cut_off``.
        """
        expect(self.write(), ErrorCode.NONE)
        self.run(CHECKPOINTED_MS)
        expect(self.write(), ErrorCode.NONE)
        self.run(CHECKPOINTED_MS)
        self.kill("A")
        if cut_off:
            self.cut("C", "ABXYZ")
        else:
            self.kill("C")
        self.flip_bit("A", newest=True)
        self.lose_disk("B")
        self._copy_reports()
        self.start("AB")
        self.until(lambda: len(self.partition().losses) == 2, "the numbers of both losses", 8000)
        self.run(1000)
        self.network.withheld = None

    def _copy_reports(self) -> None:
        node = self.machine("A").node_id

        def listen(sender: int, receiver: int, message: Any) -> bool:
            ask = getattr(message, "ask", None)
            if sender == node and isinstance(ask, OfflineAsk) and not ask.healed:
                self._copies.append((sender, receiver, message))
            return False

        self.network.withheld = listen

    def deliver_copies(self) -> None:
        self.tell("what A said of its damage arrives again")
        for sender, receiver, message in self._copies:
            self.network.send(sender, receiver, message)

    def take_a_decision(self) -> None:
        """For A, whose log is the longest that is there."""
        self.expect_nobody()
        self.recover()
        self.until(lambda: self.partition().unclean_epoch >= 0, "the decision")


def copy_arrives_after_the_decision() -> ReportStory:
    """One of three voters drops a damaged record, one has an empty disk, and one is down. An operator decides
    that the first continues with what it has. Then it is killed, and a copy of its old report arrives: it is
    not taken for a second loss, and the operator need not decide again.
    """
    story = ReportStory()
    story.lose_two()
    story.take_a_decision()
    story.kill("A")
    story.deliver_copies()
    story.run(50)
    story.start("A")
    story.await_leader(not_by="")
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C", 8000)
    expect(story.write(at=story.elected()), ErrorCode.NONE)
    expect(story.read(at=story.elected()), ["r1", "r3"])
    return story


def power_fails_after_the_decision() -> ReportStory:
    """The same, and the first one loses power after the decision: the note of its damage does not return, and
    it leads again.
    """
    story = ReportStory()
    story.lose_two()
    story.take_a_decision()
    story.power_off("A")
    story.start("A")
    story.await_leader(not_by="")
    story.start("C")
    story.until(story.all_in_sync, "the return of B and C", 8000)
    expect(story.write(at=story.elected()), ErrorCode.NONE)
    expect(story.read(at=story.elected()), ["r1", "r3"])
    return story


STORIES = (copy_arrives_after_the_decision, power_fails_after_the_decision)
