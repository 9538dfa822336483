"""What earlier processes of a broker have said to the controllers, and arrives when a later one runs: mode
``isr``, three replicas, ``min.insync.replicas=2`` where nothing else is said.
"""

from collections.abc import Callable
from typing import Any

from tidelog.broker.node.ports import Asked
from tidelog.controller import brokers, reassignment
from tidelog.controller.image import BrokerImage
from tidelog.controller.messages import HeartbeatAsk, InSyncAsk, OfflineAsk, RegisterAsk
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode
from tidelog.replication.messages import FetchAsk
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect


class LateStory(Story):
    """One of a broker's messages is delayed until the story releases it."""

    def withhold(self, letter: str, what: str, wanted: Callable[[Any], bool]) -> None:
        """The next such message of a broker. Later ones arrive."""
        (node,) = self.nodes(letter)
        self.tell(f"the next {what} of {letter} will be late")
        self._holds = False

        def is_next(sender: int, receiver: int, message: Any) -> bool:
            if self._holds or sender != node or not wanted(message):
                return False
            self._holds = True
            return True

        self.network.withheld = is_next

    def until_sent(self) -> None:
        self.until(lambda: self._holds, "the message")

    def arrive(self, what: str) -> None:
        self.tell(f"{what} arrives")
        self.network.withheld = None
        self.network.release()
        self.run(300)

    def broker(self, letter: str) -> BrokerImage:
        """As the controllers see it."""
        (node,) = self.nodes(letter)
        return self.cluster.checker.metadata.newest.brokers[node]

    def is_registered(self, letter: str) -> bool:
        """By the process that runs."""
        node, (number,) = self.machine(letter).node, self.nodes(letter)
        broker = self.cluster.checker.metadata.newest.brokers.get(number)
        return node is not None and broker is not None and broker.incarnation == node.membership.incarnation

    def serves(self, letter: str) -> bool:
        return self.is_registered(letter) and not self.broker(letter).fenced

    def start_again(self, letter: str) -> None:
        self.kill(letter)
        self.start(letter)
        self.until(lambda: self.serves(letter), f"the return of {letter}")


def late_word_of_a_power_failure() -> Story:
    """A, the last member, returns after a power failure, and a copy of its registration is late. Its next
    process has caught up with everything, as the only one: it is not removed for what the earlier process
    reported.
    """
    story = LateStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.power_off("A")
    story.withhold("A", "registration", _is_registration)
    story.start("A")
    story.until_sent()
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.start_again("A")
    story.until(story.all_in_sync, "the return of A")
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    epoch = story.partition().leader_epoch
    story.arrive("the registration of A's earlier process")
    expect((story.leader(), story.partition().leader_epoch), ("A", epoch))
    expect(story.write(), ErrorCode.NONE)
    story.start("BC")
    return story.end_whole("B and C")


def late_word_of_the_former_disk() -> Story:
    """A's disk was replaced, and A, the last member, is frozen for a while. The registration of its process
    on the old disk arrives now: A's new disk, which holds everything, does not count as empty.
    """
    story = LateStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.withhold("A", "registration", _is_registration)
    story.start("A")
    story.until_sent()
    story.lose_disk("A")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.until(lambda: story.leader() == "A", "an election")
    story.run(50)
    expect(story.write(), ErrorCode.NONE)
    story.freeze("A")
    story.until(lambda: story.leader() == "nobody", "the end of A's session")
    story.run(1000)  # until a majority of the controllers has followed since
    story.arrive("the registration of the old disk's process")
    story.thaw("A")
    story.until(lambda: story.leader() == "A", "the return of A")
    story.run(50)
    expect(story.read(), ["r1", "r2"])
    story.start("BC")
    return story.end_whole("B and C")


def late_word_comes_first() -> Story:
    """A is started twice, and the first process's registration arrives before the second's: the controllers
    cannot know, and register a dead process. The living one is told so, and takes its place.
    """
    story = LateStory()
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.until(lambda: story.leader() != "A", "the end of the leadership")
    story.withhold("A", "registration", _is_well_informed)
    story.start("A")
    story.until_sent()
    story.kill("A")
    story.start("A")
    story.tell("the registration of the first process arrives")
    story.network.withheld = None
    story.network.release()
    story.until(lambda: story.serves("A"), "the return of A")
    return story.end_whole("A")


def late_word_of_a_broker_that_was_unregistered() -> Story:
    """D has no replicas, is stopped, and is unregistered. An old registration does not bring it back; a new
    process does.
    """
    story = LateStory(brokers=4)
    rules = Rulebook(story.cluster.config)
    expect(story.write(), ErrorCode.NONE)
    story.withhold("D", "registration", _is_registration)
    story.start_again("D")
    story.tell("the partition moves from D to A, B and C")
    target = tuple(story.nodes("ABC"))
    story.cluster.decide(lambda image: reassignment.begin(image, TOPIC, 0, target, rules.at(image)))
    story.until(lambda: story.partition().replicas == target, "the move")
    story.kill("D")
    story.until(lambda: story.broker("D").fenced, "the end of D's session")
    story.tell("D is unregistered")
    (gone,) = story.nodes("D")
    story.cluster.decide(lambda image: brokers.unregister(image, gone))
    story.run(100)
    story.arrive("the registration of D's earlier process")
    expect(gone in story.cluster.checker.metadata.newest.brokers, False)
    story.start("D")
    story.until(lambda: story.serves("D"), "the return of D")
    story.tell("D is registered again")
    return story.end()


