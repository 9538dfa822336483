"""OffsetFetch, versions 1 to 10: committed offsets of one or more groups, of named partitions or of all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.group_machine import GroupMachine
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.committing import topic_name
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.offset_requests import FetchedOffset
from tidelog.protocol.messages import Fields

IDS_FROM_VERSION = 10
GROUP_ERROR_FROM = 2  # Older responses have errors only per partition.
NO_OFFSET = -1
FETCHED_PER_SLICE = 100  # groups: about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    groups = getattr(request, "groups", None)
    require_stable = getattr(request, "require_stable", False)
    wanted = [request] if groups is None else list(groups)
    found: list[Fields] = []
    uncertain: dict[int, GroupMachine] = {}
    answered: set[str] = set()

    def fetch_each() -> Iterator[None]:
        for number, group in enumerate(wanted):
            if group.group_id in answered:
                # A request of a megabyte could ask for all offsets of one group 100,000 times.
                found.append(_refused(group, ErrorCode.INVALID_REQUEST, context.version))
            else:
                answered.add(group.group_id)
                found.append(_group(broker, group, require_stable, context.version))
                machine = _uncertain(broker, group)
                if machine is not None:
                    uncertain[number] = machine
            yield

    def fields() -> Fields:
        return found[0] if groups is None else {"groups": found}

    def respond() -> Fields | Future[Fields]:
        if not uncertain:
            return fields()

        def refuse(number: int) -> None:
            found[number] = _refused(wanted[number], ErrorCode.NOT_COORDINATOR, context.version)

        response: Future[Fields] = Future()
        _when_certain(uncertain, refuse).then(lambda _: response.complete(fields()))
        return response

    return respond_in_slices(broker.services, fetch_each(), FETCHED_PER_SLICE, respond)


def _when_certain(machines: Mapping[int, GroupMachine], refuse: Callable[[int], None]) -> Future[None]:
    """``refuse`` is called for those that have been replaced, before the future is complete."""
    gather = Gather(len(machines))
    for number, machine in machines.items():

        def heard(certain: bool, number: int = number) -> None:
            if not certain:
                refuse(number)
            gather.one_done()

        machine.when_certain(heard)
    return gather.future


def _uncertain(broker: Broker, wanted: Any) -> GroupMachine | None:
    """The machine of the group if it may have been replaced by one with newer commits; otherwise None."""
    try:
        machine = machine_of(broker, wanted.group_id, may_be_empty=True)
    except TidelogError:
        return None
    return None if machine.leads_for_certain else machine


def _group(broker: Broker, wanted: Any, require_stable: bool, version: int) -> Fields:
    try:
        machine = machine_of(broker, wanted.group_id, may_be_empty=True)
        names = None if wanted.topics is None else [topic_name(broker, topic)[0] for topic in wanted.topics]
        indexes = None if names is None else _asked_once(wanted.topics, names)
        keys = None
        if names is not None and indexes is not None:
            keys = [(name, index) for name, some in zip(names, indexes, strict=True) for index in some]
        found = machine.groups.fetch(
            wanted.group_id,
            keys,
            require_stable=require_stable,
            member_id=getattr(wanted, "member_id", None),
            member_epoch=getattr(wanted, "member_epoch", -1),
        )
    except TidelogError as refusal:
        return _refused(wanted, refusal.code, version)
    if names is None or indexes is None:
        topics = _all_topics(broker, found, version)
    else:
        topics = _named_topics(wanted.topics, names, indexes, found, version)
    return {"group_id": wanted.group_id, "topics": topics, "error_code": ErrorCode.NONE}


def _refused(wanted: Any, code: ErrorCode, version: int) -> Fields:
    if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.NOT_COORDINATOR  # Clients do not expect the original code here.
    topics: list[Fields] = []
    if version < GROUP_ERROR_FROM:
        topics = [
            {
                "name": topic.name,
                "partitions": [_partition(index, None, code) for index in topic.partition_indexes],
            }
            for topic in wanted.topics
        ]
    return {"group_id": wanted.group_id, "topics": topics, "error_code": code}


def _asked_once(topics: Sequence[Any], names: list[str]) -> list[list[int]]:
    """The partitions of each topic of a request, without those that it has named before: the metadata of an
    offset may be a thousand times larger than its partition in the request.
    """
    asked: dict[str, set[int]] = {}
    indexes: list[list[int]] = []
    for topic, name in zip(topics, names, strict=True):
        before = asked.setdefault(name, set()) if name else ()  # without a name: of an unknown id
        indexes.append([index for index in dict.fromkeys(topic.partition_indexes) if index not in before])
        if name:
            asked[name].update(indexes[-1])
    return indexes


def _named_topics(
    topics: Sequence[Any],
    names: list[str],
    indexes: list[list[int]],
    found: list[FetchedOffset],
    version: int,
) -> list[Fields]:
    offsets = iter(found)
    responses: list[Fields] = []
    for topic, name, some in zip(topics, names, indexes, strict=True):
        partitions = [_fields(next(offsets)) for _ in some]
        if version >= IDS_FROM_VERSION and not name:
            partitions = [_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in some]
        responses.append(
            {"name": name, "topic_id": getattr(topic, "topic_id", None), "partitions": partitions}
        )
    return responses


def _all_topics(broker: Broker, found: list[FetchedOffset], version: int) -> list[Fields]:
    topics: dict[str, list[Fields]] = {}
    for offset in found:
        topics.setdefault(offset.topic, []).append(_fields(offset))
    responses: list[Fields] = []
    for name, partitions in topics.items():
        topic = broker.image.topics.get(name)
        topic_id: UUID | None = None if topic is None else topic.topic_id
        if topic_id is None and version >= IDS_FROM_VERSION:
            continue  # The topic was deleted, so it has no id to return.
        responses.append({"name": name, "topic_id": topic_id, "partitions": partitions})
    return responses


def _fields(found: FetchedOffset) -> Fields:
    return _partition(found.partition, found, found.error)


def _partition(index: int, found: FetchedOffset | None, error: ErrorCode) -> Fields:
    committed = None if found is None else found.committed
    if committed is None:
        return {
            "partition_index": index,
            "committed_offset": NO_OFFSET,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": error,
        }
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
