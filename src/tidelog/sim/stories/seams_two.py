"""More interactions of two rules: one relies on what the other does not check."""

from collections.abc import Callable
from typing import Any, cast

from tidelog.broker.quorum.voters import PartitionVoters
from tidelog.config.modes import QUORUM
from tidelog.controller.messages import OfflineAsk
from tidelog.controller.successions import acting_leader
from tidelog.errors import ErrorCode
from tidelog.log import layout
from tidelog.protocol.batch import HEADER_SIZE
from tidelog.replication.messages import FetchGot
from tidelog.sim.machine import DATA
from tidelog.sim.stories.seams import SeamStory
from tidelog.sim.story import TOPIC
from tidelog.sim.telling import expect

METADATA = f"{DATA}/__cluster_metadata-0"


class DiskStory(SeamStory):
    """Wrong bits in files other than records of a topic."""

    def stop(self, letter: str) -> None:
        """Cleanly: everything is on disk, and nothing has to be checked at the next start."""
        self.tell(f"{letter} stops cleanly")
        machine = self.machine(letter)
        machine.stop(lambda: None)
        self.until(lambda: not machine.alive, "its end")

    def hold_records(self, letter: str) -> None:
        """Reports of others about their logs are delayed."""
        node, brokers = self.machine(letter).node_id, set(self.nodes("ABC"))

        def hold(sender: int, receiver: int, message: Any) -> bool:
            return receiver == node and sender in brokers and isinstance(message, FetchGot)

        self.network.withheld = hold

    def copies_from(self, letter: str) -> str:
        """The replica whose log a leader copies back; none if it does not."""
        driver = self.driver(letter) if self.has_opened(letter) else None
        if driver is None or not driver.restorer.gathers or driver.replica.leader in (-1, driver.replica.me):
            return ""
        return self._list([driver.replica.leader])

    def is_copying(self, letter: str) -> bool:
        return bool(self.copies_from(letter))

    def knows_of_damage(self, letter: str) -> bool:
        """Whether a broker knows that the controllers know of its damaged log."""
        machine = self.machine(letter)
        image = machine.node.image if machine.node is not None else None
        return image is not None and machine.node_id in image.topics[TOPIC].partitions[0].damaged

    def is_readmitted_by_its_log(self, letter: str) -> bool:
        voters = cast(PartitionVoters, self.driver(letter).voters).latest
        voter = voters.get(self.machine(letter).node_id)
        return voter is not None and voter.heals >= 0

    def remembers(self, letter: str) -> bool:
        """Whether the controllers count on what the replica acknowledged."""
        return self.machine(letter).node_id in self.partition().remember

    def flip_in_metadata(self, letter: str) -> None:
        """While the process is dead: in the last batch that it knows."""
        self.tell(f"a bit flips in the metadata log of {letter}")
        disk = self.machine(letter).disk
        path = max(path for path in disk.contents(METADATA) if path.endswith(layout.LOG_SUFFIX))
        disk.flip(path, HEADER_SIZE + 2, 4)

    def flip_in_topic_id(self, letter: str) -> None:
        """While the process is dead."""
        self.tell(f"a bit flips in the topic's id that {letter} has noted")
        path = f"{DATA}/{TOPIC}-0/{layout.PARTITION_METADATA_FILE}"
        self.machine(letter).disk.flip(path, len(b"version: 0\ntopic_id: ") + 5, 0)

    def flip_in_history(self, letter: str) -> None:
        """While the process is dead: epoch 1 becomes epoch 9."""
        self.tell(f"a bit flips in the history of epochs of {letter}")
        disk = self.machine(letter).disk
        path = f"{DATA}/{TOPIC}-0/{layout.EPOCHS_FILE}"
        disk.flip(path, len(b"0\n1\n"), 3)


def voter_with_a_damaged_metadata_log() -> DiskStory:
    """A voter was readmitted once, so the others know its disk id. Its metadata log is damaged: as a
    controller it would need readmission, but its records and ballots are intact. It votes when the leader is
    killed.
    """
    story = DiskStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.drop("B", 1)
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.await_return("B")
    story.kill("B")
    story.flip_in_metadata("B")
    story.start("B")
    story.until(lambda: "B" in story.in_sync(), "the return of B")
    story.run(1000)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    expect(story.read(at=story.elected()), ["r1", "r2", "r3"])
    return story


