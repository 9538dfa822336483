"""Interactions of two rules: a report that was true when it was sent, and arrives when it no longer is."""

from typing import Any

from tidelog.config.modes import QUORUM
from tidelog.controller.messages import InSyncAsk, OfflineAsk, PromiseConfirmedAsk
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.replication.messages import FetchGot
from tidelog.sim.stories.durability import DurabilityStory
from tidelog.sim.stories.quorum_memory import Memory
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

Word = tuple[int, int, Any]
"""(sender, receiver, message)"""


class SeamStory(DurabilityStory, Memory):
    """Settings that change, logs that lose records, and moves."""

    def __init__(self, brokers: int = 3, seed: int = 1, **configs: str) -> None:
        Story.__init__(self, brokers, seed, **configs)

    def repair(self, letter: str, record: int) -> None:
        """Damage is found in the newest records, and they are truncated."""
        self.drop(letter, record)
        self.until(lambda: self.driver(letter).log.end_offset == record, "the repair")

    def hold_metadata(self, letter: str, after: int) -> None:
        """The controllers' metadata for a broker is delayed, except that many responses."""
        node, controllers, told = self.machine(letter).node_id, set(self.nodes("XYZ")), 0

        def hold(sender: int, receiver: int, message: Any) -> bool:
            nonlocal told
            news = isinstance(message, FetchGot) and message.parts
            if not news or receiver != node or sender not in controllers:
                return False
            told += 1
            return told > after

        self.network.withheld = hold

    def overhear(self) -> list[Word]:
        """Reports of elected leaders to the controllers from now on."""
        heard: list[Word] = []

        def listen(sender: int, receiver: int, message: Any) -> bool:
            if _proposal(message) and message.ask.proposal.elected:
                heard.append((sender, receiver, message))
            return False

        self.network.withheld = listen
        return heard


def member_lost_records_since_the_seal() -> SeamStory:
    """From quorum to isr. The log is sealed, and the leader's report of its holders is in flight when one of
    them truncates damaged records in the same process, and cannot fetch them: it does not become a member,
    and does not lead when both others are down.
    """
    story = SeamStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.network.withheld = lambda sender, receiver, message: _is_seal(message)
    story.change("isr")
    story.run(300)
    story.repair("B", 1)
    story.cut("A", "B")
    story.run(100)
    story.tell("what A says of the holders of its log arrives")
    story.network.withheld = None
    story.network.release(1)
    story.await_change("isr")
    story.tell_logs()
    story.kill("AC")
    story.heal()
    story.run(4000)
    expect(story.leader(), "nobody")
    story.start("AC")
    story.until(story.all_in_sync, "the return of A and C")
    expect(story.read(), ["r1", "r2"])
    return story


def leader_lost_records_since_the_seal() -> SeamStory:
    """From quorum to isr. The leader truncates damaged records after it has sealed its log, and another one
    leads: the controllers do not appoint the first one by its earlier report.
    """
    story = SeamStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.network.withheld = lambda sender, receiver, message: _is_seal(message)
    story.change("isr")
    story.run(300)
    story.repair("A", 1)
    story.cut("A", "BC")
    story.run(100)
    story.tell("what A said of the holders of its log arrives")
    story.network.withheld = None
    story.network.release(1)
    story.await_change("isr")
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    expect(story.read(), ["r1", "r2"])
    return story


def sealed_by_one_that_lost_power() -> SeamStory:
    """From quorum without syncing to isr. All lose power after the log is sealed, before the controllers
    learn of it: the leader then elected, by voters that lost only their unsynced tails, is trusted.
    """
    story = SeamStory(replication_mode=QUORUM, flush_messages="1000")
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.network.withheld = lambda sender, receiver, message: _is_seal(message)
    story.change("isr")
    story.run(4000)
    story.power_off("ABC")
    story.network.withheld = None
    story.start("ABC")
    story.await_change("isr")
    story.until(story.all_in_sync, "the return of everybody")
    expect(story.read(), ["r1"])
    return story


