"""AddRaftVoter, versions 0 and 1: a node that has caught up with the metadata log becomes a voter.

The response is sent when the change is committed. Ignored: ``ack_when_committed``.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.quorum_requests import change_voters, voter_of
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields, milliseconds


def handle(broker: Broker, request: Any, context: RequestContext) -> Future[Fields]:
    voter = voter_of(broker, request.voter_id, request.voter_directory_id, request.listeners)
    timeout_ms = max(milliseconds(request.timeout), 0)
    return change_voters(
        broker, request.cluster_id, lambda quorum, done: quorum.voters.add(voter, timeout_ms, done)
    )
