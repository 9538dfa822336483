"""A node of a cluster: what becomes of peers that are lost, and of logs that are damaged."""

from errno import EIO
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidelog.broker.metadata.opening import MetadataSettings
from tidelog.broker.node.failed_logs import REPEAT_MS
from tidelog.broker.node.lifecycle import relied_on_ms
from tidelog.broker.node.node import Node
from tidelog.broker.node.ports import NodeMessage, NodePorts
from tidelog.broker.node.proposals import PROPOSAL_REPEAT_MS
from tidelog.broker.partitions.partition import Partition
from tidelog.config import BrokerConfig
from tidelog.controller import configs
from tidelog.controller.controller import SessionTiming
from tidelog.controller.image import PartitionImage
from tidelog.controller.messages import OfflineAsk, OfflineGot, RegisterAsk
from tidelog.controller.records import (
    BrokerFencingChanged,
    BrokerRegistered,
    MetadataRecord,
    PartitionChanged,
    TopicConfigChanged,
    TopicCreated,
)
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, StorageError
from tidelog.log.directory import DataDirectory
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.attachments.successors import HEARD_WITHIN_MS
from tidelog.replication.messages import FetchAsk, FetchItem, LeaderBegan
from tidelog.replication.voters import Voter, VoterHistory, VoterSet
from tidelog.sim.disk import SimulatedDisk
from unit.broker.fakes import ME, NOW_MS, FakeServices

OTHER = 2
TOPIC = UUID(int=77)


class LoneNode:
    """The only controller, and one of two brokers; what it says to the other one is kept."""

    def __init__(self) -> None:
        self.services = FakeServices()
        self.disk = SimulatedDisk()
        self.said: list[tuple[int, NodeMessage]] = []
        self.checked: list[str] = []
        config = BrokerConfig.parse({"node.id": ME})
        directory = DataDirectory.open(
            self.disk, "data", node_id=ME, now_ms=NOW_MS, new_id=self.services.new_uuid
        )
        self.node = Node(
            config,
            RegisterAsk(ME, self.services.new_uuid(), "here", 9092, None, False, directory.directory_id),
            MetadataSettings.of(config, Voter(ME, directory.directory_id, "here", 9092)),
            directory.open_metadata_log(NOW_MS),
            self.disk,
            directory,
            self.services,
            self,
            lambda: 0.5,
            SessionTiming(),
            NodePorts(
                on_metadata=lambda image: self.node.partitions.follow(image, config),
                on_metadata_checked=lambda: self.checked.append("metadata"),
                on_registered=lambda: self.checked.append("all"),
            ),
        )
        self.node.start()
        assert self.checked == ["metadata"]  # Before it votes, and before it is registered.
        self.services.advance(1000)
        assert self.checked == ["metadata", "all"]
        assert self.node.ready
        self.decide(BrokerRegistered(OTHER, UUID(int=5), "there", 9092, broker_epoch=9))

    def send(self, to: int, message: NodeMessage) -> None:
        self.said.append((to, message))

    def decide(self, *records: MetadataRecord) -> None:
        self.node.metadata.submit(lambda image: records, lambda error: None)
        self.services.settle()

    def create(self, in_sync: tuple[int, ...]) -> Partition:
        self.decide(
            TopicCreated("t", TOPIC, [[ME, OTHER]], {"segment.bytes": "600", "min.insync.replicas": "1"}),
            PartitionChanged(TOPIC, 0, ME, 0, list(in_sync), [], ME),
        )
        controller = self.node.controller
        # No heartbeat: nobody would send the next ones.
        controller.run(controller._controller._hear(OTHER))
        partition, _ = self.node.partitions.find("t", 0)
        assert partition is not None
        return partition

    @property
    def image(self) -> PartitionImage:
        return self.node.metadata.image.topics["t"].partitions[0]


@pytest.fixture
def lone() -> LoneNode:
    return LoneNode()