def backup_dropped_records_and_has_not_said_so() -> SeamStory:
    """Three copies. A backup truncates a damaged record that it had acknowledged, and its report is delayed;
    the primary loses power and the record, and the other backup, which holds it, is down. The first backup's
    answer is not enough: the primary waits for the other one.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="3")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.network.withheld = lambda sender, receiver, message: _is_healed(message)
    story.cut("A", "B")
    story.repair("B", 1)
    story.kill("C")
    story.power_off("A")
    story.repair_disk("A")
    story.heal()
    story.run(50)
    story.start("A")
    story.run(6000)
    expect(acting_leader(story.partition()), -1)
    story.start("C")
    story.run(500)
    story.network.withheld = None
    story.network.release()
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    expect(story.read(), ["r1", "r2"])
    return story


def voters_of_an_earlier_move() -> SeamStory:
    """A partition is moved from one broker to another and back. A copy of the leader's report at the end of
    the first move arrives during the second, and names the final voters: it does not end the move, and the
    leaving replica keeps what only it and the leader hold.
    """
    story = SeamStory(4, replication_mode=QUORUM)
    heard = story.overhear()
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the smaller set")
    story.network.withheld = None
    story.run(500)
    story.move("ABD")
    story.until(lambda: story.has_moved_to("ABD"), "the move")
    story.cut("C", "ABD")
    story.run(3000)
    story.move("ABC")
    story.run(300)
    story.cut("B", "AD")
    expect(story.write(), ErrorCode.NONE)
    story.tell("what A said at the end of the first move arrives again")
    story.network.send(*heard[-1])
    story.run(100)
    story.tell_logs()
    story.lose_disk("A")
    story.heal()
    story.start("A")
    story.until(lambda: story.has_moved_to("ABC") and story.all_in_sync(), "the end of the move")
    story.run(500)
    expect(story.read(at=story.elected()), ["r1"])
    return story


def fewer_copies_in_between() -> SeamStory:
    """A topic with one copy gets three, then two, then three again. The confirmation that three replicas hold
    the whole log arrives late: it says nothing about records acknowledged with two. The primary loses such a
    record with its power, and waits for the backup that holds it.
    """
    story = SeamStory(replication_mode="primary-backup", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.network.withheld = lambda sender, receiver, message: _is_confirmed(message)
    story.set_for_topic("min.insync.replicas", "3")
    story.run(300)
    story.set_for_topic("min.insync.replicas", "2")
    story.slow_disk("A")
    story.kill("C")
    story.run(200)
    expect(story.write(), ErrorCode.NONE)
    story.set_for_topic("min.insync.replicas", "3")
    story.tell("what A said of three copies the first time arrives")
    story.network.withheld = None
    story.network.release(1)
    story.run(100)
    story.power_off("A")
    story.repair_disk("A")
    story.kill("B")
    story.start("AC")
    story.run(6000)
    expect(acting_leader(story.partition()), -1)
    story.start("B")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of all")
    expect(story.read(), ["r1", "r2"])
    return story


def last_member_is_damaged() -> SeamStory:
    """The last member of the in-sync set returns with damaged records, which were synced. Replicas that left
    the set before may hold more: it does not lead by itself. An operator forces one of them.
    """
    story = SeamStory(min_insync_replicas="1", flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(3500)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.run(100)
    story.kill("A")
    story.flip_bit("A")
    story.start("ABC")
    story.run(4000)
    story.tell_logs()
    expect(story.leader(), "nobody")
    story.move("BAC")
    story.elect_unclean()
    story.until(story.all_in_sync, "that all follow")
    expect(story.read(), ["r1", "r2"])
    return story


def damaged_on_a_quiet_partition() -> SeamStory:
    """Some time after a move, without writes, a replica truncates damaged records: what its leader recorded
    of it during the move is outdated, and it is readmitted.
    """
    story = SeamStory(4, replication_mode=QUORUM)
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the smaller set")
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.drop("C", 2)
    story.until(lambda: not story.is_relied_on("C"), "the number of the loss")
    story.await_return("C")
    return story


def loss_noted_in_another_mode() -> SeamStory:
    """A voter truncates damaged records, and the topic changes to isr before the controllers have numbered
    the loss. There it is a member when it has caught up, and the loss is over: another member is down when
    the topic changes back, and it votes at once.
    """
    story = SeamStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.network.withheld = lambda sender, receiver, message: _is_healed(message)
    story.drop("B", 1)
    story.run(300)
    story.change("isr")
    story.await_change("isr")
    story.network.withheld = None
    story.network.release()
    story.until(story.all_in_sync, "that all have caught up")
    story.kill("C")
    story.change("quorum")
    story.await_change("quorum")
    expect(story.write(at=story.await_leader(not_by="")), ErrorCode.NONE)
    story.start("C")
    story.await_return("C")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def gone_and_back_unheard() -> SeamStory:
    """A topic gets flush.messages=1, and a replica with a slow disk learns neither of that nor of two moves,
    away and back. Its log is not synced, and it has not confirmed it: it does not vote, and the leaving
    replica stays. The first one loses power, and nothing is lost.
    """
    story = SeamStory(4, replication_mode=QUORUM, flush_messages="1000")
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the smaller set")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.slow_disk("C")
    story.set_for_topic("flush.messages", "1")
    story.move("ABD")
    story.until(lambda: story.has_moved_to("ABD"), "the first move")
    expect(story.write(), ErrorCode.NONE)
    story.move("ABC")
    story.run(200)
    story.cut("B", "ACD")
    expect(story.write(), ErrorCode.NONE)
    story.power_off("C")
    story.kill("A")
    story.repair_disk("C")
    story.heal()
    story.start("C")
    story.await_leader()
    story.start("A")
    story.until(lambda: story.has_moved_to("ABC") and story.all_in_sync(), "the end of the move")
    story.run(500)
    expect(story.read(at=story.elected()), ["r1", "r2", "r3", "r4", "r5"])
    return story


def gone_and_back_before_it_heard() -> SeamStory:
    """A replica is moved away and back, and follows its leader meanwhile without knowing of either. Then it
    learns that it was removed, and deletes its log: it must not be a member by what it had fetched before.
    """
    story = SeamStory(4)
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the smaller set")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.cut("D", "A")
    story.run(500)
    story.move("ABD")
    story.run(100)
    story.hold_metadata("C", after=1)
    story.heal()
    story.until(lambda: story.has_moved_to("ABD"), "the first move")
    story.send()
    story.run(60)
    story.move("ABC")
    story.run(100)
    story.tell("C hears that it was to go")
    story.network.release(1)
    story.run(50)
    story.kill("AB")
    story.network.withheld = None
    story.run(4000)
    expect(story.leader(), "D")
    story.start("AB")
    story.until(lambda: story.has_moved_to("ABC") and story.all_in_sync(), "the return of all")
    expect(story.read(), ["r1", "r2", "r3", "r4"])
    return story


def voter_gone_and_back_before_it_heard() -> SeamStory:
    """A voter is moved away and back without knowing of either: it does not vote before it knows of both
    moves. Otherwise it would drop a record that it had acknowledged, and help to elect a replica that lacks
    it, too.
    """
    story = SeamStory(4, replication_mode=QUORUM)
    story.move("ABC")
    story.until(lambda: story.has_moved_to("ABC"), "the smaller set")
    for _ in range(3):
        expect(story.write(), ErrorCode.NONE)
    story.cut("D", "A")
    story.run(3000)
    story.move("ABD")
    story.run(100)
    story.hold_metadata("C", after=3)
    story.heal()
    story.until(lambda: story.has_moved_to("ABD"), "the first move")
    story.send()
    story.run(60)
    story.move("ABC")
    story.run(200)
    story.cut("B", "AC")
    expect(story.write(), ErrorCode.NONE)
    story.tell("C hears that it was to go")
    story.network.release(1)
    story.run(50)
    story.tell_logs()
    story.kill("A")
    story.network.withheld = None
    story.heal()
    story.await_leader()
    story.start("A")
    story.until(lambda: story.has_moved_to("ABC") and story.all_in_sync(), "the end of the move")
    story.run(500)
    expect(story.read(at=story.elected()), ["r1", "r2", "r3", "r4", "r5"])
    return story


def _proposal(message: Any) -> bool:
    return isinstance(getattr(message, "ask", None), InSyncAsk)


def _is_seal(message: Any) -> bool:
    return _proposal(message) and bool(message.ask.proposal.sealed)


def _is_confirmed(message: Any) -> bool:
    ask = getattr(message, "ask", None)
    return isinstance(ask, PromiseConfirmedAsk) and any(confirmed.copied for confirmed in ask.confirmed)


def _is_healed(message: Any) -> bool:
    ask = getattr(message, "ask", None)
    return isinstance(ask, OfflineAsk) and ask.healed


STORIES = (
    member_lost_records_since_the_seal,
    leader_lost_records_since_the_seal,
    sealed_by_one_that_lost_power,
    backup_dropped_records_and_has_not_said_so,
    voters_of_an_earlier_move,
    fewer_copies_in_between,
    last_member_is_damaged,
    damaged_on_a_quiet_partition,
    loss_noted_in_another_mode,
    gone_and_back_unheard,
    gone_and_back_before_it_heard,
    voter_gone_and_back_before_it_heard,
)
