"""Guards of APIs for groups and their offsets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidelog.broker.guards.parts import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    MESSAGES,
    TOPIC_DENIED,
    TRANSACTIONAL_ID_DENIED,
    Admitted,
    Forbidden,
    Guard,
    GuardedRequest,
    TopicShape,
    error,
    refuse,
    split,
    with_topics,
)
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Operation, ResourceType

GROUP, TRANSACTION = 0, 1  # types of coordinators
_COMMITS = TopicShape()
_OFFSETS = TopicShape(partitions="partition_indexes", number=None)
_NO_OFFSET = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


def group(operation: Operation) -> Guard:
    """For requests that name one group, with one error in the response."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        if asked.access.group(operation, asked.request.group_id):
            return Admitted(asked.request)
        return refuse(GROUP_DENIED)

    return guard


def heartbeat(asked: GuardedRequest) -> Admitted | Forbidden:
    """Of consumer groups. Names of topics must be the client's; of those that a regular expression matches,
    the handler leaves out the others.
    """
    if not asked.access.group(Operation.READ, asked.request.group_id):
        return Forbidden({**error(GROUP_DENIED), "member_id": None})
    names = dict.fromkeys(asked.request.subscribed_topic_names or ())
    if all(asked.access.topic(Operation.DESCRIBE, name) for name in names):
        return Admitted(asked.request)
    return Forbidden({**error(TOPIC_DENIED), "member_id": None})


def consumer_groups_described(asked: GuardedRequest) -> Admitted:
    """A group that reads a topic which the client may not describe is not described either."""
    access = asked.access

    def is_shown(row: Fields) -> bool:
        names = {
            topic["topic_name"]
            for member in row.get("members", ())
            for part in ("assignment", "target_assignment")
            for topic in member[part]["topic_partitions"]
        }
        names.update(name for member in row.get("members", ()) for name in member["subscribed_topic_names"])
        return all(access.topic(Operation.DESCRIBE, name) for name in names)

    def merge(fields: Fields) -> Fields:
        rows = [
            row
            if row["error_code"] or is_shown(row)
            else {"group_id": row["group_id"], **error(TOPIC_DENIED)}
            for row in fields["groups"]
        ]
        return {**fields, "groups": rows}

    return Admitted(asked.request, merge)


def both(first: Guard, second: Guard) -> Guard:
    """The second sees what the first has left."""

    def guard(asked: GuardedRequest) -> Admitted | Forbidden:
        one = first(asked)
        if isinstance(one, Forbidden):
            return one
        other = second(asked._replace(request=one.request))
        if one.merge is None:
            return other
        if isinstance(other, Forbidden):
            return Forbidden(one.merge(other.fields))
        outer, inner = one.merge, other.merge
        merge = outer if inner is None else (lambda fields: outer(inner(fields)))
        return Admitted(other.request, merge)

    return guard


# --- coordinators -------------------------------------------------------------------------------------------


def coordinator(asked: GuardedRequest) -> Admitted | Forbidden:
    request = asked.request
    key_type = getattr(request, "key_type", GROUP)
    keys = getattr(request, "coordinator_keys", None)
    may, code = _right_to_find(asked, key_type)
    may_find = {key: may(key) for key in dict.fromkeys((request.key,) if keys is None else keys)}
    denied: list[Fields] = [
        {"key": key, "node_id": -1, "host": "", "port": -1, **error(code)}
        for key, allowed in may_find.items()
        if not allowed
    ]
    if not denied:
        return Admitted(request)
    if keys is None:
        return Forbidden(denied[0])
    left = tuple(key for key in keys if may_find[key])
    if not left:
        return Forbidden({"coordinators": denied})
    return Admitted(
        replace(request, coordinator_keys=left),
        lambda fields: {**fields, "coordinators": [*fields["coordinators"], *denied]},
    )


def _right_to_find(asked: GuardedRequest, key_type: int) -> tuple[Callable[[str], bool], ErrorCode]:
    access = asked.access
    if key_type == GROUP:
        return lambda key: access.group(Operation.DESCRIBE, key), GROUP_DENIED
    if key_type == TRANSACTION:
        return lambda key: access.transactional_id(Operation.DESCRIBE, key), TRANSACTIONAL_ID_DENIED
    return lambda _: access.cluster(Operation.CLUSTER_ACTION), CLUSTER_DENIED


