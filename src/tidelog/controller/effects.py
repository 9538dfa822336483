"""What the controller asks of its surroundings: plain data, carried out in order (:mod:`.driver`).

A decision is based on the newest image of the cluster, which only the metadata store has. So the controller
names the decision to make; the driver passes the image to :meth:`.Controller.decide`, and reports with
:meth:`.Controller.committed` what became of the records.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.controller.messages import (
    ControllerGot,
    HeartbeatAsk,
    InSyncAsk,
    OfflineAsk,
    PromiseConfirmedAsk,
    RegisterAsk,
)
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode


class Fence(NamedTuple):
    """A broker's session has expired."""

    broker_id: int


class Reconsider(NamedTuple):
    """Check whether every partition is led by the broker that should lead it."""


class Review(NamedTuple):
    """The same for the next few partitions, of those that are still to be looked at."""

    number: int  # of the slice


class Balance(NamedTuple):
    """Move leaderships back to the preferred replicas."""


class Register(NamedTuple):
    ask: RegisterAsk
    now_ms: int


class RenewSession(NamedTuple):
    """A heartbeat: is the broker fenced? ``may_return``: it has applied the records that ended its
    leaderships. ``now_ms``: when it arrived.
    """

    ask: HeartbeatAsk
    may_return: bool
    now_ms: int


class Relieve(NamedTuple):
    """A broker is shutting down."""

    ask: HeartbeatAsk


Decision = (
    Fence
    | Reconsider
    | Review
    | Balance
    | Register
    | RenewSession
    | Relieve
    | InSyncAsk
    | PromiseConfirmedAsk
    | OfflineAsk
)


class Decided(NamedTuple):
    """The records to write, and the verdict to send once they are committed."""

    records: Sequence[MetadataRecord]
    verdict: ErrorCode | bool | None = None


class Submit(NamedTuple):
    """Make a decision, and write its records. ``token``: of the request that asked for it; None if there is
    none.
    """

    decision: Decision
    token: int | None = None


class Reply(NamedTuple):
    """The response to the request with ``token``."""

    token: int
    got: ControllerGot


Effect = Submit | Reply
Effects = list[Effect]
