"""Consumer groups of both protocols: state, members, assignment, committed offsets and lag.

Every broker is asked for the groups that it coordinates, so that the groups of the others are shown while one
is down.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.client.apis import Api
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader
from tidelog.errors import ErrorCode
from tidelog.page.asking.link import Link, NotServed, name_of
from tidelog.page.facts import Facts
from tidelog.page.views.payload import visible

LIST_GROUPS, DESCRIBE_GROUPS, DESCRIBE_CONSUMER_GROUPS = 16, 15, 69
CLASSIC, CONSUMER = "classic", "consumer"
LINK_TIMEOUT_S = 2.0
NOT_READY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Listed(NamedTuple):
    group: str
    kind: str
    state: str


class Member(NamedTuple):
    member: str
    client: str
    host: str
    instance: str
    partitions: tuple[TopicPartition, ...]


class GroupSeen(NamedTuple):
    listed: Listed
    coordinator: int
    members: tuple[Member, ...] = ()
    committed: Mapping[TopicPartition, int] = {}


class GroupsRefused(Exception):
    """The broker does not tell its groups; one sentence."""


def of_broker(address: tuple[str, int], broker: int) -> list[GroupSeen]:
    """The groups that this broker coordinates. Raises GroupsRefused, and OSError."""
    with Link(address, LINK_TIMEOUT_S) as link:
        listed = _listed(link)
        members = _classic_members(link, [each.group for each in listed if each.kind == CLASSIC])
        members |= _consumer_members(link, [each.group for each in listed if each.kind == CONSUMER])
        return [
            GroupSeen(each, broker, members.get(each.group, ()), _committed(link, each.group))
            for each in listed
        ]


def _listed(link: Link) -> list[Listed]:
    response = link.ask(LIST_GROUPS, {"states_filter": [], "types_filter": []})
    if response.error_code in NOT_READY:
        raise ConnectionError("its groups are being loaded")
    if response.error_code:
        raise GroupsRefused(f"Groups are not told: {name_of(response.error_code)}.")
    return [
        Listed(
            each.group_id,
            (getattr(each, "group_type", "") or CLASSIC).lower(),
            getattr(each, "group_state", "") or "unknown",
        )
        for each in response.groups
        if each.protocol_type in ("", "consumer")
    ]


def _classic_members(link: Link, groups: list[str]) -> dict[str, tuple[Member, ...]]:
    if not groups:
        return {}
    response = link.ask(DESCRIBE_GROUPS, {"groups": groups, "include_authorized_operations": False})
    return {
        group.group_id: tuple(
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                getattr(each, "group_instance_id", None) or "",
                assigned(each.member_assignment),
            )
            for each in group.members
        )
        for group in response.groups
    }


def _consumer_members(link: Link, groups: list[str]) -> dict[str, tuple[Member, ...]]:
    if not groups:
        return {}
    try:
        response = link.ask(
            DESCRIBE_CONSUMER_GROUPS, {"group_ids": groups, "include_authorized_operations": False}
        )
    except NotServed:
        return {}
    return {
        group.group_id: tuple(
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                each.instance_id or "",
                tuple(
                    (topic.topic_name, int(index))
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in group.members
        )
        for group in response.groups
    }


def assigned(data: bytes | None) -> tuple[TopicPartition, ...]:
    """Topics and partitions in the assignment that the leader of a classic group made; none if it is not of
    the usual form.
    """
    if not data:
        return ()
    try:
        return tuple(_assigned(Reader(memoryview(data))))
    except (ConnectionError, UnicodeDecodeError):
        return ()


def _assigned(reader: Reader) -> Iterator[TopicPartition]:
    reader.int16()  # version
    for _ in range(reader.int32()):
        topic = reader.string()
        for partition in reader.numbers():
            yield topic, partition


def _committed(link: Link, group: str) -> dict[TopicPartition, int]:
    # One group per request: the form with several groups is newer than some brokers.
    body = {"group_id": group, "topics": None, "groups": [{"group_id": group, "topics": None}]}
    response = link.ask(Api.OFFSET_FETCH, body | {"require_stable": False}, newest=9)
    topics = response.groups[0].topics if hasattr(response, "groups") else response.topics
    return {
        (topic.name, int(each.partition_index)): int(each.committed_offset)
        for topic in topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


# --- for the browser ----------------------------------------------------------------------------------------


def rows(groups: Iterable[GroupSeen], facts: Facts) -> list[dict[str, Any]]:
    return [_row(each, facts) for each in sorted(groups, key=lambda each: each.listed.group)]


def _row(group: GroupSeen, facts: Facts) -> dict[str, Any]:
    owners = {place: index for index, member in enumerate(group.members) for place in member.partitions}
    places = sorted({*group.committed, *owners})
    partitions = [
        {
            "topic": visible(topic),
            "partition": index,
            "committed": group.committed.get((topic, index)),
            "end": facts.ends.get(topic, {}).get(index),
            "lag": _lag(group.committed.get((topic, index)), facts.ends.get(topic, {}).get(index)),
            "member": owners.get((topic, index)),
        }
        for topic, index in places
    ]
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    return {
        "group": group.listed.group,
        "name": visible(group.listed.group),
        "kind": group.listed.kind,
        "state": group.listed.state,
        "coordinator": group.coordinator,
        "lag": sum(lags) if lags else None,
        "partitions": partitions,
        "members": [
            {
                "member": visible(each.member),
                "client": visible(each.client),
                "host": visible(each.host.lstrip("/")),
                "instance": visible(each.instance),
                "partitions": len(each.partitions),
            }
            for each in group.members
        ],
    }


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(end - committed, 0)
