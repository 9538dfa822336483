"""What the group commands ask of a cluster, as plain dicts and lists ready for a table or for JSON."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, wait
from tidelog.cli.cluster.admin import unless_fenced
from tidelog.cli.cluster.controllers import require_coordinators
from tidelog.cli.cluster_client import ClusterClient, check
from tidelog.cli.failure import CommandFailed, InvalidCommandLine

if TYPE_CHECKING:
    import concurrent.futures

    from confluent_kafka.admin import AdminClient

LIST_GROUPS = 16
OF_GROUPS = 0
# What a broker answers that is no coordinator any more, or not yet.
MOVING = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
MOVING_WITHIN_S = 2.0
MOVING_POLL_S = 0.1

T = TypeVar("T")

Place = tuple[str, int]
"""A topic and one of its partitions."""

_STATES = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}


class Groups(NamedTuple):
    rows: list[dict[str, Any]]  # one per group, by name
    unheard: list[int]  # brokers that did not answer, or could not: their groups are missing


def list_groups(client: ClusterClient, states: Collection[str]) -> Groups:
    """Every broker knows the groups that it coordinates."""
    rows: list[dict[str, Any]] = []
    unheard = []
    brokers = client.brokers()
    client.silent(brokers.values())  # all at the same time
    for broker, address in sorted(brokers.items()):
        try:
            response = client.ask(address, LIST_GROUPS, {"states_filter": [], "types_filter": []})
            check(response.error_code)
        except CommandFailed:
            unheard.append(broker)
            continue
        rows += [
            {"group": each.group_id, "state": each.group_state, "kind": each.group_type.lower()}
            for each in response.groups
            if each.protocol_type in ("", "consumer")
        ]
    wanted = {state.lower() for state in states}
    unknown = wanted - {"stable", "empty", "dead", *(state.lower() for state in _STATES.values())}
    if unknown:
        names = "Stable, Empty, Dead, PreparingRebalance and CompletingRebalance"
        raise InvalidCommandLine(f"--state takes {names}, not '{sorted(unknown)[0]}'.")
    kept = [row for row in rows if not wanted or row["state"].lower() in wanted]
    return Groups(sorted(kept, key=lambda row: str(row["group"])), unless_fenced(client, unheard))


def check_coordinator(bootstrap: str, group: str) -> None:
    """Fail at once, and with the cause, where no broker coordinates the group. The client library would wait
    for one until its timeout.
    """
    with ClusterClient(bootstrap) as client:
        whose, topic = f"Group '{group}'", "__consumer_offsets"
        require_coordinators(client, whose, topic)
        client.find_coordinator(OF_GROUPS, group, whose, topic)


def describe(admin: "AdminClient", group: str) -> dict[str, Any]:
    """A group with its members, and how far it has come in each partition."""
    found = _found(admin, group)
    committed = committed_offsets(admin, group)
    owners = {
        (place.topic, place.partition): member
        for member in found.members
        for place in (member.assignment.topic_partitions if member.assignment else ())
    }
    if not committed and not found.members and found.state.name == "DEAD":
        raise CommandFailed(f"There is no group '{group}'; `tidelog group list` shows the existing ones.")
    places = sorted({*committed, *owners})
    ends = offsets_at(admin, places, admin_library().OffsetSpec.latest())
    return {
        "group": group,
        "state": _state(found.state),
        "kind": found.type.name.lower(),
        "assignor": found.partition_assignor or None,
        "coordinator": found.coordinator.id if found.coordinator else None,
        "lag": _sum(_lag(committed.get(place), ends.get(place)) for place in places),
        "partitions": [
            {
                "topic": place[0],
                "partition": place[1],
                "committed": committed.get(place),
                "end_offset": ends.get(place),
                "lag": _lag(committed.get(place), ends.get(place)),
                "member": owners[place].member_id if place in owners else None,
            }
            for place in places
        ],
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": len(member.assignment.topic_partitions) if member.assignment else 0,
            }
            for member in found.members
        ],
    }


def delete(admin: "AdminClient", group: str) -> None:
    _ask(group, lambda: admin.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S))


def committed_offsets(admin: "AdminClient", group: str) -> dict[Place, int]:
    """What the group has committed, of all topics."""
    library = _library()
    wanted = [library.ConsumerGroupTopicPartitions(group)]
    found = _ask(group, lambda: admin.list_consumer_group_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S))
    return {
        (place.topic, place.partition): place.offset
        for place in found.topic_partitions or ()
        if place.offset >= 0
    }


def commit(admin: "AdminClient", group: str, offsets: Mapping[Place, int]) -> None:
    """Set a group's offsets from outside; refused while it has members."""
    library = _library()
    places = [library.TopicPartition(*place, offset) for place, offset in offsets.items()]
    wanted = [library.ConsumerGroupTopicPartitions(group, places)]

    def ask() -> None:
        futures = admin.alter_consumer_group_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        for place in _wait(futures[group], group).topic_partitions:
            if place.error is not None:
                error = place.error.name()
                raise CommandFailed(f"{place.topic}-{place.partition} was refused: {error}.", error)

    _repeat_while_it_moves(ask)


def members_of(admin: "AdminClient", group: str) -> int:
    return len(_found(admin, group).members)


def offsets_at(admin: "AdminClient", places: Iterable[Place], spec: Any) -> dict[Place, int]:
    """The offsets a spec names; a partition whose leader does not say is missing."""
    from confluent_kafka import KafkaException

    library = _library()
    asked = {library.TopicPartition(*place): spec for place in places}
    if not asked:
        return {}
    found: dict[Place, int] = {}
    for place, future in admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            found[place.topic, place.partition] = future.result().offset
        except KafkaException:
            continue
    return found


def _found(admin: "AdminClient", group: str) -> Any:
    return _ask(group, lambda: admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S))


def _ask(group: str, ask: "Callable[[], Mapping[str, concurrent.futures.Future[Any]]]") -> Any:
    """The answer of the group's coordinator."""
    return _repeat_while_it_moves(lambda: _wait(ask()[group], group))


def _repeat_while_it_moves(ask: Callable[[], T]) -> T:
    """Where the coordinator has just moved, or is not certain that it has not, the library gives up at once
    with what it knew before; all these requests may be repeated.
    """
    deadline = time.monotonic() + MOVING_WITHIN_S
    while True:
        try:
            return ask()
        except CommandFailed as failure:
            if failure.kafka_error not in MOVING or time.monotonic() > deadline:
                raise
        time.sleep(MOVING_POLL_S)


def _wait(future: "concurrent.futures.Future[Any]", group: str) -> Any:
    try:
        return wait(future)
    except CommandFailed as failure:
        if failure.kafka_error == "GROUP_ID_NOT_FOUND":
            raise CommandFailed(
                f"There is no group '{group}'; `tidelog group list` shows the existing ones."
            ) from None
        if failure.kafka_error in ("NON_EMPTY_GROUP", "UNKNOWN_MEMBER_ID"):
            raise CommandFailed(f"Group '{group}' has members; stop them first.") from None
        raise


def _library() -> Any:
    """The library itself; untyped, because its types do not cover what it exports."""
    import confluent_kafka

    return confluent_kafka


def _state(state: Any) -> str:
    name = str(state.name)
    return _STATES.get(name, name.capitalize())


def _lag(committed: int | None, end_offset: int | None) -> int | None:
    """How many records the group has not seen yet; None if unknown."""
    if committed is None or end_offset is None:
        return None
    return max(0, end_offset - committed)


def _sum(lags: Iterable[int | None]) -> int:
    return sum(lag for lag in lags if lag is not None)
