"""Settings that promise more than before, on a topic that is in use: from when they count. And what else may
become of records between the moment in which they are acknowledged and the one in which they are safe.
"""

from collections.abc import Callable

from tidelog.controller import configs, reassignment
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import InSyncAsk, PromiseConfirmedAsk
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.stories.primary_backup_group import promote
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect

SLOW_MS = 5000.0

Decision = Callable[[ClusterImage], list[MetadataRecord]]


class DurabilityStory(ChangeStory):
    def state(self) -> str:
        partition, state = self.partition(), super().state()
        if partition.unsynced:
            state += f", not yet synced {self._list(partition.unsynced)}"
        if partition.copies:
            state += f", not yet more than {partition.copies} copies"
        return state

    def decide(self, decide: Decision) -> None:
        self.cluster.decide(decide)
        self.run(50)

    def set_for_topic(self, name: str, value: str) -> None:
        self.tell(f"the topic gets {name}={value}")
        rules = Rulebook(self.cluster.config)
        self.decide(
            lambda image: configs.change_topic(
                image, TOPIC, {**image.topics[TOPIC].configs, name: value}, rules
            )
        )

    def set_for_all(self, name: str, value: str) -> None:
        self.tell(f"all brokers get {name}={value}")
        rules = Rulebook(self.cluster.config)
        self.decide(lambda image: configs.change_broker(image, "", {name: value}, rules))

    def move(self, letters: str) -> None:
        self.tell(f"move to {' '.join(letters)}")
        rules, target = Rulebook(self.cluster.config), self.nodes(letters)
        self.decide(lambda image: reassignment.begin(image, TOPIC, 0, target, rules.at(image)))

    def cancel_move(self) -> None:
        self.tell("cancel the move")
        rules = Rulebook(self.cluster.config)
        self.decide(lambda image: reassignment.cancel(image, TOPIC, 0, rules.at(image)))

    def slow_disk(self, letters: str) -> None:
        self.tell(f"the disks of {' and '.join(letters)} become slow")
        for letter in letters:
            machine = self.machine(letter)
            machine.disk_delay_ms = (SLOW_MS, SLOW_MS)
            if machine.services is not None:
                machine.services.disk_delay_ms = machine.disk_delay_ms

    def repair_disks(self, letters: str) -> None:
        for letter in letters:
            self.repair_disk(letter)

    def has_moved_to(self, letters: str) -> bool:
        partition = self.partition()
        return partition.replicas == tuple(self.nodes(letters)) and not partition.is_moving


def _three_records(story: DurabilityStory) -> None:
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)


def _two_forget_meanwhile(story: DurabilityStory, records: int = 3) -> DurabilityStory:
    """B and C lose power before they have synced what they had acknowledged, and A, which has it, is dead."""
    story.run(300)
    story.power_off("BC")
    story.kill("A")
    story.repair_disks("BC")
    story.start("BC")
    story.run(5000)
    expect(story.leader(), "nobody")
    story.start("A")
    story.until(lambda: story.is_led_anew(0) and story.all_in_sync(), "the return of everybody")
    story.run(500)
    expect(story.read(), [f"r{number + 1}" for number in range(records)])
    story.run(500)
    expect(story.partition().unsynced, ())
    return story


def sync_turned_on() -> DurabilityStory:
    """A topic gets flush.messages=1. Until a replica has confirmed that its log is synced, a power failure
    counts as before: a replica that lost power in between does not lead.
    """
    story = DurabilityStory()
    _three_records(story)
    story.slow_disk("BC")
    story.set_for_topic("flush.messages", "1")
    return _two_forget_meanwhile(story)


def sync_turned_on_for_all() -> DurabilityStory:
    """All brokers get log.flush.interval.messages=1. Until a replica has confirmed that its log is synced, a
    power failure counts as before.
    """
    story = DurabilityStory()
    _three_records(story)
    story.slow_disk("BC")
    story.set_for_all("log.flush.interval.messages", "1")
    return _two_forget_meanwhile(story)


def sync_turned_off_and_on() -> DurabilityStory:
    """flush.messages=1 is removed and set again. Confirmations of the first time arrive late: they say
    nothing about the records in between.
    """
    story = DurabilityStory()
    _three_records(story)
    story.network.withheld = lambda sender, receiver, message: _is_confirmed_by(message, *story.nodes("BC"))
    story.set_for_topic("flush.messages", "1")
    story.run(200)
    story.network.withheld = None
    story.set_for_topic("flush.messages", "10000")
    expect(story.write(), ErrorCode.NONE)
    story.slow_disk("BC")
    story.set_for_topic("flush.messages", "1")
    story.tell("what B and C said the first time arrives")
    story.network.release()
    return _two_forget_meanwhile(story, records=4)


