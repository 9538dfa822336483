"""What a request wants to change, in words for the audit log. Values of settings are left out: they may be
secrets.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.requests.resources import BROKER, BROKER_LOGGER, GROUP, TOPIC
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields, name_of
from tidelog.security.acls import Operation, PatternType, Permission, ResourceType
from tidelog.security.scram import ScramMechanism

_KINDS = {TOPIC: "topic", BROKER: "broker", BROKER_LOGGER: "loggers of broker", GROUP: "group"}


def _names(field: str, *attributes: str) -> Callable[[Any], Iterable[str]]:
    return lambda request: (
        " ".join(str(getattr(each, name)) for name in attributes) for each in getattr(request, field) or ()
    )


def _deleted_topics(request: Any) -> Iterable[str]:
    if hasattr(request, "topic_names"):
        return tuple(request.topic_names)
    return (str(topic.name or topic.topic_id) for topic in request.topics)


def _settings(request: Any) -> Iterator[str]:
    for resource in request.resources:
        kind = _KINDS.get(resource.resource_type, str(resource.resource_type))
        settings = ", ".join(config.name for config in resource.configs)
        yield f"{kind} {resource.resource_name}: {settings}"


def _word(kind: type[Any], number: int) -> str:
    return kind(number).name if number in kind._value2member_map_ else str(number)


def _created_acls(request: Any) -> Iterator[str]:
    for each in request.creations:
        yield (
            f"{_word(Permission, each.permission_type)} {each.principal} from {each.host} "
            f"{_word(Operation, each.operation)} {_word(ResourceType, each.resource_type)} "
            f"{_word(PatternType, each.resource_pattern_type)} {each.resource_name}"
        )


def _deleted_acls(request: Any) -> Iterator[str]:
    for each in request.filters:
        yield (
            f"{_word(Permission, each.permission_type)} {each.principal_filter} from {each.host_filter} "
            f"{_word(Operation, each.operation)} {_word(ResourceType, each.resource_type_filter)} "
            f"{_word(PatternType, each.pattern_type_filter)} {each.resource_name_filter}"
        )


def _quotas(request: Any) -> Iterator[str]:
    for entry in request.entries:
        entity = ", ".join(f"{part.entity_type} {part.entity_name or '<default>'}" for part in entry.entity)
        limits = ", ".join(f"{each.key}={None if each.remove else each.value}" for each in entry.ops)
        yield f"{entity}: {limits}"


def _users(request: Any) -> Iterator[str]:
    for verb, changes in (("delete", request.deletions), ("set", request.upsertions)):
        for each in changes:
            yield f"{verb} {each.name} {_word(ScramMechanism, each.mechanism)}"


def _elections(request: Any) -> Iterable[str]:
    if request.topic_partitions is None:
        return ("all",)
    return (f"{topic.topic} {sorted(topic.partitions)}" for topic in request.topic_partitions)


CHANGES: Mapping[int, Callable[[Any], Iterable[str]]] = {
    19: _names("topics", "name"),  # CreateTopics
    20: _deleted_topics,
    21: _names("topics", "name"),  # DeleteRecords
    27: _names("markers", "producer_id"),  # WriteTxnMarkers
    30: _created_acls,
    31: _deleted_acls,
    33: _settings,
    37: _names("topics", "name", "count"),  # CreatePartitions
    42: lambda request: tuple(request.groups_names),  # DeleteGroups
    43: _elections,
    44: _settings,
    45: _names("topics", "name"),  # AlterPartitionReassignments
    47: lambda request: (request.group_id,),  # OffsetDelete
    49: _quotas,
    51: _users,
    64: lambda request: (str(request.broker_id),),  # UnregisterBroker
    80: lambda request: (str(request.voter_id),),  # AddRaftVoter
    81: lambda request: (str(request.voter_id),),  # RemoveRaftVoter
}


def changes_of(request: Any, context: RequestContext) -> Sequence[str] | None:
    """None: the request changes nothing, or a node sent it. Nor does one that names nothing."""
    describe = CHANGES.get(context.api_key)
    if describe is None or context.by_node or getattr(request, "validate_only", False):
        return None
    return list(describe(request)) or None


def note_changes(
    broker: Broker, context: RequestContext, changes: Sequence[str], response: Fields, *, refused: bool
) -> None:
    """``refused``: the client has no right to any of them."""
    if broker.audit is not None:
        codes = dict.fromkeys(_codes_in(response))
        errors = [ErrorCode(code).name for code in codes if code]
        broker.audit.changed(
            context.principal, context.host, name_of(context.api_key), changes, errors, context.client_id,
            refused=refused,
        )  # fmt: skip


def _codes_in(fields: Fields) -> Iterator[int]:
    for name, value in fields.items():
        if name == "error_code":
            yield value
        elif isinstance(value, list | tuple):
            for part in value:
                if isinstance(part, dict):
                    yield from _codes_in(part)
