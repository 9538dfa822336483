"""Guards of APIs that concern the cluster as a whole."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidelog.broker.guards.parts import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    MESSAGES,
    TOPIC_DENIED,
    Admitted,
    Forbidden,
    Guard,
    GuardedRequest,
    error,
    refuse,
)
from tidelog.broker.links.to_controller import RELAYED
from tidelog.broker.requests.resources import GROUP, TOPIC
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType


def cluster(operation: Operation, *others: Operation) -> Guard:
    """One of the operations is needed. The response has one error for everything."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        return Admitted(asked.request) if _may(asked, operation, *others) else refuse(CLUSTER_DENIED)

    return guard


def cluster_for_each(operation: Operation, api_key: int) -> Guard:
    """The same for responses with an error for each part of the request."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        if _may(asked, operation):
            return Admitted(asked.request)
        return Forbidden(RELAYED[api_key](asked.request, CLUSTER_DENIED, MESSAGES[CLUSTER_DENIED]))

    return guard


def _may(asked: GuardedRequest, *operations: Operation) -> bool:
    """Only the last refusal is told in the audit log."""

    *first, last = operations
    if any(asked.access.sees(each, ResourceType.CLUSTER, CLUSTER_NAME) for each in first):
        return True
    return asked.access.cluster(last)


def quotas_shown(asked: GuardedRequest) -> Admitted | Forbidden:
    if asked.access.cluster(Operation.DESCRIBE_CONFIGS):
        return Admitted(asked.request)
    return Forbidden({**error(CLUSTER_DENIED), "entries": None})


def users_shown(guarded: GuardedRequest) -> Admitted | Forbidden:
    """With a row for each user: librdkafka's callers expect one."""
    if guarded.access.cluster(Operation.DESCRIBE):
        return Admitted(guarded.request)
    names = dict.fromkeys(user.name for user in guarded.request.users or ())
    rows = [{"user": name, **error(CLUSTER_DENIED)} for name in names]
    return Forbidden({**error(CLUSTER_DENIED), "results": rows})


def markers(asked: GuardedRequest) -> Admitted | Forbidden:
    """WriteTxnMarkers, by administrators. Brokers are not asked."""
    if _may(asked, Operation.ALTER, Operation.CLUSTER_ACTION):
        return Admitted(asked.request)
    return Forbidden(
        {
            "markers": [
                {
                    "producer_id": marker.producer_id,
                    "topics": [
                        {
                            "name": topic.name,
                            "partitions": [
                                {"partition_index": index, "error_code": CLUSTER_DENIED}
                                for index in topic.partition_indexes
                            ],
                        }
                        for topic in marker.topics
                    ],
                }
                for marker in asked.request.markers
            ]
        }
    )


# --- settings -----------------------------------------------------------------------------------------------


def resources(operation: Operation, answered: str) -> Guard:
    """Settings of topics, groups and the cluster."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        allowed: list[Any] = []
        denied: list[Fields] = []
        for resource in asked.request.resources:
            code = _refusal_of(asked, operation, resource)
            if code is None:
                allowed.append(resource)
                continue
            names = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            denied.append({**names, **error(code)})
        if not denied:
            return Admitted(asked.request)
        if not allowed:
            return Forbidden({answered: denied})
        request = replace(asked.request, resources=tuple(allowed))
        return Admitted(request, lambda fields: {**fields, answered: [*fields[answered], *denied]})

    return guard


def _refusal_of(asked: GuardedRequest, operation: Operation, resource: Any) -> ErrorCode | None:
    """Of a broker, its loggers and everything else, the settings are the cluster's."""
    checks: dict[int, tuple[Callable[[Operation, str], bool], ErrorCode]] = {
        TOPIC: (asked.access.topic, TOPIC_DENIED),
        GROUP: (asked.access.group, GROUP_DENIED),
    }
    if resource.resource_type not in checks:
        return None if asked.access.cluster(operation) else CLUSTER_DENIED
    may, code = checks[resource.resource_type]
    return None if may(operation, resource.resource_name) else code
