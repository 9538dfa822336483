"""OffsetCommit, versions 2 to 10: by members of a group, or by any client while the group has no members."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests import committing
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.groups.offset_requests import NO_RETENTION, CommitRequest, OffsetToCommit
from tidelog.protocol.messages import milliseconds


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    retention = getattr(request, "retention_time", None)

    def begin(offsets: list[OffsetToCommit]) -> Future[Any]:
        machine = machine_of(broker, request.group_id, may_be_empty=True)
        commit = CommitRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            generation=request.generation_id_or_member_epoch,
            offsets=offsets,
            version=context.version,
            retention_ms=NO_RETENTION if retention is None else milliseconds(retention),
        )
        return machine.ask(lambda waiter, now: machine.groups.commit(commit, waiter, now))

    return committing.commit(committing.read(broker, request.topics), begin)
