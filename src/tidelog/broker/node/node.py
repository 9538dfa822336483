"""A node of the cluster: controller and broker in one process, whatever its surroundings are made of.

Holds together what is pure: the metadata quorum, the controller on top of it, this broker's membership, and
the replicas the metadata gives it. The simulator runs it as it is; a real process adds sockets and files
around it.
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, cast
from uuid import UUID

from tidelog.broker.metadata.opening import MetadataSettings, open_metadata
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.node.failed_logs import FailedLogs
from tidelog.broker.node.heartbeat_gate import HeartbeatGate
from tidelog.broker.node.kept_promises import KeptPromises
from tidelog.broker.node.membership import Membership
from tidelog.broker.partitions.table import Logs, PartitionTable
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.config import BrokerConfig
from tidelog.controller import elections
from tidelog.controller.controller import SessionTiming
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.elections import InSyncWish
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    KeptGot,
    OfflineGot,
    RegisterAsk,
)
from tidelog.controller.records import ClusterFounded, MetadataRecord
from tidelog.errors import ErrorCode, StorageError
from tidelog.log.directory import METADATA_PARTITION
from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.host import Host
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import LeaderBegan, Message, PartitionKey, Peers
from tidelog.services import Services
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)

PROPOSAL_REPEAT_MS = 500
TICK_MS = 50
KEEP_IN_ORDER_MS = 500


class Asked(NamedTuple):
    """A broker's question to the node it takes for the active controller."""

    sender: int
    ask: ControllerAsk


class Answered(NamedTuple):
    sender: int
    got: ControllerGot


NodeMessage = Message | Asked | Answered


