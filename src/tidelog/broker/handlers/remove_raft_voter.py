"""RemoveRaftVoter, version 0: removes a voter of the metadata log. An active controller then resigns."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.quorum_requests import change_voters, voter_of
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields

TIMEOUT_MS = 10_000  # The request has no timeout.


def handle(broker: Broker, request: Any, context: RequestContext) -> Future[Fields]:
    voter = voter_of(broker, request.voter_id, request.voter_directory_id)
    return change_voters(
        broker, request.cluster_id, lambda quorum, done: quorum.voters.remove(voter, TIMEOUT_MS, done)
    )