def late_heartbeat_of_an_earlier_process() -> Story:
    """A restarts and is unreachable. A heartbeat of its earlier process does not unfence it: it is unknown
    whether the new process knows its successor.
    """
    story = LateStory()
    expect(story.write(), ErrorCode.NONE)
    story.withhold("A", "heartbeat", _is_heartbeat)
    story.until_sent()
    story.kill("A")
    story.until(lambda: story.leader() == "B", "an election")
    story.network.withheld = _only_from(story, "A", _is_heartbeat)
    story.start("A")
    story.until(lambda: story.is_registered("A"), "the registration of A")
    story.tell("A is registered, and its own heartbeats are late")
    story.run(300)
    story.tell("the heartbeat of A's earlier process arrives")
    story.network.release(1)
    story.run(300)
    expect(story.broker("A").fenced, True)
    story.network.withheld = None
    story.arrive("what A said since")
    return story.end_whole("A")


def late_wish_to_stop() -> Story:
    """A stopped cleanly and is back. The shutdown request of its earlier process is outdated: A continues to
    lead.
    """
    story = LateStory()
    expect(story.write(), ErrorCode.NONE)
    story.withhold("A", "wish to stop", _wishes_to_stop)
    story.tell("A is to stop")
    story.machine("A").stop(lambda: None)
    story.until(lambda: not story.machine("A").alive, "the end of A")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.run(50)
    epoch = story.partition().leader_epoch
    story.arrive("the wish of A's earlier process")
    expect((story.leader(), story.partition().leader_epoch), ("A", epoch))
    expect((story.broker("A").leaving, story.broker("A").fenced), (False, False))
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def late_proposal_of_an_earlier_process() -> Story:
    """A proposed that C leaves, and was restarted. C has caught up since, and stays when A leads again and
    that proposal arrives.
    """
    story = LateStory()
    expect(story.write(), ErrorCode.NONE)
    story.withhold("A", "proposal", _is_proposal)
    story.cut("C", "A")
    story.send()
    story.until_sent()
    story.heal()
    story.start_again("A")
    story.until(story.all_in_sync, "the return of A")
    if story.leader() != "A":
        story.prefer("A")
    story.run(50)
    state = story.partition()
    story.arrive("the proposal of A's earlier process")
    expect(story.partition(), state)
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def late_report_of_a_failed_log() -> Story:
    """A's disk was full, and A was restarted after the repair. The report of its earlier process is outdated:
    A continues to lead.
    """
    story = LateStory()
    expect(story.write(), ErrorCode.NONE)
    story.withhold("A", "report", _is_report)
    story.fill_disk("A")
    story.send()
    story.until_sent()
    story.repair_disk("A")
    story.start_again("A")
    story.until(story.all_in_sync, "the return of A")
    story.prefer("A")
    story.run(50)
    state = story.partition()
    story.arrive("the report of A's earlier process")
    expect(story.partition(), state)
    expect(story.write(), ErrorCode.NONE)
    return story.end()


def late_fetch_from_the_former_disk() -> Story:
    """C had fetched r2 and asked for the next, then its disk was replaced. That late fetch is no
    acknowledgement of the new, empty disk.
    """
    story = LateStory(min_insync_replicas="3")
    expect(story.write(), ErrorCode.NONE)
    story.withhold("C", "acknowledgement", _is_acknowledgement)
    waiting = story.send()
    story.until_sent()
    story.lose_disk("C")
    story.until(lambda: story.in_sync() == "AB", "the departure of C")
    story.cut("C", "AB")
    story.start("C")
    story.until(lambda: story.serves("C"), "the return of C")
    story.run(50)
    story.network.mend(*story.nodes("CA"))
    story.arrive("the fetch of the old disk's process")
    expect(story.in_sync(), "AB")
    story.heal()
    story.await_answer(waiting)
    return story.end_whole("C")


def _only_from(story: Story, letter: str, wanted: Callable[[Any], bool]) -> Callable[[int, int, Any], bool]:
    (node,) = story.nodes(letter)
    return lambda sender, receiver, message: sender == node and wanted(message)


def _asks(message: Any, kind: type) -> bool:
    return isinstance(message, Asked) and isinstance(message.ask, kind)


def _is_registration(message: Any) -> bool:
    return _asks(message, RegisterAsk)


def _is_well_informed(message: Any) -> bool:
    """Of a process that knows of its predecessor's registration."""
    return _asks(message, RegisterAsk) and bool(message.ask.known_epoch)


def _is_heartbeat(message: Any) -> bool:
    return _asks(message, HeartbeatAsk)


def _wishes_to_stop(message: Any) -> bool:
    return _asks(message, HeartbeatAsk) and message.ask.leaving


def _is_proposal(message: Any) -> bool:
    return _asks(message, InSyncAsk)


def _is_report(message: Any) -> bool:
    return _asks(message, OfflineAsk)


def _is_acknowledgement(message: Any) -> bool:
    """Of two records."""
    return isinstance(message, FetchAsk) and any(item.offset == 2 for item in message.items)


STORIES = (
    late_word_of_a_power_failure,
    late_word_of_the_former_disk,
    late_word_comes_first,
    late_word_of_a_broker_that_was_unregistered,
    late_heartbeat_of_an_earlier_process,
    late_wish_to_stop,
    late_proposal_of_an_earlier_process,
    late_report_of_a_failed_log,
    late_fetch_from_the_former_disk,
)