class CombinedStory(DiskStory):
    """The brokers are the controllers."""

    controllers = 0

    @property
    def active(self) -> str:
        """The active controller."""
        active = self.cluster.active()
        return "" if active is None else self._list([active.node_id])


def voter_with_two_ids() -> CombinedStory:
    """A broker's metadata log is damaged, so it has a new id as a controller. Later its replica loses records
    and is readmitted: under the id with which it votes on partitions. It votes when the leader is killed.
    """
    story = CombinedStory(seed=3, replication_mode=QUORUM)
    expect(story.active, "A")  # So that B fetches metadata and records from one broker.
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.kill("B")
    story.flip_in_metadata("B")
    story.start("B")
    story.until(lambda: "B" in story.in_sync(), "the return of B")
    story.run(1000)
    story.drop("B", 1)
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.await_return("B")
    story.run(1000)
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    expect(story.read(at=story.elected()), ["r1", "r2", "r3"])
    return story


def wrong_epoch_in_the_history() -> DiskStory:
    """A voter stops cleanly, and one bit of its leader epoch history is wrong at the next start: its records
    would have the latest epoch. It lacks committed records, and is not elected when the leader is killed.
    """
    story = DiskStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.stop("C")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.flip_in_history("C")
    story.kill("AB")
    story.start("BC")
    story.await_leader()
    story.start("A")
    story.await_return("A")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def last_member_is_offline() -> DiskStory:
    """The leader finds an old damaged record that the others have, and reports it. They are down when the
    report arrives: it continues to serve readers, though its log is offline. The others return and catch up:
    they join the in-sync set by its proposal, one of them leads, and the first one gets its record back.
    """
    story = DiskStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.network.withheld = lambda sender, receiver, message: _is_damage(message)
    story.drop("A", 0)
    story.run(100)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    expect(story.write(), ErrorCode.NONE)
    story.tell("what A says of its log arrives")
    story.network.withheld = None
    story.network.release()
    story.run(500)
    expect(story.leader(), "A")
    story.start("BC")
    story.until(lambda: story.leader() in ("B", "C"), "another leader")
    story.until(story.all_in_sync, "the return of A")
    expect(story.write(at=story.leader()), ErrorCode.NONE)
    expect(story.read(at=story.leader()), ["r1", "r2", "r3"])
    return story


