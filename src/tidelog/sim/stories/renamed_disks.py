"""Mode ``quorum``: the id of a disk is damaged. Its broker counts as one with an empty disk, is readmitted,
and loses power before the controllers have heard of it.
"""

from typing import Any

from tidelog.controller.messages import InSyncAsk
from tidelog.errors import ErrorCode
from tidelog.log.checkpoints import META_PROPERTIES_FILE
from tidelog.sim.machine import DATA
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.telling import expect


class RenamedDisk(Memory):
    def rename_disk(self, letter: str) -> None:
        """While the process is dead."""
        self.tell(f"a bit flips on the disk of {letter}, in its id")
        self.machine(letter).disk.flip(f"{DATA}/{META_PROPERTIES_FILE}", 11, 0)

    def readmit_and_power_off(self) -> None:
        """C is readmitted, and loses power while the leader's report of that is on its way."""
        expect(self.write(), ErrorCode.NONE)
        self.kill("C")
        self.rename_disk("C")
        self.start("C")
        self.until(lambda: self.who_votes("A") == "A B", "the removal of C from the voters")
        expect(self.in_sync(), "AB")
        self.tell("  C does not vote; from now on the leader's reports are late")
        self.network.withheld = _is_report
        self.until(lambda: self.who_votes("A") == "A B C", "the readmission of C")
        self.tell("  C votes again")
        expect(self.write(), ErrorCode.NONE)
        self.power_off("C")
        self.network.withheld = None
        self.network.release()
        self.until(self.all_in_sync, "the report of the readmission")


def readmitted_and_synced() -> RenamedDisk:
    """The id of a voter's disk is damaged, and the voter is readmitted. It loses power before the controllers
    hear of that. It had synced everything: it votes at once when it is back, and helps to elect a leader.
    """
    story = RenamedDisk()
    story.readmit_and_power_off()
    story.start("C")
    story.until(lambda: story.all_in_sync() and story.has_opened("C"), "the return of C")
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    return story


def readmitted_and_not_synced() -> RenamedDisk:
    """The same with ``flush.messages`` above 1: what the power failure took after the readmission is a loss
    of its own. The voter is readmitted once more before it votes.
    """
    story = RenamedDisk(flush_messages="1000")
    story.readmit_and_power_off()
    story.start("C")
    story.until(lambda: story.in_sync() == "AB", "the number of the new loss")
    story.await_return("C")
    return story


def _is_report(sender: int, receiver: int, message: Any) -> bool:
    return isinstance(getattr(message, "ask", None), InSyncAsk)


STORIES = (readmitted_and_synced, readmitted_and_not_synced)
