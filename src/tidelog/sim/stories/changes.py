"""A topic whose replication mode changes while it is used: what each step waits for, and what a crash at its
worst moment does. In a log ∎ is a seal, · a leader-change record, v a set of voters.
"""

from tidelog.config.modes import WITHOUT_MEANING
from tidelog.config.topic import REPLICATION_MODE
from tidelog.controller import configs
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.controller.successions import mode_changes
from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.protocol.records import ControlType, control_type, decode_batch
from tidelog.sim.story import TOPIC, Story
from tidelog.sim.telling import expect

SIGNS: dict[int, str] = {
    ControlType.SEAL: "∎",
    ControlType.LEADER_CHANGE: "·",
    ControlType.KRAFT_VOTERS: "v",
    ControlType.LOG_START: "x",
}


class ChangeStory(Story):
    def topic(self) -> TopicImage:
        return self.cluster.checker.metadata.newest.topics[TOPIC]

    def change(self, mode: str) -> None:
        self.tell(f"the topic shall be replicated by {mode}")
        rules = Rulebook(self.cluster.config)

        def decide(image: ClusterImage) -> list[MetadataRecord]:
            kept = {
                name: text
                for name, text in image.topics[TOPIC].configs.items()
                if name not in WITHOUT_MEANING[mode]
            }
            return configs.change_topic(image, TOPIC, {**kept, REPLICATION_MODE: mode}, rules)

        self.cluster.decide(decide)

    def has_changed(self) -> bool:
        return not mode_changes.under_way(self.topic()) and self.partition().leader >= 0

    def await_change(self, mode: str) -> None:
        self.until(lambda: self.partition().mode == mode and self.has_changed(), f"the change to {mode}")

    def state(self) -> str:
        return f"{self.partition().mode}: {super().state()}"

    def _log(self, letter: str) -> str:
        driver = self.driver(letter)
        log, watermark = driver.log, driver.replica.high_watermark
        words = [letter]
        offset = log.start_offset
        while offset < log.end_offset:
            data = bytes(log.read(offset, 1 << 20, log.end_offset, at_least_one_batch=True).read())
            for position, header in iterate(data):
                for record in decode_batch(data[position : position + header.size]):
                    if record.offset == watermark:
                        words.append("|")
                    kind = control_type(record.key) if header.is_control else None
                    words.append(SIGNS.get(kind, "?") if kind is not None else (record.value or b"").decode())
                offset = header.next_offset
        return " ".join(words) + (" |" if watermark >= log.end_offset else "")


def round_trip() -> ChangeStory:
    """From isr to quorum, on to primary-backup, and back to isr: every record stays, in order."""
    story = ChangeStory()
    expect(story.write(), ErrorCode.NONE)
    for mode in ("quorum", "primary-backup", "isr"):
        story.change(mode)
        story.await_change(mode)
        story.until(story.all_in_sync, "that all have caught up")
        story.run(100)
        expect(story.write(), ErrorCode.NONE)
        story.run(300)
        story.tell_logs()
    expect(story.read(), ["r1", "r2", "r3", "r4"])
    return story


def majority_is_waited_for() -> ChangeStory:
    """From isr to quorum with one member in sync: two replicas that lack records could elect each other, so
    the change waits until a majority is in sync.
    """
    story = ChangeStory()
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.write(acks=1), ErrorCode.NONE)
    story.change("quorum")
    story.run(1000)
    expect(story.partition().mode, "isr")
    story.start("B")
    story.await_change("quorum")
    expect(story.write(), ErrorCode.NONE)
    story.start("C")
    story.run(1500)
    story.tell_logs()
    expect(story.read(), ["r1", "r2"])
    return story