def sync_has_counted() -> DurabilityStory:
    """Once all replicas have confirmed flush.messages=1, it holds for everything acknowledged before: all
    lose power, and nothing is lost.
    """
    story = DurabilityStory()
    _three_records(story)
    story.set_for_topic("flush.messages", "1")
    story.until(lambda: not story.partition().unsynced, "the last confirmation")
    story.power_off("ABC")
    story.start("ABC")
    story.until(lambda: story.is_led_anew(0) and story.all_in_sync(), "the return of everybody")
    expect(story.read(), ["r1", "r2", "r3"])
    return story


def sync_by_another_mode() -> DurabilityStory:
    """From isr to quorum, which syncs: a voter that loses power before it has confirmed the sync counts as
    one that lost data, until its leader readmits it.
    """
    story = DurabilityStory()
    _three_records(story)
    story.slow_disk("B")
    story.change("quorum")
    story.await_change("quorum")
    story.run(300)
    story.power_off("B")
    story.repair_disk("B")
    story.start("B")
    story.until(lambda: story.in_sync() == "AC", "that B does not count")
    story.until(lambda: story.all_in_sync() and not story.partition().unsynced, "the return of B")
    story.power_off("ABC")
    story.start("ABC")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    story.run(1000)
    expect(story.read(), ["r1", "r2", "r3"])
    return story


def more_copies() -> DurabilityStory:
    """A topic with one copy gets three. Records acknowledged before are on the primary only: a new leader
    still goes by one copy, and waits for the primary.
    """
    story = DurabilityStory(replication_mode="primary-backup", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    expect(story.write(), ErrorCode.NONE)
    story.set_for_topic("min.insync.replicas", "3")
    story.kill("A")
    story.start("BC")
    story.until(lambda: acting_leader(story.partition()) < 0, "the end of the leadership")
    promote(story, "B")
    story.run(3000)
    expect(acting_leader(story.partition()), -1)
    story.start("A")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the new primary")
    story.until(lambda: not story.partition().copies, "three copies of everything")
    expect(story.read(at="B"), ["r1", "r2"])
    return story


def move_taken_back() -> DurabilityStory:
    """A move is cancelled after its new primary began to lead: the old primary takes over only when it has
    what the new one acknowledged.
    """
    story = DurabilityStory(4, replication_mode="primary-backup", min_insync_replicas="1")
    story.move("AB")
    story.until(lambda: story.has_moved_to("AB"), "the smaller set")
    expect(story.write(), ErrorCode.NONE)
    story.move("CD")
    story.until(lambda: story.leader() == "C", "the new primary")
    story.kill("D")
    story.until(lambda: acting_leader(story.partition()) >= 0, "that C leads")
    story.cut("C", "AB")
    expect(story.write(), ErrorCode.NONE)
    story.cancel_move()
    story.run(2000)
    story.heal()
    story.until(lambda: story.has_moved_to("AB") and story.all_in_sync(), "the old set")
    expect(story.read(), ["r1", "r2"])
    return story


def source_forgets() -> DurabilityStory:
    """A primary copies records back from a backup. The backup loses power before it has sent them: the
    primary continues with what is left instead of waiting.
    """
    story = DurabilityStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("C")
    _three_records(story)
    story.power_off("A")
    story.start("A")
    story.until(lambda: story.leader() == "A" and story.in_sync() == "B", "that A asks the others")
    story.run(1000)
    story.power_off("B")
    story.start("B")
    story.run(1000)
    story.start("C")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    return story.end()


def seal_of_an_earlier_wish() -> DurabilityStory:
    """From primary-backup to isr, back, and again to isr. The primary's first report of the holders of its
    log arrives late: it has accepted records since, which they lack.
    """
    story = DurabilityStory(replication_mode="primary-backup", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.network.withheld = lambda sender, receiver, message: is_seal(message)
    story.change("isr")
    story.run(100)
    story.change("primary-backup")
    story.run(100)
    story.cut("A", "BC")
    expect(story.write(), ErrorCode.NONE)
    story.change("isr")
    story.run(100)
    story.tell("what A said when it had paused the first time arrives")
    story.network.release(1)
    story.run(200)
    story.kill("A")
    story.run(4000)
    story.network.withheld = None
    story.heal()
    story.start("A")
    story.until(lambda: story.has_changed() and story.all_in_sync(), "the change to isr")
    expect(story.read(), ["r1", "r2"])
    return story


def _is_confirmed_by(message: object, *nodes: int) -> bool:
    ask = getattr(message, "ask", None)
    return isinstance(ask, PromiseConfirmedAsk) and ask.broker_id in nodes


def is_seal(message: object) -> bool:
    ask = getattr(message, "ask", None)
    return isinstance(ask, InSyncAsk) and ask.proposal.sealed


STORIES = (
    sync_turned_on,
    sync_turned_on_for_all,
    sync_turned_off_and_on,
    sync_has_counted,
    sync_by_another_mode,
    more_copies,
    move_taken_back,
    source_forgets,
    seal_of_an_earlier_wish,
)
