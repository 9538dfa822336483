"""Dedicated controllers whose metadata log is damaged after a power failure, and the others' next leader."""

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.sim.rot import METADATA
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

ELECTED_MS = 5000


class DamagedController(Story):
    def flip_metadata_bit(self, letter: str) -> None:
        """In the newest batch of its metadata log, while the process is dead."""
        disk = self.machine(letter).disk
        logs = disk.contents(METADATA.rstrip("/")).items()
        path, content = max((path, data) for path, data in logs if path.endswith(".log"))
        position, header = list(iterate(content))[-1]
        self.tell(f"a bit flips on the disk of {letter}, in the newest batch of its metadata log")
        disk.flip(path, position + header.size - 1, 0)

    def has_active(self) -> bool:
        return self.cluster.active() is not None


def acknowledged_after_a_power_failure() -> DamagedController:
    """The machine of controller Z was off. It is back, and acknowledges a decision of X that Y does not hear.
    Then the decision is damaged on the disk of Z, and Z is killed. The machine stayed on this time, so a kill
    cannot be the reason: Z does not vote for Y, which lacks the decision. X is needed, and it still holds.
    """
    story = DamagedController()
    story.power_off("Z")
    story.start("Z")
    story.run(1000)
    story.cut("Y", "XZABC")
    story.kill("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C, which X and Z know")
    story.kill("XZ")
    story.flip_metadata_bit("Z")
    story.start("Z")
    story.heal()
    story.run(ELECTED_MS)
    expect(story.has_active(), False)
    story.tell("  Y and Z elect nobody")
    story.start("X")
    story.until(story.has_active, "an election with X")
    expect(story.in_sync(), "AB")
    story.start("C")
    story.until(story.all_in_sync, "the return of C")
    expect(story.write(at=story.leader()), ErrorCode.NONE)
    return story.end()


STORIES = (acknowledged_after_a_power_failure,)
