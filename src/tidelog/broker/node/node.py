"""A node of the cluster: controller and broker in one process, without I/O.

It connects the pure parts: the metadata quorum, the controller on top of it, this broker's membership, and
the replicas that the metadata assigns to it. The simulator runs it unchanged; a real process adds sockets and
files.
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from uuid import UUID

from tidelog.broker.metadata.opening import MetadataSettings, open_metadata
from tidelog.broker.metadata.quorum import MetadataPorts, MetadataQuorum
from tidelog.broker.node.controller_asks import ControllerAsks
from tidelog.broker.node.failed_logs import FailedLogs
from tidelog.broker.node.heartbeat_gate import HeartbeatGate
from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.broker.node.other_brokers import OtherBrokers
from tidelog.broker.node.ports import Answered, Asked, NodeMessage, NodePeers, NodePorts
from tidelog.broker.node.promise_confirmations import PromiseConfirmations
from tidelog.broker.node.proposals import Proposals
from tidelog.broker.node.sightings import Sightings
from tidelog.broker.partitions.logs import Logs
from tidelog.broker.partitions.table import PartitionTable, TablePorts
from tidelog.broker.quorum.partitions import ClusterPorts, QuorumPartitions
from tidelog.config import BrokerConfig
from tidelog.controller.controller import SessionTiming
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import (
    ControllerAsk,
    ControllerGot,
    InSyncGot,
    OfflineGot,
    PromiseConfirmedGot,
    RegisterAsk,
)
from tidelog.controller.records import ClusterFounded, MetadataRecord
from tidelog.errors import StorageError
from tidelog.log.directory import METADATA_PARTITION
from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.messages import LeaderBegan
from tidelog.services import Services

logger = logging.getLogger(__name__)

TICK_MS = 50
KEEP_IN_ORDER_MS = 500


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
        ports: NodePorts,
    ) -> None:
        self.me = config.node_id
        self.config = config
        self.ports = ports
        self._services = services
        self._peers = peers
        self.host = self._new_host(chance)
        self.metadata = self._open_metadata(storage, metadata_log, metadata, chance, logs)
        self._heartbeats = HeartbeatGate(self.metadata.driver, self.host.fetch_server)
        self.controller = ControllerDriver.of(
            self.metadata, config, session, partial(services.in_turn, urgent=True)
        )
        self._controller_asks = ControllerAsks(
            self.me, self.metadata, self.controller, self._heartbeats, services, peers,
            self._controller_answered,
        )  # fmt: skip
        self.membership = self._new_membership(registration, session)
        self.quorum = QuorumPartitions(
            self.host, storage, logs.path, services, peers, chance,
            metadata.timing._replace(founding_ms=0), self.metadata.election.directory,
            ClusterPorts(lambda: self.image, self._broker_epoch, self._ask_controller),
            written_survives=logs.written_survives,
        )  # fmt: skip
        self._failed_logs = FailedLogs(self, services, self._ask_controller, self.quorum.note_drop)
        failed = self._failed_logs
        table = TablePorts(
            self.membership.alone,
            self._may_be_decided,
            failed.went_offline,
            failed.lost,
            self._is_certain,
            lambda: self.metadata.driver.log.failure is not None,
        )
        self.partitions = PartitionTable(self.host, logs, services, self.quorum, table)
        self._promise_confirmations = PromiseConfirmations(
            self, self.host.drivers.get, services, self._ask_controller
        )
        self._others = OtherBrokers(self.host, services, self.membership.show_life)
        self._proposals = Proposals(self, self.host.drivers, services, self._ask_controller)
        self.sightings = Sightings(self.me, services, lambda: self.metadata.voters.latest, session.session_ms)
        self._session_ms = session.session_ms
        self.stopped = False
        self._ordered_ms = 0  # when ``keep_in_order`` last ran
        self._registered = False
        self._in_doubt = False  # a sync has failed: written records may be missing after a restart

    # --- parts that tidelog.sim.explore replaces ------------------------------------------------------------

    def _new_host(self, chance: Callable[[], float]) -> Host:
        return Host(self.me, self._services, self._peers, chance, self._host_ports())

    def _host_ports(self) -> HostPorts:
        return HostPorts(
            broker_epoch=self._broker_epoch,
            broker_epoch_of=self._registered_epoch,
            on_committed=self.ports.on_committed,
            on_role=self._role_changed,
            on_proposal=self._proposed,
            on_failed=self._failed,
            on_damaged=self._damaged,
            on_contradiction=self.ports.on_contradiction,
        )

    def _open_metadata(
        self, storage: Storage, log: Log, settings: MetadataSettings, chance: Callable[[], float], logs: Logs
    ) -> MetadataQuorum:
        ports = MetadataPorts(
            on_change=self._metadata_changed,
            on_active=self._activity_changed,
            before_cut=lambda offset: logs.lower_claims(METADATA_PARTITION, offset),
        )
        return open_metadata(storage, log, settings, self._services, self.host, chance, ports)

    def _new_membership(self, registration: RegisterAsk, session: SessionTiming) -> BrokerLifecycle:
        return BrokerLifecycle(
            registration,
            self._services,
            self._ask_controller,
            self._offset_caught_up_with,
            session.session_ms,
            self.config.broker_heartbeat_interval_ms,
            self.ports.on_turned_away,
        )

    # --- start and stop -------------------------------------------------------------------------------------

    @property
    def is_broker(self) -> bool:
        """False for a node that is only a controller. It hosts no partitions and serves no clients."""
        return "broker" in self.config.process_roles

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    def _broker_epoch(self) -> int:
        return self.membership.broker_epoch

    @property
    def roles_are_current(self) -> bool:
        return self.partitions.all_assigned

    @property
    def unfenced(self) -> AbstractSet[int]:
        return self._others.unfenced

    @property
    def lost_peers(self) -> AbstractSet[int]:
        """Peers whose connections have just closed. Always the same set object."""
        return self.sightings.lost

    def start(self) -> None:
        self.ports.on_metadata_checked()
        self.host.start()
        if self.is_broker:
            self.membership.start()
        self._services.later(TICK_MS, self._tick)

    def stop(self) -> None:
        self.stopped = True
        self._controller_asks.stop()
        self.host.stop()
        self.membership.stop()
        self.metadata.stop()

    def _tick(self) -> None:
        if self.stopped:
            return
        try:
            self._look(self._services.uptime_ms())
        finally:
            # Even after an error: a controller without a tick would never fence a broker again.
            late = self._services.perturb("late tick")
            self._services.later(10 * TICK_MS if late else TICK_MS, self._tick)

    def _look(self, now_ms: int) -> None:
        if not self._services.perturb("controller looks away"):
            self.controller.tick(now_ms, self.metadata.driver.voter.followed_ms(self._session_ms))
        if now_ms - self._ordered_ms >= KEEP_IN_ORDER_MS:
            self._ordered_ms = now_ms
            self.controller.keep_in_order(now_ms)
            self._failed_logs.look()
        self._heartbeats.look()
        self.metadata.tick()
        self.quorum.tick(now_ms)
        if self.metadata.election.is_mistaken_for_leader and self.metadata.leader != self.me:
            self.membership.refused(f"another node {self.me} is the active controller")
        orphaning = self.sightings.orphaning()
        self.partitions.stand_in_for(orphaning)
        self.sightings.look(now_ms, orphaning)

    @property
    def ready(self) -> bool:
        """Whether this node is in use: a broker with a session, or a controller that knows the leader."""
        if not self.is_broker:
            return self.metadata.leader >= 0
        return not self.membership.fenced and not self.membership.alone()

    @property
    def has_successors(self) -> bool:
        """Whether another broker could take over the partitions that this one leads."""
        others = self.metadata.image.brokers.values()
        return (
            self.is_broker
            and self.ready
            and any(not each.fenced and each.broker_id != self.me for each in others)
        )

    @property
    def has_deciders(self) -> bool:
        """Whether a majority of the controllers is reachable, judging by closed connections."""
        return self.sightings.has_deciders

    def _apply(self, image: ClusterImage) -> None:
        self.ports.on_metadata(image)

    def _is_certain(self) -> bool:
        """Whether no controller has fenced this broker, as far as it can know."""
        return (
            self.membership.is_certain and not self.sightings.may_be_fenced_early and self._hears_decisions()
        )

    def _hears_decisions(self) -> bool:
        """Whether the active controller has answered a fetch of the metadata within a session. Heartbeats may
        be answered while fetches are not: they use different connections. A partition may have been moved.
        """
        leader = self.metadata.leader
        heard_ms = self.host.leader_heard_ms(self.metadata.driver, leader)
        return leader == self.me or heard_ms > self._services.uptime_ms() - self._session_ms

    def _may_be_decided(self) -> bool:
        """Whether controllers may have made decisions since its session that this broker has not heard of:
        the others, or this one with them.
        """
        return self.sightings.may_have_been_decided(
            self.membership.session_end_ms
        ) or self.metadata.may_have_ended_session(self.me)

    # --- messages -------------------------------------------------------------------------------------------

    def receive(self, message: NodeMessage) -> None:
        self.sightings.heard(message.sender)
        match message:
            case Asked(sender, ask):
                self._controller_asks.received(sender, ask)
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
        if not self._is_member(peer):
            # Not registered, or any client that says it is a node: its messages are forgotten with it.
            self.sightings.forget(peer)
            self.host.peer_lost(peer)
            return
        if peer in self.metadata.voters.latest:
            self.membership.controller_lost()
        self.sightings.went_silent(peer)
        self.host.peer_lost(peer)
        self.controller.broker_lost(peer, self._services.uptime_ms())

    def _is_member(self, peer: int) -> bool:
        return peer in self.metadata.image.brokers or peer in self.metadata.voters.latest

    def peer_dead(self, peer: int) -> None:
        """Its address refuses connections: its process has certainly ended."""
        if self.sightings.ended(peer):
            self.controller.broker_lost(peer, self._services.uptime_ms(), dead=True)

    def _ask_controller(self, ask: ControllerAsk) -> None:
        self._controller_asks.ask(ask)

    def _controller_answered(self, got: ControllerGot) -> None:
        if isinstance(got, InSyncGot):
            self._proposals.answered(got)
        elif isinstance(got, OfflineGot):
            self._failed_logs.answered(got)
        elif isinstance(got, PromiseConfirmedGot):
            pass  # The report is repeated until the metadata contains it.
        else:
            self.membership.answered(got)

    def _offset_caught_up_with(self) -> int:
        """The metadata offset for heartbeats. The controllers unfence a broker that has caught up. A
        restarted broker reports -1 until its logs are open and their losses are reported. Otherwise it could
        become the leader of a partition whose records it has lost.
        """
        if self.membership.fenced and not (
            self._registered and self.partitions.all_open and self._failed_logs.have_told
        ):
            return -1
        return self.metadata.committed_offset

    # --- the metadata log -----------------------------------------------------------------------------------

    def _role_changed(self, driver: ReplicaDriver) -> None:
        self._proposals.forget(driver)
        self.quorum.role_changed(driver)
        if driver is self.metadata.driver and self.metadata.leader >= 0:
            self.membership.show_life()
        self.ports.on_role(driver)

    def _activity_changed(self, active: bool) -> None:
        if active:
            now_ms = self._services.uptime_ms()
            self.controller.activate(now_ms)
            self._found_cluster()
            # Brokers that failed together with the last controller are not given a whole session.
            for peer, dead in self.sightings.silent():
                self.controller.broker_lost(peer, now_ms, dead=dead)
            self.membership.hurry()
        else:
            self.controller.deactivate()
            self._heartbeats.close()

    def _found_cluster(self) -> None:
        """The first active controller of a new cluster writes the cluster id."""
        name = self.config.cluster_id or _short_id(self._services.new_uuid())

        def decide(image: ClusterImage) -> list[MetadataRecord]:
            return [] if image.cluster_id else [ClusterFounded(name)]

        if not self.metadata.image.cluster_id:
            self.metadata.submit(decide, lambda error: None)

    def configure(self, config: BrokerConfig) -> None:
        """Settings have changed while running."""
        self.config = config
        self.controller.configure(config)

    # --- the replicas of this broker ------------------------------------------------------------------------

    def _metadata_changed(self, image: ClusterImage) -> None:
        self.ports.on_applied(image)
        self._act_on(image)

    def _act_on(self, image: ClusterImage) -> None:
        for broker_id in self._others.forget_earlier_runs(image):
            self.sightings.registered(broker_id)
        me = image.brokers.get(self.me)
        # Earlier assignments were made to an earlier process of this broker. If this process led in such an
        # epoch again, perhaps with a shorter log, the epoch would have two leaders.
        if me is not None and me.incarnation == self.membership.incarnation:
            self._apply(image)
            if not self._registered:
                self._registered = True
                self._come_back()
        if me is not None:
            self.membership.metadata_says(me.broker_epoch, fenced=me.fenced)
        self._others.invite_returned(image)
        self._failed_logs.metadata_changed(image)
        self.partitions.when_open(lambda: self._promise_confirmations.metadata_changed(self.image))
        self.membership.hurry()

    def _come_back(self) -> None:
        """The registration of this process is in the metadata. Wait until all logs are open."""
        if self.partitions.all_open:
            self._note_checked()
        else:
            self.partitions.when_open(self._came_back)

    def _came_back(self) -> None:
        self._note_checked()
        self.membership.hurry()

    def _note_checked(self) -> None:
        """Record that all logs were checked. Not if a log has failed: the next process must check it like
        this one, or it would treat a log end that is torn by a power failure as damage.
        """
        if not self.partitions.has_failed_logs and not self._in_doubt:
            self.ports.on_registered()

    def _proposed(self, driver: ReplicaDriver, proposal: ProposeInSync) -> None:
        self._proposals.proposed(driver, proposal, self._others.epochs)

    def _failed(self, driver: ReplicaDriver, error: StorageError) -> None:
        if driver.log.sync_failed:
            self._in_doubt = True
            self.ports.on_sync_failed()
        if driver is self.metadata.driver:
            self._leave_to_others()
        else:
            self._failed_logs.failed(driver)

    def _leave_to_others(self) -> None:
        """The metadata log has failed: this broker hears of no decision until it is restarted. The
        controllers could appoint it to lead, or appoint a successor, and it would not know.
        """
        if self.is_broker and not self.stopped:
            logger.error("broker %s gives up its session: it cannot follow the metadata any more", self.me)
        self.membership.give_up()
        self.quorum.retire()

    def _damaged(self, driver: ReplicaDriver) -> None:
        if driver is not self.metadata.driver:
            self._failed_logs.damaged(driver)

    def _registered_epoch(self, broker_id: int) -> int:
        broker = self.metadata.image.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch


def _short_id(uuid: UUID) -> str:
    """22 characters of base64, the form of cluster ids in Kafka's tools."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=").replace("-", "_")
