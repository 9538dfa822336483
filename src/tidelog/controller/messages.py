"""What brokers say to the active controller, and what it answers. On the wire they are Kafka's own requests
(BrokerRegistration, BrokerHeartbeat, AlterPartition)."""

from typing import NamedTuple
from uuid import UUID

from tidelog.controller.elections import InSyncWish
from tidelog.errors import ErrorCode


class RegisterAsk(NamedTuple):
    broker_id: int
    incarnation: UUID
    host: str
    port: int
    rack: str | None
    forgot: bool  # the machine lost power before everything was synced
    empty: bool  # the disk is a new one


class RegisterGot(NamedTuple):
    broker_id: int
    incarnation: UUID
    error: ErrorCode
    broker_epoch: int


class HeartbeatAsk(NamedTuple):
    broker_id: int
    broker_epoch: int
    metadata_offset: int  # everything before it is applied
    leaving: bool = False  # asks to be relieved of its leaderships before it stops


class HeartbeatGot(NamedTuple):
    broker_id: int
    broker_epoch: int
    error: ErrorCode
    fenced: bool
    may_stop: bool = False


class InSyncAsk(NamedTuple):
    wish: InSyncWish


class InSyncGot(NamedTuple):
    wish: InSyncWish
    error: ErrorCode


ControllerAsk = RegisterAsk | HeartbeatAsk | InSyncAsk
ControllerGot = RegisterGot | HeartbeatGot | InSyncGot