def source_of_the_last_member_is_lost() -> DiskStory:
    """The last member of the in-sync set lost power, and another replica kept more. That one is killed while
    its records are copied back, and stays down: the last member stops waiting, and leads with what it has.
    """
    story = DiskStory(min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.kill("BC")
    story.until(lambda: story.in_sync() == "A", "the departure of both")
    story.power_off("A")
    story.repair_disk("A")
    story.hold_records("A")
    story.start("ABC")
    story.until(lambda: story.is_copying("A"), "that A copies")
    story.tell("A copies back what another one has")
    story.kill("BC")
    story.network.withheld = None
    story.until(lambda: acting_leader(story.partition()) >= 0, "that A leads")
    story.run(100)
    expect(story.write(), ErrorCode.NONE)
    story.start("BC")
    story.until(story.all_in_sync, "the return of all")
    expect(story.read(), ["r1", "r3"])
    return story


def one_of_two_sources_is_lost() -> DiskStory:
    """Three copies. A primary that lost power copies records back from one of two backups, which hold
    everything. That one is killed and stays down: the primary continues with the other.
    """
    story = DiskStory(replication_mode="primary-backup", min_insync_replicas="3")
    expect(story.write(), ErrorCode.NONE)
    story.run(4000)
    story.slow_disk("A")
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.power_off("A")
    story.repair_disk("A")
    story.hold_records("A")
    story.start("A")
    story.until(lambda: story.is_copying("A"), "that A copies")
    source = story.copies_from("A")
    story.tell(f"A copies back from {source}")
    story.kill(source)
    story.network.withheld = None
    story.until(lambda: acting_leader(story.partition()) >= 0, "that A leads")
    story.run(1000)
    expect(story.read(), ["r1", "r2"])
    story.start(source)
    story.until(story.all_in_sync, "the return of all")
    expect(story.write(), ErrorCode.NONE)
    return story


def operator_has_decided() -> DiskStory:
    """One copy is enough, and the primary returns with an empty disk. An operator forces it to lead with what
    the others have. At that moment one of them truncates a damaged record, which begins a new epoch: the
    decision stands.
    """
    story = DiskStory(replication_mode="primary-backup", min_insync_replicas="1")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.lose_disk("A")
    story.start("A")
    story.run(2000)
    story.kill("B")
    story.until(lambda: "B" not in story.in_sync(), "the departure of B")
    story.until(lambda: story.is_led_anew(0), "that A waits")
    story.elect_unclean()
    story.run(100)
    story.repair("C", 1)
    story.until(lambda: acting_leader(story.partition()) >= 0, "that A leads")
    story.run(500)
    expect(story.read(), ["r1"])
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    expect(story.write(), ErrorCode.NONE)
    return story


def loss_healed_before_it_was_heard_of() -> DiskStory:
    """A voter truncates a damaged record. The controllers number the loss, and its leader readmits it, before
    it learns of either: it knows from its own log that it counts again, and votes when the leader is killed.
    """
    story = DiskStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.drop("B", 1)
    story.until(lambda: story.knows_of_damage("B"), "that B hears that it is known")
    story.hold_metadata("B", after=0)
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.await_return("B")
    story.tell("B hears of both at once")
    story.network.withheld = None
    story.run(2500)
    story.kill("A")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def killed_before_it_heard_of_its_readmission() -> DiskStory:
    """The same, and the voter is killed as soon as it has the record that readmits it, together with the
    leader. It has noted the loss on its disk, and finds the readmission in its log: it votes at once, and the
    two that are there elect a leader.
    """
    story = DiskStory(replication_mode=QUORUM)
    expect(story.write(), ErrorCode.NONE)
    story.run(500)
    story.drop("B", 1)
    story.until(lambda: story.knows_of_damage("B"), "that B hears that it is known")
    story.hold_metadata("B", after=0)
    story.until(lambda: not story.is_relied_on("B"), "the number of the loss")
    story.until(lambda: story.is_readmitted_by_its_log("B"), "the readmission in B's log")
    story.kill("B")
    story.network.withheld = None
    story.until(lambda: story.remembers("B"), "that the controllers know of the readmission")
    story.kill("A")
    story.start("B")
    expect(story.write(at=story.await_leader()), ErrorCode.NONE)
    story.start("A")
    story.await_return("A")
    expect(story.read(at=story.elected()), ["r1", "r2"])
    return story


def wrong_topic_id() -> DiskStory:
    """A primary is killed soon after its topic was created, before any checkpoint names the topic, and one
    bit of the topic id beside its log is wrong at the next start. It does not treat its records as those of a
    deleted topic, and does not lead with an empty log.
    """
    story = DiskStory(replication_mode="primary-backup", min_insync_replicas="2")
    expect(story.write(), ErrorCode.NONE)
    story.kill("A")
    story.flip_in_topic_id("A")
    story.start("A")
    story.until(lambda: acting_leader(story.partition()) >= 0 and story.all_in_sync(), "the return of A")
    story.run(500)
    expect(story.read(), ["r1"])
    return story


def _is_damage(message: Any) -> bool:
    return isinstance(getattr(message, "ask", None), OfflineAsk)


STORIES: list[Callable[[], DiskStory]] = [
    voter_with_a_damaged_metadata_log,
    voter_with_two_ids,
    wrong_epoch_in_the_history,
    last_member_is_offline,
    source_of_the_last_member_is_lost,
    one_of_two_sources_is_lost,
    operator_has_decided,
    loss_healed_before_it_was_heard_of,
    killed_before_it_heard_of_its_readmission,
    wrong_topic_id,
]