def fill(partition: Partition, count: int = 12) -> None:
    for number in range(count):
        offset = partition.log.end_offset
        batch = encode_batch([Record(offset, NOW_MS, None, b"%d" % number * 80, ())])
        partition.append(memoryview(batch), NOW_MS, 12, 1)


def flip_a_bit(partition: Partition, offset: int, place: int) -> None:
    """In the batch at ``offset``, as a disk does it: nobody is told."""
    segment = next(each for each in reversed(partition.log.segments) if each.base_offset <= offset)
    position, size, *_ = segment.locate(offset)
    segment.trusted_from = segment.size
    batch = bytearray(segment.file().read_at(position, size))
    batch[place] ^= 0x40
    segment.file().write_at(position, bytes(batch))


def read(partition: Partition, offset: int) -> None:
    """As a reader meets it."""
    try:
        partition.log.read(offset, 1000, partition.log.end_offset, at_least_one_batch=True)
    except DamagedSegment as damage:
        partition.driver.damage.found(damage.offset, damage.message)


def test_a_controller_that_cannot_write_its_first_record_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would lead, be heard, and never decide anything."""
    append = Log.append
    refused: list[Any] = []

    def too_many_files(log: Log, *batch: Any) -> None:
        if not refused:
            refused.append(batch)
            raise StorageError("cannot open the newest segment: too many open files")
        append(log, *batch)

    monkeypatch.setattr(Log, "append", too_many_files)
    assert LoneNode().node.metadata.active


def test_a_broker_whose_metadata_log_fails_gives_up_its_session(lone: LoneNode) -> None:
    """It would not hear that it has a successor. While others follow it, it has none."""
    partition = lone.create((ME, OTHER))
    item = FetchItem(partition.driver.key, 0, 0, -1, 0, 0)
    lone.node.receive(FetchAsk(OTHER, 9, 1, 0, [item], [], 300, 1 << 20))
    lone.disk.failing["write"] = EIO
    lone.decide(TopicConfigChanged(TOPIC, {"retention.ms": "1000"}))
    assert not lone.node.ready
    assert partition.leads
    lone.services.clock_ms += 2 * HEARD_WITHIN_MS
    assert partition.has_doubts


class TestLostPeers:
    def test_the_controllers_know_better_after_a_while(self, lone: LoneNode) -> None:
        """Brokers that share nothing may not hear of each other for ever."""
        lone.node.peer_lost(OTHER)
        assert lone.node.lost_peers == {OTHER}
        for _ in range(100):
            lone.services.advance(100)
            lone.node.peer_lost(OTHER)  # The next attempt to connect fails, too.
        assert lone.node.lost_peers == set()

    def test_a_word_of_it_is_enough_and_the_next_loss_counts_anew(self, lone: LoneNode) -> None:
        lone.node.peer_lost(OTHER)
        lone.node.receive(LeaderBegan(OTHER, ("some", 0), 1))
        assert lone.node.lost_peers == set()
        lone.node.peer_lost(OTHER)
        assert lone.node.lost_peers == {OTHER}


class TestWithoutControllers:
    """A leader that hears of no controller serves on only as long as nobody can have taken its place."""

    def test_a_member_to_be_that_falls_silent_may_lead_by_now(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        item = FetchItem(partition.driver.key, 0, 0, -1, 0, 0)
        lone.node.receive(FetchAsk(OTHER, 9, 1, 0, [item], [], 300, 1 << 20))
        assert partition.replica.maximal_in_sync == {ME, OTHER}  # It is proposed, and no answer has come.
        partition._alone = lambda: True
        assert partition.leads
        lone.services.clock_ms += 2 * HEARD_WITHIN_MS
        assert not partition.leads

    def test_anybody_may_lead_once_unclean_elections_are_allowed(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        partition._alone = lambda: True
        assert partition.leads
        lone.decide(TopicConfigChanged(TOPIC, {"unclean.leader.election.enable": "true"}))
        assert not partition.leads

    def test_an_operator_may_have_named_anybody_if_there_is_a_controller_to_do_so(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Alone in its set, with nobody the controllers would choose."""
        partition = lone.create((ME,))
        partition._alone = lambda: True
        alone = partition.leads  # It is the only controller itself.
        voters = [Voter(node, None, "there", 9092) for node in (OTHER, OTHER + 1, OTHER + 2)]
        monkeypatch.setattr(lone.node.metadata.voters, "history", VoterHistory(VoterSet(voters)))
        assert (alone, partition.leads) == (True, False)
        for node in (OTHER, OTHER + 1):
            lone.node.peer_lost(node)
            assert not partition.leads
            lone.node.peer_dead(node)
        assert partition.leads  # One controller decides nothing.
        lone.services.clock_ms += SessionTiming().session_ms
        assert not partition.leads  # They may have been started again.

    def test_who_has_ended_stays_lost_while_nobody_is_there_to_say_so(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        voters = [Voter(node, None, "there", 9092) for node in (OTHER, OTHER + 1, OTHER + 2)]
        monkeypatch.setattr(lone.node.metadata.voters, "history", VoterHistory(VoterSet(voters)))
        told = lone.node.lost_peers  # What clients are told goes by it.
        session_ms = relied_on_ms(SessionTiming().session_ms)
        for ended in ((OTHER, OTHER + 1), (OTHER,)):
            for node in (OTHER, OTHER + 1):
                lone.node.peer_lost(node)
                lone.node.peer_dead(node)
            for _ in range(5):
                lone.services.advance(session_ms - 1)
                for node in ended:
                    lone.node.peer_dead(node)
            assert told == ({OTHER, OTHER + 1} if len(ended) == 2 else set())


class TestProposals:
    def ask(self, lone: LoneNode, partition: Partition, broker_epoch: int, generation: int) -> None:
        """The other broker holds everything."""
        item = FetchItem(partition.driver.key, 0, partition.log.end_offset, -1, 0, 0)
        lone.node.receive(FetchAsk(OTHER, broker_epoch, generation, 0, [item], [], 300, 1 << 20))

    def test_one_that_is_lost_is_made_again(self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch) -> None:
        partition = lone.create((ME,))
        with monkeypatch.context() as patch:
            patch.setattr(lone.node._proposals, "_ask_controller", lambda ask: None)
            self.ask(lone, partition, 9, 1)
            lone.services.settle()
        lone.services.advance(2 * PROPOSAL_REPEAT_MS)
        assert lone.image.in_sync == (ME, OTHER)

    def test_one_that_was_made_before_the_registration_was_answered_is_taken_afterwards(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The controllers refuse what names no registration, or an earlier one, however often it is said."""
        partition = lone.create((ME,))
        with monkeypatch.context() as patch:
            patch.setattr(lone.node.membership, "broker_epoch", -1)
            patch.setattr(lone.node._proposals, "_ask_controller", lambda ask: None)
            self.ask(lone, partition, 9, 1)
            lone.services.settle()
        assert lone.node._proposals._open[partition.driver.key].broker_epoch == -1
        lone.services.advance(2 * PROPOSAL_REPEAT_MS)
        assert lone.image.in_sync == (ME, OTHER)

    def test_what_a_member_held_before_it_restarted_makes_it_no_member(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may have lost power meanwhile. As a member it could lead, with nothing."""
        partition = lone.create((ME,))
        with monkeypatch.context() as patch:
            patch.setattr(lone.node._proposals, "_ask_controller", lambda ask: None)
            self.ask(lone, partition, 9, 1)
            lone.services.settle()
        lone.decide(BrokerRegistered(OTHER, UUID(int=6), "there", 9092, broker_epoch=10))
        lone.services.advance(2 * PROPOSAL_REPEAT_MS)
        assert OTHER not in lone.image.in_sync
        self.ask(lone, partition, 10, 2)
        lone.services.advance(2 * PROPOSAL_REPEAT_MS)
        assert lone.image.in_sync == (ME, OTHER)


class TestDamage:
    @pytest.mark.parametrize("place", [0, 8, 16, 21, 57, 80])
    def test_others_lead_before_it_is_repaired(self, lone: LoneNode, place: int) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, place)
        read(partition, 5)
        lone.services.advance(1000)
        assert (lone.image.leader, lone.image.in_sync, lone.image.offline) == (OTHER, (OTHER,), ())
        # Where an offset is wrong, nobody knows which of two batches says the truth: both go.
        assert partition.log.end_offset == (4 if place == 0 else 5)

    def test_the_only_member_serves_what_is_whole(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.services.advance(1000)
        assert partition.leads
        assert (lone.image.leader, partition.log.end_offset) == (ME, 12)

    def test_it_is_repaired_when_somebody_else_is_a_member(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.decide(PartitionChanged(TOPIC, 0, ME, 0, [ME, OTHER], [], ME))
        lone.services.advance(1000)
        assert (lone.image.leader, partition.log.end_offset) == (OTHER, 5)

    def test_it_is_repaired_when_somebody_else_is_eligible(self, lone: LoneNode) -> None:
        """Who is eligible holds what is committed, and cannot join: it cannot fetch what is damaged."""
        partition = lone.create((ME,))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.decide(TopicConfigChanged(TOPIC, {"min.insync.replicas": "2"}))
        lone.services.advance(1000)
        assert (lone.image.leader, partition.log.end_offset) == (ME, 12)
        lone.decide(PartitionChanged(TOPIC, 0, ME, 0, [ME], [OTHER], ME))
        lone.services.advance(1000)
        assert (lone.image.leader, lone.image.in_sync, lone.image.eligible) == (OTHER, (OTHER,), ())
        assert partition.log.end_offset == 5

    def test_who_is_eligible_and_away_is_waited_for(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        fill(partition)
        lone.decide(
            TopicConfigChanged(TOPIC, {"min.insync.replicas": "2"}),
            PartitionChanged(TOPIC, 0, ME, 0, [ME], [OTHER], ME),
            BrokerFencingChanged(OTHER, fenced=True),
        )
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.services.advance(1000)
        assert partition.leads
        assert (lone.image.leader, partition.log.end_offset) == (ME, 12)

    def test_more_damage_that_is_found_while_the_repair_is_told(self, lone: LoneNode) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        flip_a_bit(partition, 2, 80)
        read(partition, 5)
        while partition.log.end_offset > 5:
            lone.services.advance(1)
        read(partition, 2)
        lone.services.advance(2000)
        assert partition.log.end_offset == 2
        assert lone.image.offline == ()

    def test_a_report_that_arrives_again_after_the_repair_is_contradicted(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.services.advance(1000)
        late = OfflineAsk(ME, lone.node.broker_epoch, ((TOPIC, 0),))
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(lone.node._failed_logs, "_ask_controller", lambda ask: None)
                lone.node.controller.handle(late, lone.services.uptime_ms(), lambda got: None)
                lone.services.advance(REPEAT_MS)
                assert lone.image.offline == (ME,)
            lone.services.advance(2 * REPEAT_MS)
            assert lone.image.offline != (ME,)

    def test_a_copy_of_a_report_that_arrives_after_the_repair_is_refused(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        asked: list[OfflineAsk] = []
        told = lone.node._failed_logs
        ask_controller = told._ask_controller

        def overheard(ask: OfflineAsk) -> None:
            asked.append(ask)
            ask_controller(ask)

        monkeypatch.setattr(told, "_ask_controller", overheard)
        read(partition, 5)
        lone.services.advance(1000)
        repaired = lone.image
        lone.node.controller.handle(asked[0], lone.services.uptime_ms(), lambda got: None)
        lone.services.advance(100)
        assert lone.image == repaired

    def test_a_report_is_repeated_at_once_in_the_epoch_that_is_heard_of(self, lone: LoneNode) -> None:
        lone.create((ME, OTHER))
        told, asked = lone.node._failed_logs, list[OfflineAsk]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(told, "_ask_controller", asked.append)
            told.went_offline(TOPIC, 0, damaged=True)
            lone.services.advance(REPEAT_MS)
            asked.clear()
            told.metadata_changed(lone.node.image)
            assert not asked
            patch.setitem(told._told_in, (TOPIC, 0), lone.image.partition_epoch - 1)
            told.metadata_changed(lone.node.image)
        assert [ask.partition_epochs for ask in asked] == [(lone.image.partition_epoch,)]

    def test_what_the_controllers_know_is_not_reported_again_after_the_repair(self, lone: LoneNode) -> None:
        """Although their answer was lost."""
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lone.node._failed_logs, "answered", lambda got: None)
            read(partition, 5)
            lone.services.advance(1000)
            repaired = lone.image
            lone.services.advance(2000)
        assert repaired.offline == ()
        assert lone.image == repaired

    def test_a_log_that_cannot_be_written_is_not_told_to_be_damaged(self, lone: LoneNode) -> None:
        partition = lone.create((ME, OTHER))
        lone.node._failed_logs.failed(partition.driver)
        lone.services.advance(1000)
        assert (lone.image.offline, lone.image.unwritable) == ((ME,), (ME,))

    def test_a_failed_sync_is_known_to_the_next_process(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also if the log is gone by the next registration; a refused write changes nothing."""
        heard: list[str] = []
        lone.node.ports = lone.node.ports._replace(
            on_registered=lambda: heard.append("checked"), on_sync_failed=lambda: heard.append("in doubt")
        )
        partition = lone.create((ME, OTHER))
        error = StorageError("the disk fails")
        lone.node._failed(partition.driver, error)
        lone.node._note_checked()
        assert heard == ["checked"]
        monkeypatch.setattr(Log, "sync_failed", True)
        lone.node._failed(partition.driver, error)
        lone.node._note_checked()
        assert heard == ["checked", "in doubt"]

    def test_damage_of_a_log_that_cannot_be_written_is_told_all_the_same(self, lone: LoneNode) -> None:
        """Only then is it dropped: the controllers do not distrust a log that only refuses writes."""
        partition = lone.create((ME, OTHER))
        fill(partition)
        lone.node._failed_logs.failed(partition.driver)
        lone.services.advance(1000)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        asked: list[OfflineAsk] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lone.node._failed_logs, "_ask_controller", asked.append)
            lone.services.advance(1000)
        assert partition.log.end_offset > 5
        assert {ask.unwritable for ask in asked} == {False}
        lone.services.advance(1000)
        assert partition.log.end_offset == 5

    def test_a_report_waits_while_there_is_no_leader(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A log that also failed is reported all the same."""
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        told = lone.node._failed_logs
        monkeypatch.setattr(told, "_ask_controller", lambda ask: None)
        read(partition, 5)
        have_told = [told.have_told]
        leaderless = msgspec.structs.replace(lone.image, leader=-1)
        told._tell_or_hold(partition.driver, leaderless)
        have_told.append(told.have_told)
        told.failed(partition.driver)
        told._tell_or_hold(partition.driver, leaderless)
        have_told.append(told.have_told)
        assert have_told == [False, True, False]

    def test_a_report_that_needs_a_leader_waits_until_the_roles_are_known(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        told, asked = lone.node._failed_logs, list[OfflineAsk]()
        monkeypatch.setattr(told, "_ask_controller", asked.append)
        read(partition, 5)
        with monkeypatch.context() as patch:
            patch.setattr(Node, "roles_are_current", False)
            lone.services.advance(2 * REPEAT_MS)
            assert not asked
        lone.services.advance(REPEAT_MS)
        assert asked

    def test_a_repair_that_fails_is_not_told(self, lone: LoneNode) -> None:
        partition = lone.create((ME, OTHER))
        fill(partition)
        flip_a_bit(partition, 5, 80)
        read(partition, 5)
        lone.disk.failing["truncate"] = EIO
        for _ in range(10):
            lone.services.advance(500)
        assert partition.log.failure is not None
        assert lone.image.damaged == {ME}

    def test_an_answer_about_the_failure_does_not_stand_for_the_damage(self, lone: LoneNode) -> None:
        lone.create((ME, OTHER))
        told = lone.node._failed_logs
        told.went_offline(TOPIC, 0)
        told.went_offline(TOPIC, 0, damaged=True)
        for unwritable in (True, False):
            assert not told.have_told
            told.answered(OfflineGot(ME, 1, ((TOPIC, 0),), ErrorCode.NONE, unwritable=unwritable))
        assert told.have_told

    def test_an_answer_to_an_earlier_process_does_not_stand_for_this_one(self, lone: LoneNode) -> None:
        lone.create((ME, OTHER))
        told = lone.node._failed_logs
        told.went_offline(TOPIC, 0, damaged=True)
        told.answered(OfflineGot(ME, lone.node.broker_epoch - 1, ((TOPIC, 0),), ErrorCode.NONE))
        assert not told.have_told
        told.answered(OfflineGot(ME, lone.node.broker_epoch, ((TOPIC, 0),), ErrorCode.NONE))
        assert told.have_told


@pytest.mark.parametrize(("silence_ms", "round_ms"), [(200, 300), (1000, 300), (4000, 1200)])
def test_where_silence_may_last_longer_votes_are_waited_for_longer(silence_ms: int, round_ms: int) -> None:
    config = BrokerConfig.parse({"controller.quorum.fetch.timeout.ms": silence_ms})
    timing = MetadataSettings.of(config, Voter(ME, None, "here", 9092)).timing
    assert (timing.silence_ms, timing.round_ms) == (silence_ms, round_ms)


class TestPromiseConfirmations:
    def configure(self, lone: LoneNode, **settings: str) -> None:
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        rules = Rulebook(lone.node.config)
        lone.node.metadata.submit(
            lambda image: configs.change_topic(image, "t", {**image.topics["t"].configs, **wanted}, rules),
            lambda error: None,
        )
        lone.services.settle()

    def test_it_is_told_when_all_of_the_log_is_synced(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        fill(partition)
        assert partition.log.synced_end_offset < partition.log.end_offset
        self.configure(lone, flush_messages="1")
        lone.services.advance(1000)
        assert partition.log.synced_end_offset == partition.log.end_offset
        assert lone.image.unsynced == (OTHER,)

    def test_not_while_the_log_is_damaged(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        fill(partition)
        partition.driver.damage.offset = 3
        self.configure(lone, flush_messages="1")
        lone.services.advance(1000)
        assert lone.image.unsynced == (ME, OTHER)

    def test_it_is_told_again_until_the_metadata_says_so(
        self, lone: LoneNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(lone.create((ME,)))
        with monkeypatch.context() as patch:
            patch.setattr(lone.node._promise_confirmations, "_ask_controller", lambda ask: None)
            self.configure(lone, flush_messages="1")
            lone.services.advance(1000)
            before = lone.image.unsynced
        lone.services.advance(1000)
        assert (before, lone.image.unsynced) == ((ME, OTHER), (OTHER,))

    def test_a_leader_tells_when_others_have_its_log(self, lone: LoneNode) -> None:
        partition = lone.create((ME,))
        lone.decide(PartitionChanged(TOPIC, 0, ME, 1, [ME], [], ME, mode="primary-backup"))
        self.configure(lone, replication_mode="primary-backup")
        fill(partition)
        self.configure(lone, min_insync_replicas="2")
        lone.services.advance(1000)
        assert lone.image.copies == 1
        replica, end = partition.replica, partition.log.end_offset
        replica.fetched(OTHER, replica.epoch, end - 1, replica.last_epoch, 0, 0)
        lone.services.advance(1000)
        assert lone.image.copies == 1
        replica.fetched(OTHER, replica.epoch, end, replica.last_epoch, 0, 0)
        lone.services.advance(1000)
        assert lone.image.copies == 0
