"""Shared by the handlers for the quorum of controllers."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.requests.request import error_of
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import ZERO_UUID, Fields
from tidelog.replication.voters import Voter

Done = Callable[[TidelogError | None], None]
Change = Callable[[MetadataQuorum, Done], None]


def quorum_of(broker: Broker) -> MetadataQuorum:
    if not isinstance(broker.store, MetadataQuorum):
        raise TidelogError(
            "this broker's metadata is not replicated by a quorum of controllers",
            ErrorCode.UNSUPPORTED_VERSION,
        )
    return broker.store


def change_voters(broker: Broker, cluster_id: str | None, change: Change) -> Future[Fields]:
    """Change the voters; the future completes when the change is committed or refused."""
    future: Future[Fields] = Future()
    try:
        quorum = quorum_of(broker)
        if cluster_id not in (None, quorum.image.cluster_id):
            message = f"this is cluster {quorum.image.cluster_id}, not {cluster_id}"
            raise TidelogError(message, ErrorCode.INCONSISTENT_CLUSTER_ID)
        change(quorum, lambda error: future.complete(error_of(error)))
    except TidelogError as refusal:
        future.complete(error_of(refusal))
    return future


def voter_of(broker: Broker, voter_id: int, directory: UUID | None, listeners: Sequence[Any] = ()) -> Voter:
    """The voter in a request. Of several addresses, that of a controller listener is used."""
    names = broker.config.controller_listener_names
    listener = next((each for each in listeners if each.name.upper() in names), None)
    if listener is None and listeners:
        listener = listeners[0]
    known = None if directory == ZERO_UUID else directory
    if listener is None:
        return Voter(voter_id, known)
    return Voter(voter_id, known, listener.host, int(listener.port))