# --- offsets ------------------------------------------------------------------------------------------------


def commit(asked: GuardedRequest) -> Admitted | Forbidden:
    if not asked.access.group(Operation.READ, asked.request.group_id):
        return _refuse_commits(asked, GROUP_DENIED)
    allowed, denied = split(asked, Operation.READ, asked.request.topics)
    return with_topics(asked, allowed, [_COMMITS.refuse(topic, TOPIC_DENIED) for topic in denied])


def commit_in_transaction(asked: GuardedRequest) -> Admitted | Forbidden:
    if not asked.access.transactional_id(Operation.WRITE, asked.request.transactional_id):
        return _refuse_commits(asked, TRANSACTIONAL_ID_DENIED)
    return commit(asked)


def _refuse_commits(asked: GuardedRequest, code: ErrorCode) -> Forbidden:
    return Forbidden({"topics": [_COMMITS.refuse(topic, code) for topic in asked.request.topics]})


def delete_offsets(asked: GuardedRequest) -> Admitted | Forbidden:
    if not asked.access.group(Operation.DELETE, asked.request.group_id):
        return Forbidden({**error(GROUP_DENIED), "topics": []})
    allowed, denied = split(asked, Operation.READ, asked.request.topics)
    return with_topics(asked, allowed, [_COMMITS.refuse(topic, TOPIC_DENIED) for topic in denied])


def fetch_offsets(asked: GuardedRequest) -> Admitted | Forbidden:
    """Of one group, in old versions, or of several."""
    groups = getattr(asked.request, "groups", None)
    if groups is None:
        one = _offsets_of(asked, asked.request)
        return Forbidden(one) if isinstance(one, dict) else Admitted(one[0], one[1])
    left: list[Any] = []
    merges: list[Callable[[Fields], Fields] | None] = []
    denied: list[Fields] = []
    for each in groups:
        judged = _offsets_of(asked, each)
        if isinstance(judged, dict):
            denied.append(judged)
        else:
            left.append(judged[0])
            merges.append(judged[1])
    if not left and denied:
        return Forbidden({"groups": denied})

    def merge(fields: Fields) -> Fields:
        rows = [
            row if change is None else change(row)
            for row, change in zip(fields["groups"], merges, strict=True)
        ]
        return {**fields, "groups": [*rows, *denied]}

    return Admitted(replace(asked.request, groups=tuple(left)), merge)


_Judged = dict[str, Any] | tuple[Any, Callable[[Fields], Fields] | None]


def _offsets_of(asked: GuardedRequest, wanted: Any) -> _Judged:
    """What is left of the request for one group, with the change of its response; or the whole response."""
    access = asked.access
    if not access.group(Operation.DESCRIBE, wanted.group_id):
        return _refuse_offsets(asked, wanted)
    if wanted.topics is None:

        def leave_out(fields: Fields) -> Fields:
            return {
                **fields,
                "topics": [
                    row
                    for row in fields["topics"]
                    if access.sees(Operation.DESCRIBE, ResourceType.TOPIC, row["name"])
                ],
            }

        return wanted, leave_out
    allowed, denied = split(asked, Operation.DESCRIBE, wanted.topics)
    if not denied:
        return wanted, None
    rows = [_OFFSETS.refuse(topic, TOPIC_DENIED, **_NO_OFFSET) for topic in denied]
    return (
        replace(wanted, topics=tuple(allowed)),
        lambda fields: {**fields, "topics": [*fields["topics"], *rows]},
    )


def _refuse_offsets(asked: GuardedRequest, wanted: Any) -> dict[str, Any]:
    topics: list[Fields] = []
    if asked.version < 2:  # Its response has errors only per partition.
        topics = [_OFFSETS.refuse(topic, GROUP_DENIED, **_NO_OFFSET) for topic in wanted.topics]
    return {"group_id": wanted.group_id, "topics": topics, "error_code": GROUP_DENIED}


def refused_group(group_id: str) -> Fields:
    return {"group_id": group_id, "error_code": GROUP_DENIED, "error_message": MESSAGES[GROUP_DENIED]}
