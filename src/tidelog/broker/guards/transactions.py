"""Guards of APIs for transactions and producer ids."""

from collections.abc import Iterable
from typing import Any

from tidelog.broker.guards.parts import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    Admitted,
    Forbidden,
    GuardedRequest,
    refuse,
)
from tidelog.broker.handlers.add_partitions_to_txn import BATCHED_FROM
from tidelog.broker.requests.transacting import refused_transaction
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType


def producer_id(asked: GuardedRequest) -> Admitted | Forbidden:
    """For a transactional id: WRITE on it. Without one: IDEMPOTENT_WRITE, or WRITE on some topic."""
    access, transactional_id = asked.access, asked.request.transactional_id
    if transactional_id is not None:
        if access.transactional_id(Operation.WRITE, transactional_id):
            return Admitted(asked.request)
        return refuse(TRANSACTIONAL_ID_DENIED)
    if access.sees(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return Admitted(asked.request)
    if access.may_any(Operation.WRITE, ResourceType.TOPIC):
        return Admitted(asked.request)
    access.note_refusal(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    return refuse(CLUSTER_DENIED)


def transaction(asked: GuardedRequest) -> Admitted | Forbidden:
    if asked.access.transactional_id(Operation.WRITE, asked.request.transactional_id):
        return Admitted(asked.request)
    return refuse(TRANSACTIONAL_ID_DENIED)


def add_offsets(asked: GuardedRequest) -> Admitted | Forbidden:
    of_id = transaction(asked)
    if isinstance(of_id, Forbidden) or asked.access.group(Operation.READ, asked.request.group_id):
        return of_id
    return refuse(GROUP_DENIED)


def add_partitions(asked: GuardedRequest) -> Admitted | Forbidden:
    """All or none: a transaction that lacks a partition could not be committed whole."""
    request, access = asked.request, asked.access
    if asked.version >= BATCHED_FROM:
        return Admitted(request) if access.cluster(Operation.CLUSTER_ACTION) else refuse(CLUSTER_DENIED)
    topics = request.v3_and_below_topics
    names = [topic.name for topic in topics]
    if not access.transactional_id(Operation.WRITE, request.v3_and_below_transactional_id):
        return _refuse_all(topics, dict.fromkeys(names, TRANSACTIONAL_ID_DENIED))
    denied = [name for name in dict.fromkeys(names) if not access.topic(Operation.WRITE, name)]
    if not denied:
        return Admitted(request)
    codes = dict.fromkeys(names, ErrorCode.OPERATION_NOT_ATTEMPTED) | dict.fromkeys(denied, TOPIC_DENIED)
    return _refuse_all(topics, codes)


def _refuse_all(topics: Iterable[Any], codes: dict[str, ErrorCode]) -> Forbidden:
    return Forbidden(
        {
            "results_by_topic_v3_and_below": [
                {
                    "name": topic.name,
                    "results_by_partition": [
                        {"partition_index": index, "partition_error_code": codes[topic.name]}
                        for index in topic.partitions
                    ],
                }
                for topic in topics
            ]
        }
    )


def described(asked: GuardedRequest) -> Admitted:
    """The topics of a transaction that the client may not describe are left out."""
    access = asked.access

    def shown(row: Fields) -> Fields:
        topics = [
            topic
            for topic in row.get("topics", ())
            if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, topic["topic"])
        ]
        return {**row, "topics": topics}

    return Admitted(
        asked.request,
        lambda fields: {
            **fields,
            "transaction_states": [shown(row) for row in fields["transaction_states"]],
        },
    )


def refused(transactional_id: str) -> Fields:
    return refused_transaction(transactional_id, TRANSACTIONAL_ID_DENIED)
