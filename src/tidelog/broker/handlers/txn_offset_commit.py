"""TxnOffsetCommit, versions 0 to 5: offsets that become visible when the transaction commits.

As with records, the transaction coordinator is asked first whether they belong to an open transaction.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.failures import coordinator_error
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.future import Future
from tidelog.broker.requests import committing
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.transactions.admission import Then, client_of_offset_commit
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit
from tidelog.transactions.rules import ProducerIdAndEpoch


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    def begin(offsets: list[OffsetToCommit]) -> Future[Any]:
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
        response: Future[Any] = Future()

        def admitted(refusal: TidelogError | None) -> None:
            if refusal is not None:
                response.complete(TidelogError(refusal.message, coordinator_error(refusal.code)))
            else:
                machine.ask(lambda waiter, now: machine.groups.commit(commit, waiter, now)).then(
                    response.complete
                )

        _admit(broker, request, context.version, admitted)
        return response

    return committing.commit(committing.read(broker, request.topics), begin)


def _admit(broker: Broker, request: Any, version: int, then: Then) -> None:
    index = broker.coordinators.groups.partition_of(request.group_id)
    partition = None if index is None else broker.partitions.find(CONSUMER_OFFSETS, index)[0]
    if partition is None:
        then(
            TidelogError("this broker is not the coordinator of the group", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )
        return
    broker.admission.admit(
        partition,
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        client_of_offset_commit(version),
        then,
    )