def sealed_without_controllers() -> ChangeStory:
    """From quorum to isr while the controllers are unreachable: the log is sealed and accepts no records,
    also after the leader dies. The change completes when the controllers are back.
    """
    story = ChangeStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.change("isr")
    story.run(10)
    story.until(lambda: story.driver("A").replica.sealed_end_offset is not None, "the seal")
    story.kill("XYZ")
    story.kill("A")
    story.until(lambda: any(_leads(story, letter) for letter in "BC"), "an election")
    story.run(500)
    story.tell_logs()
    for letter in "BC":
        if _leads(story, letter):
            expect(story.write(at=letter), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            expect(story.read(at=letter), ["r1"])
    story.start("XYZ")
    story.await_change("isr")
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.tell_logs()
    return story


def voters_that_have_not_heard() -> ChangeStory:
    """From quorum to isr while two voters can reach neither the controllers nor, later, the leader: they
    elect one of themselves, but it finds the seal in its log and accepts nothing. When they learn of the
    change they follow the appointed leader.
    """
    story = ChangeStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.cut("BC", "XYZ")
    story.change("isr")
    story.until(lambda: story.driver("A").replica.sealed_end_offset is not None, "the seal")
    story.run(10)
    story.cut("A", "BC")
    story.await_change("isr")
    story.until(lambda: any(_leads(story, letter) for letter in "BC"), "an election")
    story.run(200)
    story.tell_logs()
    elected = next(letter for letter in "BC" if _leads(story, letter))
    expect(story.write(at=elected), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    story.until(lambda: story.in_sync() == "ABC" and not _leads(story, elected), "that all follow A")
    story.run(200)
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.tell_logs()
    expect(story.read(), ["r1", "r3"])
    return story


def voters_do_not_follow_hearsay() -> ChangeStory:
    """From quorum to isr while two voters cannot reach the controllers, only the appointed leader: they do
    not follow it on its own word. Otherwise they would get records after the seal and accept more after its
    death.
    """
    story = ChangeStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.cut("BC", "XYZ")
    story.change("isr")
    story.await_change("isr")
    story.run(200)
    expect(story.write(acks=1), ErrorCode.NONE)
    story.run(200)
    story.kill("A")
    story.until(lambda: any(_leads(story, letter) for letter in "BC"), "an election")
    story.run(200)
    story.tell_logs()
    elected = next(letter for letter in "BC" if _leads(story, letter))
    expect(story.write(at=elected), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    story.heal()
    story.start("A")
    story.until(story.all_in_sync, "that all are back")
    story.run(300)
    story.tell_logs()
    return story


def who_lacks_records_is_no_member() -> ChangeStory:
    """From quorum to isr while one voter lacks a record: only replicas that hold the whole log become
    members.
    """
    story = ChangeStory(replication_mode="quorum")
    story.cut("C", "AB")
    expect(story.write(), ErrorCode.NONE)
    story.change("isr")
    story.await_change("isr")
    expect(story.in_sync(), "AB")
    story.heal()
    story.until(story.all_in_sync, "the return of C")
    expect(story.read(), ["r1"])
    return story


def there_and_back() -> ChangeStory:
    """From quorum to isr and back at once: the seal at the end of the log belongs to an earlier epoch, and
    records are accepted again.
    """
    story = ChangeStory(replication_mode="quorum")
    expect(story.write(), ErrorCode.NONE)
    story.change("isr")
    story.await_change("isr")
    story.change("quorum")
    story.await_change("quorum")
    story.run(100)
    expect(story.write(), ErrorCode.NONE)
    story.run(300)
    story.tell_logs()
    expect(story.read(), ["r1", "r2"])
    return story


def first_replica_is_waited_for() -> ChangeStory:
    """From isr to primary-backup while the first replica is down: it would become the primary and lacks
    records, so the change waits until it is in sync.
    """
    story = ChangeStory()
    story.kill("A")
    story.until(lambda: story.is_led_anew(0), "an election")
    expect(story.write(), ErrorCode.NONE)
    story.change("primary-backup")
    story.run(500)
    expect(story.partition().mode, "isr")
    story.start("A")
    story.await_change("primary-backup")
    story.run(200)
    expect(story.leader(), "A")
    expect(story.read(), ["r1"])
    return story


def primary_is_waited_for() -> ChangeStory:
    """From primary-backup to isr while the primary is down: it may hold records that no other replica has, so
    the change waits for it.
    """
    story = ChangeStory(replication_mode="primary-backup", min_insync_replicas="1")
    story.cut("A", "BC")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.heal()
    story.until(lambda: story.partition().leader < 0, "the end of A")
    story.change("isr")
    story.run(500)
    expect(story.partition().mode, "primary-backup")
    story.start("A")
    story.await_change("isr")
    story.until(story.all_in_sync, "that all have caught up")
    expect(story.read(), ["r1"])
    return story


def _leads(story: ChangeStory, letter: str) -> bool:
    replica = story.driver(letter).replica
    return replica.leader == replica.me


STORIES = (
    round_trip,
    there_and_back,
    majority_is_waited_for,
    first_replica_is_waited_for,
    primary_is_waited_for,
    who_lacks_records_is_no_member,
    sealed_without_controllers,
    voters_that_have_not_heard,
    voters_do_not_follow_hearsay,
)
