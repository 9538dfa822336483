"""A is alone in its in-sync set, cut off from the controllers, and sees that too few of them are left to
decide anything. It acknowledges records without a session, until what it saw is one session old. Then they
can decide after all: mode ``isr``, ``min.insync.replicas=1``.
"""

from collections.abc import Callable

from tidelog.controller.messages import HeartbeatAsk
from tidelog.errors import ErrorCode
from tidelog.replication.voters import Voter
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.telling import StoryFailed, expect

PATIENCE_MS = 5000
SHORT_MS = 0.1


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

    def until_just(self, condition: Callable[[], bool], what: str) -> None:
        """Let time pass until the very moment in which it holds."""
        end_ms = self.world.now_ms + PATIENCE_MS
        while not condition():
            if self.world.now_ms >= end_ms:
                raise StoryFailed(f"{what} did not happen")
            self.world.run_until(self.world.now_ms + SHORT_MS)

    def holds_uncommitted(self, follower: str, leader: str) -> bool:
        """Whether a controller has everything of the active one, which has not committed it yet."""
        nodes = self.machine(follower).node, self.machine(leader).node
        ours, theirs = (None if node is None else node.metadata.driver for node in nodes)
        if ours is None or theirs is None:
            return False
        end_offset = theirs.log.end_offset
        return ours.log.end_offset == end_offset > theirs.replica.high_watermark

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


def decided_with_its_own_vote() -> AloneStory:
    """A, B and C are the controllers. A has ended, and the heartbeats of B, alone in its set, get lost. C
    fences it: B is the one that follows, so it commits that itself, and is cut off before it hears of it. It
    must not go on because C alone could decide nothing. When A is back, D leads at once.
    """
    story = FourControllers(4, min_insync_replicas="1")
    story.cluster.confirm_deaths()
    story.move("BD")
    story.until(lambda: story.has_moved_to("BD") and story.all_in_sync(), "the move")
    story.remove_controller("D")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.be_alone()
    story.kill("A")
    story.run(600)
    story.tell("the heartbeats of B get lost")
    (b, c), node = story.nodes("BC"), story.machine("B").node
    story.network.withheld = lambda sender, receiver, message: _is_heartbeat(message, b)
    story.until(lambda: node is not None and node.membership.alone(), "the end of its session")
    story.until_just(lambda: story.holds_uncommitted("B", "C"), "the decision that B has to commit")
    story.tell("B has a decision of C, and hears nothing any more")
    story.network.cut(c, b)
    story.until(lambda: story.leader() == "nobody", "the end of the leadership")
    story.run(100)
    story.cut("B", "ACD")
    for _ in range(2):
        expect(story.write(at="B"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        story.run(300)
    story.start("A")
    story.be_replaced("B")
    story.network.withheld = None
    story.heal()
    return story.end_whole("B")


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
    story.run(2200)
    story.kill("Y")
    story.run(250)
    story.cut("A", "Y")
    story.start("Y")
    return _replaced(story)


def clock_of_the_leader_is_slow() -> AloneStory:
    """All controllers live. The clock of A is 5 % too slow, and theirs are 5 % too fast: they take the
    session of A for over when it has not been so long on A. It relies on it for less than they do.
    """
    story = AloneStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.be_alone()
    story.run(500)
    story.tell("the clock of A becomes 5 % too slow, those of the controllers 5 % too fast")
    for letter in "AXYZ":
        story.machine(letter).clock.run_at(0.95 if letter == "A" else 1.05)
    story.run(1000)
    story.cut("A", "XYZ")
    story.be_replaced("A")
    story.heal()
    return story.end_whole("A")


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


def _is_heartbeat(message: object, sender: int) -> bool:
    ask = getattr(message, "ask", None)
    return isinstance(ask, HeartbeatAsk) and ask.broker_id == sender


STORIES = (
    one_controller_is_removed,
    fenced_by_too_few_controllers,
    controller_restarts_at_once,
    decided_with_its_own_vote,
    clock_of_the_leader_is_slow,
)
