"""Metadata, versions 0 to 13.

Creates missing topics if client and broker allow it. The response is sent when they exist, so the client need
not retry.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.clients.client_kinds import only_produces
from tidelog.broker.clients.elsewhere import another_broker, without_me
from tidelog.broker.clients.successors import when_successors_are_known
from tidelog.broker.future import Gather
from tidelog.broker.links.to_controller import create_topic
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.submission import PARTITIONS_MAX
from tidelog.broker.requests.topic_rights import TopicRights
from tidelog.broker.slices import LateResponse, respond_in_slices
from tidelog.controller import topics
from tidelog.controller.endpoints import endpoint_for
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.successions import acting_leader, stand_in
from tidelog.controller.topics import INTERNAL_TOPICS, NewTopic
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import ZERO_UUID, Fields
from tidelog.types import NO_BROKER

Wanted = str | UUID
IDS_FROM_VERSION = 12  # versions 10 and 11 have topic ids in the request, but no null names


DESCRIBED_PER_SLICE = 1500  # partitions: about 3 ms


class Absent(NamedTuple):
    """What a broker knows that the metadata do not say."""

    lost: AbstractSet[int] = frozenset()  # no longer leaders, although the metadata may still list them
    undecided: bool = False  # a majority of the controllers has ended
    outdated: AbstractSet[int] = frozenset()  # cannot stand in: they hear of no new leader


ALL_PRESENT = Absent()


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if context.version < IDS_FROM_VERSION and any(topic.name is None for topic in request.topics or ()):
        return _refuse_ids(request)
    rights = TopicRights(broker, request, context)
    wanted = rights.shown(_wanted(request, context.version))
    missing = _missing(broker, wanted)
    may_create = (
        getattr(request, "allow_auto_topic_creation", True) and broker.config.auto_create_topics_enable
    )
    refused = rights.refused_creations(missing) if may_create else {}
    if may_create:
        missing = [name for name in missing if name not in refused]
    creates = bool(missing and may_create)
    reads = not only_produces(context.kinds)

    def respond() -> Outcome:
        return _response(broker, wanted, context.listener, refused, rights, reads=reads)

    if not creates and (wanted == [] or len(broker.image.brokers) < 2):
        return respond()
    response = LateResponse(_rows(broker, wanted, len(missing) if creates else 0))
    if not creates:
        when_successors_are_known(
            broker, lambda: _found(broker, wanted), lambda: response.work_out(broker.services, respond)
        )
        return response
    if len(missing) * broker.config.num_partitions > PARTITIONS_MAX:
        # As for CreateTopics: one request must not fill the disks of the cluster.
        refused |= dict.fromkeys(missing, ErrorCode.POLICY_VIOLATION)
        missing = []
    gather = Gather(len(missing))
    gather.future.then(
        lambda _: broker.partitions.when_open(lambda: response.work_out(broker.services, respond))
    )
    for name in missing:
        _create(broker, name, refused, gather)
    return response


def _found(broker: Broker, wanted: Sequence[Wanted] | None) -> Iterable[TopicImage]:
    image = broker.image
    if wanted is None:
        return image.topics.values()
    found = (image.topic_by_id(name) if isinstance(name, UUID) else image.topics.get(name) for name in wanted)
    return (topic for topic in found if topic is not None)


def _rows(broker: Broker, wanted: Sequence[Wanted] | None, created: int) -> int:
    """How many topics and partitions a response describes. Names count twice: they are kept meanwhile."""
    described = sum(1 + len(topic.partitions) for topic in _found(broker, wanted))
    return described + len(wanted or ()) + created * broker.config.num_partitions


def _refuse_ids(request: Any) -> Fields:
    return {
        "topics": [
            {"error_code": ErrorCode.INVALID_REQUEST, "name": topic.name or "", "topic_id": topic.topic_id}
            for topic in request.topics
        ]
    }


def _wanted(request: Any, version: int) -> Sequence[Wanted] | None:
    """The requested names and ids without duplicates; None for all topics. Otherwise a request with thousands
    of duplicates of a large topic would use all memory.
    """
    if request.topics is None or (version == 0 and not request.topics):
        return None
    names = (
        topic.name if topic.name is not None else topic.topic_id or ZERO_UUID for topic in request.topics
    )
    return list(dict.fromkeys(names))


def _missing(broker: Broker, wanted: Sequence[Wanted] | None) -> list[str]:
    names = dict.fromkeys(name for name in wanted or () if isinstance(name, str))
    return [name for name in names if name not in broker.image.topics]


def _create(broker: Broker, name: str, refused: dict[str, ErrorCode], gather: Gather) -> None:
    def done(error: TidelogError | None) -> None:
        if error is not None:
            refused[name] = error.code
        gather.one_done()

    create_topic(broker, NewTopic(name), done)


def _response(
    broker: Broker,
    wanted: Sequence[Wanted] | None,
    listener: str,
    refused: dict[str, ErrorCode],
    rights: TopicRights,
    *,
    reads: bool,
) -> Outcome:
    """All of it from one image, also where that takes several slices."""
    image = broker.image
    fields = _cluster(broker, image, listener)
    lost, undecided = frozenset(broker.lost_brokers), bool(broker.partitions.orphaning)
    absent = Absent(lost, undecided, _outdated(broker))

    fields |= rights.of_cluster()
    rows: list[Fields] = fields["topics"]

    def describe(topic: TopicImage) -> Iterator[None]:
        yield from _describe(broker.newest(topic), image, absent, rows, reads=reads)
        rows[-1] = {**rows[-1], **rights.of_topic(topic.name)}

    def describe_each() -> Iterator[None]:
        for topic in image.topics.values() if wanted is None else ():
            if rights.sees(topic.name):
                yield from describe(topic)
            else:
                yield
        for name in wanted or ():
            found = image.topic_by_id(name) if isinstance(name, UUID) else image.topics.get(name)
            if found is None:
                rows.append(_describe_missing(name, refused))
                yield
            else:
                yield from describe(found)
        rows.extend(rights.refused)

    return respond_in_slices(
        broker.services, describe_each(), DESCRIBED_PER_SLICE, lambda: without_me(broker, image, fields)
    )


def _outdated(broker: Broker) -> AbstractSet[int]:
    """This broker, if its disk takes no writes and it has given up its session. A consumer that is sent here
    would stay for as long as the disk is full.
    """
    table = broker.partitions
    return {broker.broker_id} if table.may_be_fenced and table.has_failed_logs else frozenset()


def _cluster(broker: Broker, image: ClusterImage, listener: str) -> dict[str, Any]:
    return {
        "brokers": [
            {"node_id": node.broker_id, "host": endpoint.host, "port": endpoint.port, "rack": node.rack}
            for node in broker.reachable.brokers(image)
            if (endpoint := endpoint_for(image, broker.broker_id, node, listener)) is not None
        ],
        "cluster_id": image.cluster_id,
        "controller_id": _taker_of_changes(broker),
        "topics": [],
    }


def _taker_of_changes(broker: Broker) -> int:
    """The ``controller_id`` for clients: this broker, because every broker forwards changes of the cluster.
    The active controller may have failed unnoticed, and librdkafka would wait for it without a new Metadata
    request. A broker without a session may not reach the controllers, and another one may.
    """
    me = broker.image.brokers.get(broker.broker_id)
    if me is None or me.fenced:
        return controller_of(broker)
    other = another_broker(broker, broker.image.brokers) if broker.partitions.may_be_fenced else NO_BROKER
    return broker.broker_id if other == NO_BROKER else other


def controller_of(broker: Broker) -> int:
    """The active controller; this broker if it is unknown, fenced or not a broker."""
    active = broker.image.brokers.get(broker.store.leader)
    return broker.broker_id if active is None or active.fenced else active.broker_id


def _describe_missing(wanted: Wanted, refused: dict[str, ErrorCode]) -> Fields:
    if isinstance(wanted, UUID):
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": None, "topic_id": wanted}
    error = refused.get(wanted) or why_unknown(wanted)
    return {"error_code": error, "name": wanted, "topic_id": None}


def why_unknown(name: str) -> ErrorCode:
    try:
        topics.check_name(name)
    except TidelogError as refusal:
        return refusal.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe_topic(
    topic: TopicImage, image: ClusterImage, absent: Absent = ALL_PRESENT, *, reads: bool
) -> Fields:
    rows: list[Fields] = []
    for _ in _describe(topic, image, absent, rows, reads=reads):
        pass
    return rows[0]


def _describe(
    topic: TopicImage, image: ClusterImage, absent: Absent, rows: list[Fields], *, reads: bool
) -> Iterator[None]:
    """A step for each partition."""
    partitions: list[Fields] = []
    rows.append(
        {
            "error_code": ErrorCode.NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name in INTERNAL_TOPICS,
            "partitions": partitions,
        }
    )
    for index, partition in enumerate(topic.partitions):
        partitions.append(describe_partition(index, partition, image, absent, reads=reads))
        yield


def _is_offline(image: ClusterImage, replica: int) -> bool:
    node = image.brokers.get(replica)
    return node is None or node.fenced


def describe_partition(
    index: int,
    partition: PartitionImage,
    image: ClusterImage,
    absent: Absent = ALL_PRESENT,
    *,
    reads: bool = False,
) -> Fields:
    """``reads``: the client is a consumer, which may read from a stand-in while there is no leader."""
    leader = acting_leader(partition)
    if leader in absent.lost:
        leader = NO_BROKER
    if leader == NO_BROKER and reads:
        present = {replica for replica in partition.replicas if not _is_offline(image, replica)}
        able = present - absent.lost - absent.outdated
        leader = stand_in(partition, able, undecided=absent.undecided)
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_BROKER else ErrorCode.NONE,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync,
        "offline_replicas": [
            replica
            for replica in partition.replicas
            # Of an available broker, a replica whose log has failed.
            if _is_offline(image, replica) or replica in partition.offline
        ],
    }
