"""The messages between brokers and the active controller. On the wire they are Kafka's own requests
(BrokerRegistration, BrokerHeartbeat, AlterPartition, AssignReplicasToDirs).
"""

from typing import NamedTuple
from uuid import UUID

from tidelog.controller.cluster_settings import Values
from tidelog.controller.endpoints import Endpoint
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.promises import ConfirmedPromise
from tidelog.errors import ErrorCode


class RegisterAsk(NamedTuple):
    broker_id: int
    incarnation: UUID
    host: str
    port: int
    rack: str | None
    forgot: bool  # the machine lost power before everything was synced
    directory: UUID | None = None  # of its data; a new id means a new disk
    cluster_settings: Values = ()  # settings from its file that must be the same on all brokers
    # The latest registration epoch of this broker that the sender knows; 0: none. None: sent by an earlier
    # version, which does not say.
    known_epoch: int | None = None
    endpoints: tuple[Endpoint, ...] = ()  # for clients, by listener


class RegisterGot(NamedTuple):
    broker_id: int
    incarnation: UUID
    error: ErrorCode
    broker_epoch: int  # of its registration; with STALE_BROKER_EPOCH the one that it must know


class HeartbeatAsk(NamedTuple):
    broker_id: int
    broker_epoch: int
    metadata_offset: int  # exclusive: everything before it is applied
    leaving: bool = False  # asks to lose its leaderships before it stops
    number: int = 0  # rises with each heartbeat; the response has the same number


class HeartbeatGot(NamedTuple):
    broker_id: int
    broker_epoch: int
    error: ErrorCode
    fenced: bool
    may_stop: bool = False
    number: int = 0  # of the heartbeat that it answers


class InSyncAsk(NamedTuple):
    proposal: InSyncProposal


class InSyncGot(NamedTuple):
    proposal: InSyncProposal
    error: ErrorCode


class OfflineAsk(NamedTuple):
    """A broker cannot serve these partitions any more: their logs have failed, are damaged, or could not be
    opened. ``healed``: it can again, though it may hold less than before. ``unwritable``: nothing that was
    synced is damaged or missing. ``partition_epochs``: of damaged ones, in the same order, as the broker
    knows them; empty if it does not say.
    """

    broker_id: int
    broker_epoch: int
    partitions: tuple[tuple[UUID, int], ...]
    healed: bool = False
    unwritable: bool = False
    partition_epochs: tuple[int, ...] = ()


class OfflineGot(NamedTuple):
    broker_id: int
    broker_epoch: int
    partitions: tuple[tuple[UUID, int], ...]
    error: ErrorCode
    healed: bool = False
    unwritable: bool = False


class PromiseConfirmedAsk(NamedTuple):
    """A broker confirms that new promises of the settings hold for its replicas of these partitions."""

    broker_id: int
    broker_epoch: int
    confirmed: tuple[ConfirmedPromise, ...]


class PromiseConfirmedGot(NamedTuple):
    broker_id: int
    broker_epoch: int
    confirmed: tuple[ConfirmedPromise, ...]
    error: ErrorCode


ControllerAsk = RegisterAsk | HeartbeatAsk | InSyncAsk | OfflineAsk | PromiseConfirmedAsk
ControllerGot = RegisterGot | HeartbeatGot | InSyncGot | OfflineGot | PromiseConfirmedGot
