"""Assembles a node: metadata, controller, replicas, client handlers, and connections to other nodes.

This module only connects the parts. It makes no decisions and stores nothing on disk.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.metadata.opening import MetadataSettings
from tidelog.broker.node.node import Node
from tidelog.broker.node.ports import NodePorts
from tidelog.config import BrokerConfig, SecurityProtocol
from tidelog.config.node_listeners import authenticates_nodes
from tidelog.controller import cluster_settings
from tidelog.controller.controller import SessionTiming
from tidelog.controller.image import ClusterImage
from tidelog.controller.messages import RegisterAsk
from tidelog.log.directory import DataDirectory
from tidelog.replication.voters import Voter
from tidelog.runtime import boot
from tidelog.runtime.addresses import Addresses
from tidelog.runtime.client_logins import ClientLogins
from tidelog.runtime.disk import Disk
from tidelog.runtime.peers.channel import Address
from tidelog.runtime.peers.gate import Gate
from tidelog.runtime.peers.links import WireLinks
from tidelog.runtime.peers.node_login import NodeLogins
from tidelog.runtime.peers.peers import WirePeers
from tidelog.runtime.peers.relay import Relay
from tidelog.runtime.peers.trust import NodeTrust
from tidelog.runtime.server import Server
from tidelog.runtime.services import LoopServices
from tidelog.runtime.tls.node import NodeTls
from tidelog.security.audit import Line
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.security.scram import ScramCredential, ScramMechanism


class Assembly:
    """A node that is ready to start."""

    def __init__(
        self,
        config: BrokerConfig,
        data: Path,
        directory: DataDirectory,
        disk: Disk,
        services: LoopServices,
        loop: asyncio.AbstractEventLoop,
        addresses: Addresses,
        turn_away: Callable[[str], None],
        room: int,
        tls: NodeTls,
        home: Path,
        secret: ClusterSecret | None = None,
        audit: Callable[[Line], None] | None = None,
    ) -> None:
        """``turn_away`` is called with the reason when the cluster refuses this node permanently. ``room``:
        for how many connections the process has descriptors. ``home``: where relative paths of settings
        begin. ``secret``: by which nodes recognise each other. ``audit`` writes a line of the audit log.
        """
        self._config = config
        self._data = data
        directory.same_boot = boot.stayed_on(data)
        directory.same_boot_for_metadata = boot.stayed_on_since_metadata(data)
        self.peers = WirePeers(
            config.node_id,
            loop,
            services,
            self._address_of,
            lambda: self.node.metadata.image.cluster_id or directory.cluster_id or "",
            config.socket_request_max_bytes,
            self._addresses_of,
            self._refused_by,
            tls.links(self._listener_at).open,
            None if secret is None else NodeLogins(secret, config.node_id, config.cluster_secret_required),
        )
        self._logging_level = config.logging_level
        at = addresses.controller
        me = Voter(config.node_id, directory.directory_id, at.host, at.port)
        self.node = Node(
            config,
            self._registration(directory, services.new_uuid(), addresses),
            MetadataSettings.of(config, me),
            directory.open_metadata_log(services.now_ms()),
            disk,
            directory,
            services,
            self.peers,
            random.random,
            SessionTiming(session_ms=config.broker_session_timeout_ms),
            NodePorts(
                on_metadata=self._metadata_changed,
                on_metadata_checked=lambda: boot.note_metadata(data),
                on_registered=lambda: boot.note_use(data),
                on_sync_failed=lambda: boot.doubt(data),
                on_turned_away=turn_away,
                on_contradiction=lambda driver, leader, error: driver.contradicted(leader, error),
            ),
        )
        self.peers.connect(self.node.receive, self.node.peer_lost, self.node.peer_dead)
        metadata = self.node.metadata
        self.broker = Broker(
            config, metadata, self.node.partitions, services, self._links, services.compute,
            self.node.lost_peers, self._configure, self._quotas_changed, audit,
        )  # fmt: skip
        relay = Relay(
            self.broker,
            self.peers,
            lambda: metadata.leader,
            lambda: self.node.controller.active,
            services.compute,
        )
        gate = Gate(self.peers.inbound, relay, _trust(config, secret))
        self.server = Server(self.broker, loop, gate, services, room, self._client_logins(home, services))

    def _client_logins(self, home: Path, services: LoopServices) -> dict[str, ClientLogins]:
        """What clients log in with, by the names of the listeners that ask for a login."""
        config = self._config
        return {
            listener.name: ClientLogins(
                config.of_listener(listener.name), listener, home, self._credential, services.now_ms
            )
            for listener in config.listeners
            if listener.protocol.uses_sasl
        }

    def _credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self.node.metadata.image.security.credential(mechanism, user)

    def _metadata_changed(self, image: ClusterImage) -> None:
        self.broker.metadata_changed(image)

    def _configure(self, config: BrokerConfig) -> None:
        """Settings have changed while running."""
        self.node.configure(config)
        if config.logging_level != self._logging_level:  # A client may have changed the root logger since.
            self._logging_level = config.logging_level
            logging.getLogger().setLevel(config.logging_level.upper())
        self.server.configure(config)

    def _quotas_changed(self) -> None:
        self.server.quotas_changed()

    def _refused_by(self, peer: int) -> None:
        self.node.membership.refused(f"node {peer} belongs to another cluster than the data in {self._data}")

    def _links(self, broker: Broker) -> WireLinks:
        return WireLinks(broker, self.peers, lambda: broker.store.leader)

    def _registration(self, directory: DataDirectory, incarnation: UUID, addresses: Addresses) -> RegisterAsk:
        forgot = boot.machine_was_off(self._data, was_clean=directory.was_clean, is_new=directory.is_new)
        config = self._config
        return RegisterAsk(
            config.node_id, incarnation, addresses.peers.host, addresses.peers.port, config.broker_rack,
            forgot, directory.directory_id, cluster_settings.values_of(config), endpoints=addresses.endpoints,
        )  # fmt: skip

    def _address_of(self, node_id: int) -> Address | None:
        """The next address to try. The address in the metadata is usually correct. But if all nodes have
        moved at once, only the settings are. So after a failed attempt the next address is tried.
        """
        known = self._addresses_of(node_id)
        return known[self.peers.presence.failed_attempts(node_id) % len(known)] if known else None

    def _addresses_of(self, node_id: int) -> list[Address]:
        for each in self._config.node_addresses:
            if each.node_id == node_id:
                return [(each.host, each.port)]
        known: list[Address] = []
        voter = self.node.metadata.voters.latest.get(node_id)
        if voter is not None and voter.host:
            known.append((voter.host, voter.port))
        broker = self.node.metadata.image.brokers.get(node_id)
        if broker is not None:
            known.append((broker.host, broker.port))
        named = self._config.controller_quorum_voters
        known += [(each.host, each.port) for each in named if each.node_id == node_id]
        return list(dict.fromkeys(known))

    def _listener_at(self, node_id: int, address: Address) -> str:
        """The listener that an address belongs to. That of a voter is the controllers' listener, unless it is
        also where brokers connect to it.
        """
        peers = self._config.inter_broker_listener.name
        broker = self.node.metadata.image.brokers.get(node_id)
        if broker is not None and (broker.host, broker.port) == address:
            return peers
        if any(each.node_id == node_id for each in self._config.node_addresses):
            return peers
        inner = self._config.controller_listener_names
        voter = self.node.metadata.voters.latest.get(node_id)
        named = [(each.host, each.port) for each in self._config.controller_quorum_voters]
        if inner and (address in named or (voter is not None and (voter.host, voter.port) == address)):
            return inner[0]
        return peers

    def stop(self) -> None:
        self.node.stop()
        self.peers.stop()


def _trust(config: BrokerConfig, secret: ClusterSecret | None) -> NodeTrust:
    is_required = config.cluster_secret_required if secret is not None else authenticates_nodes(config)
    return NodeTrust(
        secret,
        config.inter_broker_principal,
        config.peer_listener_names,
        by_certificate=frozenset(
            listener.name for listener in config.listeners if listener.protocol is SecurityProtocol.SSL
        ),
        # Access rules do not apply to nodes, so with them a claim to be one must never be enough.
        is_required=is_required or bool(config.authorizer_class_name),
    )
