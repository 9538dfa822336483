"""TxnOffsetCommit, versions 0 to 5: offsets that count when the transaction commits."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers import committing
from tidelog.broker.handlers.coordination import machine_of
from tidelog.broker.promise import Promise
from tidelog.broker.request import Outcome, RequestContext
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    def begin(offsets: list[OffsetToCommit]) -> Promise[Any]:
        machine = machine_of(broker, request.group_id)
        commit = CommitRequest(
            group_id=request.group_id,
            member_id=getattr(request, "member_id", ""),
            instance_id=getattr(request, "group_instance_id", None),
            generation=getattr(request, "generation_id", -1),
            offsets=offsets,
            version=context.version,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )
        return machine.ask(lambda waiter, now: machine.groups.commit(commit, waiter, now))

    return committing.commit(committing.read(broker, request.topics), begin)
