"""The mode changes there and back before one of the replicas has heard of either: in which epochs replicas
vote, and in which the controllers appoint leaders. In a log ∎ is a seal, · a leader-change record.
"""

from typing import Any

from tidelog.config.modes import ISR, QUORUM
from tidelog.controller.messages import InSyncAsk
from tidelog.errors import ErrorCode
from tidelog.replication.messages import FetchGot
from tidelog.replication.replica import Role
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect
from tidelog.types import NO_BROKER


class EpochStory(ChangeStory):
    """What one broker reports to the controllers is late, and what another one hears from them."""

    def __init__(self) -> None:
        super().__init__(replication_mode=QUORUM)
        self._reporter: int = NO_BROKER
        self._unaware: int = NO_BROKER
        self._known = 0  # the offset up to which the unaware broker hears that metadata is committed
        self._epochs: list[int] = []  # that voters have named to the controllers
        self._controllers = set(self.nodes("XYZ"))
        self.network.withheld = self._is_late

    def _is_late(self, sender: int, receiver: int, message: Any) -> bool:
        if receiver == self._unaware and sender in self._controllers and isinstance(message, FetchGot):
            return any(part.high_watermark > self._known for part in message.parts)
        ask = getattr(message, "ask", None)
        if not isinstance(ask, InSyncAsk):
            return False
        if ask.proposal.elected and not ask.proposal.members:
            self._epochs.append(ask.proposal.leader_epoch)
        return sender == self._reporter

    def delay_reports(self, letter: str) -> None:
        self.tell(f"what {letter} reports to the controllers is late")
        self._reporter = self.machine(letter).node_id

    def deliver_reports(self, letter: str) -> None:
        self.tell(f"what {letter} has reported arrives")
        self._reporter = NO_BROKER
        self.network.release()

    def delay_metadata(self, letter: str) -> None:
        """It still gets the next records, and hears late that they are committed."""
        self.tell(f"{letter} hears of new metadata late")
        node = self.machine(letter).node
        assert node is not None
        self._unaware, self._known = node.me, node.metadata.driver.replica.high_watermark

    def deliver_metadata(self, letter: str, mode: str) -> None:
        """The oldest response only."""
        self.tell(f"{letter} hears that the partition is replicated by {mode}")
        self.network.release(1)
        self.until(lambda: self._mode_at(letter) == mode, "the news")

    def _mode_at(self, letter: str) -> str:
        """As the broker has heard it."""
        node = self.machine(letter).node
        assert node is not None
        return node.image.topics[TOPIC].partitions[0].mode

    def epoch_led_by(self, letter: str) -> int:
        """-1: it does not lead."""
        replica = self.driver(letter).replica
        return replica.epoch if replica.role is Role.LEADER else -1

    def await_report_of_epoch(self, letter: str) -> int:
        self.until(lambda: bool(self._epochs), f"the report of {letter}")
        self.tell(f"{letter} tells the controllers that it has voted in epoch {self._epochs[0]}")
        return self._epochs[0]

    def end_delays(self) -> None:
        self.tell("everything arrives")
        self.network.withheld = None
        self.network.release()


def epoch_that_a_late_voter_names() -> EpochStory:
    """From quorum to isr and back before C has heard of either. It has helped to elect A when it hears of
    isr, and tells the controllers the epoch, so that they go above it. They do not take C for the leader of
    that epoch: B, which A cannot reach, would follow C, and then hear that A leads the same epoch.
    """
    story = EpochStory()
    expect(story.write(), ErrorCode.NONE)
    story.delay_reports("A")
    story.change(ISR)
    story.until(lambda: story.driver("A").replica.sealed_end_offset is not None, "the seal")
    story.run(100)
    story.delay_metadata("C")
    story.deliver_reports("A")
    story.await_change(ISR)
    story.run(50)
    story.delay_reports("A")
    story.cut("A", "B")
    story.change(QUORUM)
    story.until(lambda: story.epoch_led_by("A") > story.partition().leader_epoch, "the election")
    story.tell("A is elected by itself and C")
    story.deliver_metadata("C", ISR)
    expect(story.await_report_of_epoch("C"), story.epoch_led_by("A"))
    story.run(50)
    story.heal()
    story.run(50)
    story.end_delays()
    story.until(lambda: story.leader() == "A", "the report of A")
    expect(story.write(), ErrorCode.NONE)
    story.end()
    expect(story.read(), ["r1", "r2"])
    return story


STORIES = (epoch_that_a_late_voter_names,)
