"""What the controller asks of its surroundings: plain data, carried out in order (:mod:`.driver`).

A decision is made on the newest image of the cluster, which only the metadata store has. So the controller
names what is to be decided, the driver hands the image to :meth:`.Controller.decide`, and tells it with
:meth:`.Controller.committed` what became of the records.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.messages import (
    ControllerGot,
    HeartbeatAsk,
    InSyncAsk,
    KeptAsk,
    OfflineAsk,
    RegisterAsk,
)
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode


class Fence(NamedTuple):
    """Nothing was heard of a broker for too long."""

    broker_id: int


class Reconsider(NamedTuple):
    """Whether every partition is led by the broker that should."""


class Balance(NamedTuple):
    """Leadership goes back to the preferred replicas."""


class Register(NamedTuple):
    ask: RegisterAsk
    now_ms: int


class Keep(NamedTuple):
    """A heartbeat: is its broker fenced? ``may_return``: it knows what ended its leaderships."""

    ask: HeartbeatAsk
    may_return: bool


class Relieve(NamedTuple):
    """A broker wants to stop."""

    ask: HeartbeatAsk


Decision = Fence | Reconsider | Balance | Register | Keep | Relieve | InSyncAsk | KeptAsk | OfflineAsk


class Decided(NamedTuple):
    """What is to be written, and what the answer says once that is committed."""

    records: Sequence[MetadataRecord]
    verdict: ErrorCode | bool | None = None


class Submit(NamedTuple):
    """Have it decided, and what is decided written. ``token``: who asked for it; None for no one."""

    decision: Decision
    token: int | None = None


class Reply(NamedTuple):
    """The answer to the request that was handed in with ``token``."""

    token: int
    got: ControllerGot


Effect = Submit | Reply
Effects = list[Effect]
