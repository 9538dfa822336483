"""RemoveRaftVoter, version 0: a controller votes no longer; if it was the active one, another takes over."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.promise import Promise
from tidelog.broker.requests.quorum_requests import change_voters, voter_of
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields

TIMEOUT_MS = 10_000  # The request names none.


def handle(broker: Broker, request: Any, context: RequestContext) -> Promise[Fields]:
    voter = voter_of(broker, request.voter_id, request.voter_directory_id)
    return change_voters(
        broker, request.cluster_id, lambda quorum, done: quorum.voters.remove(voter, TIMEOUT_MS, done)
    )
