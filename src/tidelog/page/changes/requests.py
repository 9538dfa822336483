"""Changes as Kafka requests. With ``is_check`` the cluster says whether it would take them, and changes
nothing.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.page.asking.link import Link, name_of
from tidelog.page.changes.wishes import AlterTopic, Change, CreateTopic, DeleteTopic, Drain, Move, Promote

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS = 19, 20, 37, 44
ELECT_LEADERS, REASSIGN = 43, 45
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
PREFERRED = 0
DRAIN_SETTING = "broker.drain"
DEFAULT = -1
REQUEST_MS = 10_000
DELETE_NEWEST = 5  # Later versions have ids.


class ChangeRefused(Exception):
    """The cluster does not take it; one sentence."""


def send(link: Link, change: Change, *, is_check: bool) -> None:
    """Some requests have no check in the protocol: then nothing is sent for one."""
    match change:
        case CreateTopic():
            _create(link, change, is_check=is_check)
        case AlterTopic():
            _alter(link, change, is_check=is_check)
        case DeleteTopic() if not is_check:
            body = {"topic_names": [change.name], "timeout": REQUEST_MS}
            response = link.ask(DELETE_TOPICS, body, newest=DELETE_NEWEST)
            _raise_first(response.responses)
        case Move() if not is_check:
            _reassign(link, change.name, change.partition, change.replicas)
        case Drain():
            value = None if change.undo else "true"
            _set(link, BROKER_RESOURCE, str(change.broker), {DRAIN_SETTING: value}, is_check=is_check)


def promote(link: Link, change: Promote, replicas: tuple[int, ...], *, is_elected: bool) -> None:
    """The first replica is the primary, or the preferred leader; only the latter needs an election."""
    order = (change.to, *(each for each in replicas if each != change.to))
    if order != replicas:
        _reassign(link, change.name, change.partition, order)
    if is_elected:
        topics = [{"topic": change.name, "partitions": [change.partition]}]
        body = {"election_type": PREFERRED, "topic_partitions": topics, "timeout": REQUEST_MS}
        response = link.ask(ELECT_LEADERS, body)
        _refuse(getattr(response, "error_code", 0), "")
        for each in response.replica_election_results:
            for part in each.partition_result:
                if part.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    _refuse(part.error_code, part.error_message)


def _create(link: Link, change: CreateTopic, *, is_check: bool) -> None:
    topic = {
        "name": change.name,
        "num_partitions": change.partitions,
        "replication_factor": change.replicas,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in change.settings.items()],
    }
    body = {"topics": [topic], "timeout": REQUEST_MS, "validate_only": is_check}
    _raise_first(link.ask(CREATE_TOPICS, body).topics)


def _alter(link: Link, change: AlterTopic, *, is_check: bool) -> None:
    if change.settings:
        _set(link, TOPIC_RESOURCE, change.name, change.settings, is_check=is_check)
    if change.partitions != DEFAULT:
        topics = [{"name": change.name, "count": change.partitions, "assignments": None}]
        body = {"topics": topics, "timeout": REQUEST_MS, "validate_only": is_check}
        _raise_first(link.ask(CREATE_PARTITIONS, body).results)


def _set(link: Link, kind: int, name: str, values: Mapping[str, str | None], *, is_check: bool) -> None:
    configs = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in values.items()
    ]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    _raise_first(link.ask(ALTER_CONFIGS, {"resources": resources, "validate_only": is_check}).responses)


def _reassign(link: Link, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
    partitions = [{"partition_index": partition, "replicas": [*replicas]}]
    body = {
        "timeout": REQUEST_MS,
        "allow_replication_factor_change": True,
        "topics": [{"name": topic, "partitions": partitions}],
    }
    response = link.ask(REASSIGN, body)
    _refuse(response.error_code, response.error_message)
    for each in response.responses:
        _raise_first(each.partitions)


def _raise_first(results: Any) -> None:
    for each in results:
        _refuse(each.error_code, getattr(each, "error_message", None))


def _refuse(code: int, words: str | None) -> None:
    if code:
        name = name_of(code)
        raise ChangeRefused(f"{words.rstrip('.')} ({name})." if words else f"The cluster refuses it: {name}.")
