"""A is alone in its in-sync set, cut off from the controllers, and sees that too few of them are left to
decide anything. It acknowledges records without a session, until what it saw is one session old. Then they
can decide after all: mode ``isr``, ``min.insync.replicas=1``.
"""

from tidelog.errors import ErrorCode
from tidelog.replication.voters import Voter
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.telling import StoryFailed, expect

PATIENCE_MS = 5000


class AloneStory(DurabilityStory):
    def be_alone(self) -> None:
        """The leader is the only member of its in-sync set."""
        letter = self.leader()
        others = [name for name in "ABCD" if name != letter and name in self._names.values()]
        self.cut(letter, "".join(name for name in others if self.has_opened(name)))
        waiting = self.send()
        self.until(lambda: self.in_sync() == letter, "the departure of the others")
        expect(self.await_answer(waiting), ErrorCode.NONE)

    def be_replaced(self, letter: str) -> None:
        """An operator has another replica lead as soon as the controllers allow it. The old leader
        acknowledges nothing from then on.
        """
        self.until(lambda: self.leader() == "nobody", "the end of the leadership")
        self.elect_unclean()
        self.run(50)
        expect(self.write(), ErrorCode.NONE)
        for _ in range(4):
            expect(self.write(at=letter, acks=1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            expect(self.write(at=letter), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.run(200)

    def remove_controller(self, letter: str) -> None:
        self.tell(f"an operator removes {letter} from the controllers")
        machine, (number,) = self.cluster.active(), self.nodes(letter)
        if machine is None or machine.node is None or machine.services is None:
            raise StoryFailed("no controller is active")
        remove, refused = machine.node.metadata.voters.remove, self.cluster.decided
        machine.services.run(lambda: remove(Voter(number), PATIENCE_MS, refused))


class FourControllers(AloneStory):
    controllers = 0

    def add_controller(self, letter: str) -> None:
        self.tell(f"an operator adds {letter} to the controllers")
        machine, (number,) = self.cluster.active(), self.nodes(letter)
        if machine is None or machine.node is None or machine.services is None:
            raise StoryFailed("no controller is active")
        add, refused = machine.node.metadata.voters.add, self.cluster.decided
        machine.services.run(lambda: add(Voter(number), PATIENCE_MS, refused))


def one_controller_is_removed() -> AloneStory:
    """The four brokers are the controllers. C has ended, and B, alone in its set, is cut off: with two of
    four nothing can be decided. But A and D remove C from the controllers, and are two of three.
    """
    story = FourControllers(4, min_insync_replicas="1")
    story.cluster.confirm_deaths()
    story.move("BCD")
    story.until(lambda: story.has_moved_to("BCD") and story.all_in_sync(), "the move")
    expect(story.write(), ErrorCode.NONE)
    story.kill("C")
    story.run(500)
    story.be_alone()
    story.cut("B", "A")
    story.remove_controller("C")
    story.be_replaced("B")
    story.heal()
    story.start("C")
    return story.end_whole("B and C")


def controller_that_it_has_not_heard_of() -> AloneStory:
    """A, B and C are the controllers. B, alone in its set, is cut off from C, the active one, and D becomes a
    controller. Then A ends, which B sees: C alone could decide nothing. But C and D remove A from the
    controllers, and are two of three.
    """
    story = FourControllers(4, min_insync_replicas="1")
    story.cluster.confirm_deaths()
    active = story.cluster.active()
    expect(active is not None and active.node_id, story.nodes("C")[0])
    story.move("BD")
    story.until(lambda: story.has_moved_to("BD") and story.all_in_sync(), "the move")
    story.remove_controller("D")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.be_alone()
    story.cut("B", "C")
    story.add_controller("D")
    story.run(600)
    story.kill("A")
    story.run(300)
    story.remove_controller("A")
    story.be_replaced("B")
    story.heal()
    story.start("A")
    return story.end_whole("B")


def fenced_by_too_few_controllers() -> AloneStory:
    """Z has ended, and X is about to fence A, which it does not hear. Y ends as well, before A's session is
    over, so X fences A alone. That counts when Y is back, and A has seen only that Y had ended: it gets a
    whole session.
    """
    story = _without_z()
    story.cut("A", "X")
    story.run(2400)
    story.kill("Y")
    story.run(2500)
    story.cut("A", "Y")
    story.start("Y")
    return _replaced(story)


def controller_restarts_at_once() -> AloneStory:
    """Z has ended. Y ends shortly before the session of A is over, which sees that, and is started again at
    once: X remains the active controller, and fences A. It gives A a whole session from Y's start on.
    """
    story = _without_z()
    story.cut("A", "X")
    story.run(2600)
    story.kill("Y")
    story.run(250)
    story.cut("A", "Y")
    story.start("Y")
    return _replaced(story)


def _without_z() -> AloneStory:
    story = AloneStory(min_insync_replicas="1")
    story.cluster.confirm_deaths()
    expect(story.write(), ErrorCode.NONE)
    story.be_alone()
    story.kill("Z")
    story.run(1000)
    return story


def _replaced(story: AloneStory) -> AloneStory:
    story.be_replaced("A")
    story.heal()
    story.start("Z")
    return story.end_whole("A")


STORIES = (one_controller_is_removed, fenced_by_too_few_controllers, controller_restarts_at_once)