class NodePeers(Peers, Protocol):
    def send(self, to: int, message: NodeMessage) -> None: ...


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        registration: RegisterAsk,
        metadata: MetadataSettings,
        metadata_log: Log,
        storage: Storage,
        logs: Logs,
        services: Services,
        peers: NodePeers,
        chance: Callable[[], float],
        session: SessionTiming,
    ) -> None:
        self.me = config.node_id
        self.config = config
        self._services = services
        self._peers = peers
        self.host = self._new_host(chance)
        self.metadata = self._open_metadata(storage, metadata_log, metadata, chance)
        self.metadata.on_change = self._metadata_changed
        self.metadata.on_active = self._activity_changed
        self._heartbeats = HeartbeatGate(self.metadata.hosted, self.host.serving)
        self.controller = ControllerDriver.of(self.metadata, config, session)
        self.membership = self._new_membership(registration, session)
        self.partitions = PartitionTable(
            self.host, logs, services, self.membership.alone, self._may_be_decided
        )
        self.quorum = self.partitions.quorum = QuorumPartitions(
            self.host, storage, logs.path, services, peers, chance,
            metadata.timing._replace(founding_ms=0), self.metadata.election.directory,
            written_survives=logs.written_survives,
        )  # fmt: skip
        self.quorum.image = lambda: self.image
        self.quorum.broker_epoch = lambda: self.membership.broker_epoch
        self.quorum.ask_controller = self._ask_controller
        self.host.broker_epoch = lambda: self.membership.broker_epoch
        self.host.serving.broker_epoch_of = self._registered_epoch
        self.host.on_committed = lambda hosted: self.on_committed(hosted)
        self.host.on_role = self._role_changed
        self.host.on_proposal = self._proposed
        self._failed_logs = FailedLogs(self, services, self._ask_controller)
        self._kept_promises = KeptPromises(self, self.host.hosted.get, services, self._ask_controller)
        self.host.on_failed = self._failed
        self.host.on_damaged = self._damaged
        self.partitions.on_offline = self._failed_logs.went_offline
        self.partitions.on_lost = self._failed_logs.lost
        self._failed_logs.before_drop = self.partitions.before_drop
        self.metadata.hosted.before_cut = lambda offset: logs.lower_claims(METADATA_PARTITION, offset)
        self._proposals: dict[PartitionKey, InSyncWish] = {}
        self.serving: set[int] = set()  # brokers that are not fenced
        self._able: set[tuple[int, int]] = set()  # of them, with their runs, those that may become members
        self._broker_epochs: dict[int, int] = {}
        # When their connections closed; nothing was heard of them since.
        self._silent_since_ms: dict[int, int] = {}
        self._heard_ms: dict[int, int] = {}  # when each peer last said anything
        self._last_active: int = NO_BROKER  # the last other node that was the active controller
        # Those of them for which that was a moment ago: what the metadata says of them may be over. Later it
        # is not: the controllers have had their time, and know more than who may just have no business with
        # that broker. Where there are no controllers, those that have ended stay among them.
        self.lost_peers: set[int] = set()
        self._dead_ms: dict[int, int] = {}  # peers that had ended then, for sure; not heard of since
        self._lost_for_ms = 2 * session.session_ms
        self._session_ms = session.session_ms
        self.stopped = False
        # Whoever embeds the node listens here.
        self._ordered_ms = 0  # when leadership was last looked after
        self._registered = False
        self.on_registered: Callable[[], None] = lambda: None  # And all logs are open.
        self.on_metadata: Callable[[ClusterImage], None] = self._follow
        self.on_committed: Callable[[Hosted], None] = lambda hosted: None
        self.on_role: Callable[[Hosted], None] = lambda hosted: None

    # --- parts that a smaller world replaces ----------------------------------------------------------------

    def _new_host(self, chance: Callable[[], float]) -> Host:
        return Host(self.me, self._services, self._peers, chance)

    def _open_metadata(
        self, storage: Storage, log: Log, settings: MetadataSettings, chance: Callable[[], float]
    ) -> MetadataQuorum:
        return open_metadata(storage, log, settings, self._services, self.host, chance)

    def _new_membership(self, registration: RegisterAsk, session: SessionTiming) -> Membership:
        return Membership(
            registration,
            self._services,
            self._ask_controller,
            self._offset_caught_up_with,
            session.session_ms,
            self.config.broker_heartbeat_interval_ms,
        )

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def is_broker(self) -> bool:
        """A node may also be a controller only: then it hosts no partitions, and no client is sent to it."""
        return "broker" in self.config.process_roles

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    def start(self) -> None:
        self.host.start()
        if self.is_broker:
            self.membership.start()
        self._services.later(TICK_MS, self._tick)

    def stop(self) -> None:
        self.stopped = True
        self.host.stop()
        self.membership.stop()
        self.metadata.stop()

    def _tick(self) -> None:
        if self.stopped:
            return
        try:
            self._look(self._services.uptime_ms())
        finally:
            # Whatever went wrong: a controller without a clock would never fence anybody again.
            late = self._services.perturb("late tick")
            self._services.later(10 * TICK_MS if late else TICK_MS, self._tick)

    def _look(self, now_ms: int) -> None:
        if not self._services.perturb("controller looks away"):
            self.controller.tick(now_ms)
        if now_ms - self._ordered_ms >= KEEP_IN_ORDER_MS:
            self._ordered_ms = now_ms
            self.controller.keep_in_order(now_ms)
            self._failed_logs.look()
        self._heartbeats.look()
        self.metadata.tick()
        self.quorum.tick(now_ms)
        if self.metadata.election.is_mistaken_for_leader and self.metadata.leader != self.me:
            self.membership.refused(f"another node {self.me} is the active controller")
        orphaning = self._orphaning()
        self.partitions.stand_in_for(orphaning)
        self.lost_peers.update(orphaning)  # In place: others hold on to it.
        for peer in self.lost_peers - orphaning:
            if now_ms - self._silent_since_ms[peer] >= self._lost_for_ms:
                self.lost_peers.discard(peer)

    @property
    def ready(self) -> bool:
        """Whether the cluster counts on this node."""
        if not self.is_broker:
            return self.metadata.leader >= 0
        return not self.membership.fenced and not self.membership.alone()

    @property
    def has_successors(self) -> bool:
        """Whether somebody else could take over what this broker leads."""
        others = self.metadata.image.brokers.values()
        return (
            self.is_broker
            and self.ready
            and any(not each.fenced and each.broker_id != self.me for each in others)
        )

    @property
    def has_deciders(self) -> bool:
        """Whether enough controllers are there to decide anything, as far as closed connections tell."""
        voters = self.metadata.voters.latest.ids
        return 2 * len(voters - self._silent_since_ms.keys()) > len(voters)

    def _may_be_decided(self) -> bool:
        """Whether the other controllers may decide something without this node: not when so many of them have
        ended that the rest is no majority. One that started since gives this broker a whole session before it
        takes it for dead; so long what was seen holds.
        """
        others = self._deciders() - {self.me}
        return 2 * len(others) > len(self.metadata.voters.latest)

    def _deciders(self) -> AbstractSet[int]:
        """Controllers, but for those that were seen to have ended."""
        seen_ms = self._services.uptime_ms() - self._session_ms
        dead = {peer for peer, dead_ms in self._dead_ms.items() if dead_ms > seen_ms}
        return self.metadata.voters.latest.ids - dead

    def _orphaning(self) -> AbstractSet[int]:
        """Brokers that have ended while most of the controllers had, too: nobody is there to say so. They
        lead nothing any more, and will not before a controller has let them in.
        """
        if not self._dead_ms or 2 * len(self._deciders()) > len(self.metadata.voters.latest):
            return frozenset()
        return self._dead_ms.keys()

    # --- messages -------------------------------------------------------------------------------------------

    def receive(self, message: NodeMessage) -> None:
        self._heard_ms[message.sender] = self._services.uptime_ms()
        if message.sender in self._silent_since_ms:
            del self._silent_since_ms[message.sender]
            self.lost_peers.discard(message.sender)
            self._dead_ms.pop(message.sender, None)
        match message:
            case Asked(sender, ask):
                self._decide(ask, lambda got: self._answer(sender, got))
            case Answered(_, got):
                self._controller_answered(got)
            case LeaderBegan():
                self.quorum.began(message)
                self.host.receive(message)
            case _:
                self.host.receive(message)
                if self._heartbeats.holds:
                    self._heartbeats.look()

    def peer_lost(self, peer: int) -> None:
        now_ms = self._services.uptime_ms()
        if peer not in self._silent_since_ms:
            self._silent_since_ms[peer] = now_ms
            self.lost_peers.add(peer)
        self.host.peer_lost(peer)
        self.controller.broker_lost(peer, now_ms)

    def peer_dead(self, peer: int) -> None:
        """Nobody listens at its address: its process has ended for sure."""
        if peer in self._silent_since_ms:
            self._dead_ms[peer] = self._services.uptime_ms()
            self.controller.broker_lost(peer, self._services.uptime_ms(), dead=True)

    def _ask_controller(self, ask: ControllerAsk) -> None:
        leader = self.metadata.leader
        if leader == self.me:
            self._services.soon(lambda: self._decide(ask, self._controller_answered))
        elif leader >= 0:
            self._peers.send(leader, Asked(self.me, ask))

    def _decide(self, ask: ControllerAsk, answer: Callable[[ControllerGot], None]) -> None:
        now_ms = self._services.uptime_ms()

        def decided(got: ControllerGot) -> None:
            if isinstance(got, HeartbeatGot):
                self._heartbeats.pass_on(now_ms, got, answer)
            else:
                answer(got)

        self.controller.handle(ask, now_ms, decided)

    def _answer(self, sender: int, got: ControllerGot) -> None:
        if not self.stopped:
            self._peers.send(sender, Answered(self.me, got))

    def _controller_answered(self, got: ControllerGot) -> None:
        if isinstance(got, InSyncGot):
            self._proposal_answered(got)
        elif isinstance(got, OfflineGot):
            self._failed_logs.answered(got)
        elif isinstance(got, KeptGot):
            pass  # It is told until the metadata says so.
        else:
            self.membership.answered(got)

    def _offset_caught_up_with(self) -> int:
        """Of the metadata, as the controllers are told, which let a broker in that has caught up with them.
        One that comes back has not before its logs are open, and the controllers know what is missing in
        them: it could be made leader for records that it has lost.
        """
        if self.membership.fenced and not (
            self._registered and self.partitions.is_settled and self._failed_logs.have_told
        ):
            return -1
        return self.metadata.committed_offset

    # --- the metadata log -----------------------------------------------------------------------------------

    def _role_changed(self, hosted: Hosted) -> None:
        self._proposals.pop(hosted.key, None)
        self.quorum.role_changed(hosted)
        if hosted is self.metadata.hosted and self.metadata.leader >= 0:
            if self.metadata.leader != self.me:
                self._last_active = self.metadata.leader
            self.membership.show_life()
        self.on_role(hosted)

    def _activity_changed(self, active: bool) -> None:
        if active:
            now_ms = self._services.uptime_ms()
            heard_ms = self._heard_ms.get(self._last_active, now_ms)
            self.controller.activate(now_ms, {self._last_active: heard_ms})
            self._found_cluster()
            # Who died together with the last controller, or was it, is not given a whole session.
            for peer in sorted(self._silent_since_ms):
                self.controller.broker_lost(peer, now_ms, dead=peer in self._dead_ms)
            self.membership.hurry()
        else:
            self.controller.deactivate()
            self._heartbeats.close()

    def _found_cluster(self) -> None:
        """The first controller there ever is gives the cluster its name."""
        name = self.config.cluster_id or _short_id(self._services.new_uuid())

        def decide(image: ClusterImage) -> list[MetadataRecord]:
            return [] if image.cluster_id else [ClusterFounded(name)]

        if not self.metadata.image.cluster_id:
            self.metadata.submit(decide, lambda error: None)

    def configure(self, config: BrokerConfig) -> None:
        """Settings have changed while running."""
        self.config = config
        self.controller.configure(config)

    # --- the replicas the metadata gives us -----------------------------------------------------------------

    def _metadata_changed(self, image: ClusterImage) -> None:
        self._forget_earlier_runs(image)
        me = image.brokers.get(self.me)
        # What was decided before this process registered was told to an earlier one: to lead an epoch again,
        # perhaps with a shorter log, would be a second leader in it.
        if me is not None and me.incarnation == self.membership.incarnation:
            self.on_metadata(image)
            if not self._registered:
                self._registered = True
                self._come_back()
        if me is not None:
            self.membership.metadata_says(me.broker_epoch, fenced=me.fenced)
        self._invite_returned(image)
        self._failed_logs.metadata_changed(image)
        self.partitions.when_settled(lambda: self._kept_promises.metadata_changed(self.image))
        self.membership.hurry()

    def _come_back(self) -> None:
        """The controllers have heard what this process said of its disk; now every log is looked at."""
        if self.partitions.is_settled:
            self.on_registered()
        else:
            self.partitions.when_settled(self._came_back)

    def _came_back(self) -> None:
        self.on_registered()
        self.membership.hurry()

    def _forget_earlier_runs(self, image: ClusterImage) -> None:
        """What a broker held before it restarted says nothing: it may have come back with less."""
        epochs = {broker.broker_id: broker.broker_epoch for broker in image.brokers.values()}
        known, self._broker_epochs = self._broker_epochs, epochs
        for broker_id, epoch in epochs.items():
            if known.get(broker_id, epoch) != epoch and broker_id != self.me:
                self.host.broker_restarted(broker_id)

    def _invite_returned(self, image: ClusterImage) -> None:
        """A proposal with a fenced member is refused; once it is back, nobody else would bring it up. It may
        have been away so shortly that it is never seen to be.
        """
        brokers = [broker for broker in image.brokers.values() if not broker.fenced]
        serving = {broker.broker_id for broker in brokers}
        lost, self.serving = self.serving - serving, serving
        able = {(broker.broker_id, broker.broker_epoch) for broker in brokers if not broker.leaving}
        returned = {broker_id for broker_id, _ in able - self._able}
        self._able = able
        if lost:
            self.membership.show_life()
        if returned:
            for hosted in list(self.host.hosted.values()):
                if not returned.isdisjoint(hosted.replica.progress):
                    hosted.run(hosted.replica.invite())

    def _follow(self, image: ClusterImage) -> None:
        self.partitions.follow(image, self.config)

    def _failed(self, hosted: Hosted, error: StorageError) -> None:
        if hosted is not self.metadata.hosted:
            self._failed_logs.failed(hosted)

    def _damaged(self, hosted: Hosted) -> None:
        if hosted is not self.metadata.hosted:
            self._failed_logs.damaged(hosted)

    def _registered_epoch(self, broker_id: int) -> int:
        broker = self.metadata.image.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch

    # --- in-sync sets ---------------------------------------------------------------------------------------

    def _proposed(self, hosted: Hosted, proposal: ProposeInSync) -> None:
        topic_id, index = cast(tuple[UUID, int], hosted.key)
        wish = InSyncWish(
            self.me,
            self.membership.broker_epoch,
            topic_id,
            index,
            proposal.leader_epoch,
            proposal.partition_epoch,
            proposal.members,
            # As of now, however often it is asked: what is known of a member was said by this run of it.
            tuple(self._broker_epochs.get(member, -1) for member in proposal.members),
            sealed=proposal.sealed,
        )
        self._proposals[hosted.key] = wish
        if self._asks_in_vain(hosted, wish):
            # It would be refused; but every write would wait for that member until the controller has said
            # so, and when the controller is the one that is stopping, until there is another one.
            self._services.soon(lambda: self._think_again(hosted, wish))
        else:
            self._ask_for_members(hosted, wish)

    def _asks_in_vain(self, hosted: Hosted, wish: InSyncWish) -> bool:
        """Whether a new member cannot be one, as far as the metadata is known here."""
        image, newcomers = (
            self.metadata.image,
            set(wish.members).difference(hosted.replica.in_sync, (self.me,)),
        )
        topic = image.topic_by_id(wish.topic_id)
        if topic is None or wish.sealed:
            return False
        partition = topic.partitions[wish.partition]
        return any(elections.why_ineligible(image, partition, wish, member) for member in newcomers)

    def _think_again(self, hosted: Hosted, wish: InSyncWish) -> None:
        # Whoever has come back in this very moment was not invited, because it was proposed already.
        if self._asks_in_vain(hosted, wish):
            self._give_up_proposal(hosted, wish)
        else:
            self._ask_for_members(hosted, wish)

    def _give_up_proposal(self, hosted: Hosted, wish: InSyncWish, *, recorded: bool = False) -> None:
        if self._proposals.get(hosted.key) is wish:
            del self._proposals[hosted.key]
            hosted.run(hosted.replica.proposal_refused(recorded=recorded))

    def _ask_for_members(self, hosted: Hosted, wish: InSyncWish) -> None:
        """Until there is an answer or new metadata, again and again: either may be lost on its way."""
        if self.stopped or self._proposals.get(hosted.key) is not wish:
            return
        replica = hosted.replica
        if (replica.proposed, replica.partition_epoch) != (wish.members, wish.partition_epoch):
            del self._proposals[hosted.key]
            self._invite_again(hosted)
            return
        # It may have been made before the controllers' answer to our registration, or before a later one:
        # what an earlier run of the broker wants is refused for ever.
        present = wish._replace(broker_epoch=self.membership.broker_epoch)
        self._proposals[hosted.key] = present
        if not self._services.perturb("proposal skipped"):
            self._ask_controller(InSyncAsk(present))
        if self._services.perturb("proposal doubled"):
            self._ask_controller(InSyncAsk(present))
        self._services.later(PROPOSAL_REPEAT_MS, lambda: self._ask_for_members(hosted, present))

    def _proposal_answered(self, got: InSyncGot) -> None:
        """Only a refusal that was judged on the present state ends a proposal. It is committed, and has moved
        the partition on: no earlier copy of this proposal can be taken any more.

        When the state has moved on (INVALID_UPDATE_VERSION), an earlier copy of this very proposal may have
        been taken: the leader keeps waiting for the proposed members until the metadata log tells what holds.
        """
        key = (got.wish.topic_id, got.wish.partition)
        hosted = self.host.hosted.get(key)
        if hosted is None or self._proposals.get(key) != got.wish:
            return
        if got.error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST):
            self._give_up_proposal(hosted, self._proposals[key], recorded=True)
            # What made the controller refuse may have been over before its answer came: then nobody else
            # would bring that follower up again.
            self._services.later(PROPOSAL_REPEAT_MS, lambda: self._invite_again(hosted))

    def _invite_again(self, hosted: Hosted) -> None:
        if not self.stopped and self.host.hosted.get(hosted.key) is hosted:
            hosted.run(hosted.replica.invite())


def _short_id(uuid: UUID) -> str:
    """22 characters of base64, the form Kafka's tools give cluster ids."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=").replace("-", "_")
