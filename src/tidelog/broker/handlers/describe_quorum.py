"""DescribeQuorum, versions 0 to 2: leader, voters and observers of the metadata log, and their progress.

Only the leader knows the progress; other nodes forward the request to it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.requests.quorum_requests import quorum_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.directory import METADATA_PARTITION
from tidelog.protocol.messages import Fields
from tidelog.replication.progress import Progress
from tidelog.replication.replica import Role
from tidelog.services import Services

LISTENER_NAME = "CONTROLLER"
DESCRIBED_PER_SLICE = 500  # partitions: about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    try:
        quorum = quorum_of(broker)
    except TidelogError as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message}
    # Each partition once: a response is a hundred times larger.
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        indexes = (each.partition_index for each in topic.partitions)
        wanted.setdefault(topic.topic_name, {}).update(dict.fromkeys(indexes))
    topics: list[Fields] = []

    def describe_each() -> Iterator[None]:
        for name, indexes in wanted.items():
            rows: list[Fields] = []
            topics.append({"topic_name": name, "partitions": rows})
            for index in indexes:
                rows.append(_partition(quorum, broker.services, name, index))
                yield

    def respond() -> Fields:
        return {"error_code": ErrorCode.NONE, "topics": topics, "nodes": _nodes(quorum)}

    return respond_in_slices(broker.services, describe_each(), DESCRIBED_PER_SLICE, respond)


def _nodes(quorum: MetadataQuorum) -> list[Fields]:
    return [
        {
            "node_id": voter.voter_id,
            "listeners": [{"name": LISTENER_NAME, "host": voter.host, "port": voter.port}],
        }
        for voter in quorum.voters.latest
        if voter.host
    ]


def _partition(quorum: MetadataQuorum, services: Services, name: str, index: int) -> Fields:
    refusal: Fields = {
        "partition_index": index,
        "leader_id": quorum.leader,
        "leader_epoch": quorum.election.epoch,
    }
    if (name, index) != METADATA_PARTITION:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {
            **refusal,
            "error_code": code,
            "error_message": "only the metadata log has a quorum to describe",
        }
    replica = quorum.driver.replica
    if replica.role is not Role.LEADER:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return {**refusal, "error_code": code, "error_message": "this node is not the active controller"}
    return {
        **refusal,
        "error_code": ErrorCode.NONE,
        "high_watermark": replica.high_watermark,
        "current_voters": _voters(quorum, services),
        "observers": _observers(quorum, services),
    }


def _voters(quorum: MetadataQuorum, services: Services) -> list[Fields]:
    replica = quorum.driver.replica
    found = []
    for voter in quorum.voters.latest:
        if voter.voter_id == replica.me:
            found.append(
                _state(voter.voter_id, voter.directory, replica.log.end_offset, -1, services.now_ms())
            )
        else:
            seen = quorum.driver.voter.seen.get(voter.voter_id)
            counts = seen is not None and voter.directory in (None, seen.directory)
            progress = seen.progress if seen is not None and counts else None
            found.append(_progress(voter.voter_id, voter.directory, progress, services))
    return found


def _observers(quorum: MetadataQuorum, services: Services) -> Iterable[Fields]:
    voters = quorum.voters.latest
    return [
        _progress(node_id, seen.directory, seen.progress, services)
        for node_id, seen in sorted(quorum.driver.voter.seen.items())
        if not voters.counts(node_id, seen.directory)
    ]


def _progress(node_id: int, directory: Any, progress: Progress | None, services: Services) -> Fields:
    if progress is None or not progress.seen:
        return _state(node_id, directory, -1, -1, -1)
    to_wall_clock = services.now_ms() - services.uptime_ms()
    return _state(
        node_id,
        directory,
        progress.end_offset,
        progress.fetched_ms + to_wall_clock,
        progress.caught_up_ms + to_wall_clock,
    )


def _state(node_id: int, directory: Any, end_offset: int, fetched_ms: int, caught_up_ms: int) -> Fields:
    return {
        "replica_id": node_id,
        "replica_directory_id": directory,
        "log_end_offset": end_offset,
        "last_fetch_timestamp": fetched_ms,
        "last_caught_up_timestamp": caught_up_ms,
    }
