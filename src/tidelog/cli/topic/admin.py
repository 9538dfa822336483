"""What the topic commands ask of a cluster, as plain dicts and lists ready for a table or for JSON."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, refusal, wait
from tidelog.cli.config import admin as setting_admin
from tidelog.config import check_topic_overrides
from tidelog.config.topic import MODE_CHANGE, REPLICATION_MODE, UNCONFIRMED

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COPIES = "min.insync.replicas"
BROKER_DEFAULT = -1  # in a request: let the broker's own setting decide


def create(
    admin: "AdminClient", name: str, partitions: int, replicas: int, settings: Mapping[str, str]
) -> None:
    topic = admin_library().NewTopic(
        name, num_partitions=partitions, replication_factor=replicas, config=dict(settings)
    )
    wait(admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[name], name)


def delete(admin: "AdminClient", name: str) -> None:
    wait(admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name], name)


def add_partitions(admin: "AdminClient", name: str, total: int) -> None:
    partitions = admin_library().NewPartitions(name, total)
    wait(admin.create_partitions([partitions], request_timeout=REQUEST_TIMEOUT_S)[name], name)


def list_topics(admin: "AdminClient", *, internal: bool) -> list[dict[str, Any]]:
    """One row per topic, by name."""
    from confluent_kafka import KafkaException

    try:
        metadata = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as error:
        raise refusal(error) from None
    names = sorted(name for name in metadata if internal or not name.startswith("__"))
    settings = setting_admin.read_topics(admin, names)
    return [
        {
            "name": name,
            "partitions": len(metadata[name].partitions),
            "replicas": max((len(p.replicas) for p in metadata[name].partitions.values()), default=0),
            "mode": setting_admin.value_of(settings.get(name, ()), REPLICATION_MODE),
        }
        for name in names
    ]


def describe(admin: "AdminClient", name: str) -> dict[str, Any]:
    """A topic with its partitions and all of its settings."""
    topic = _describe(admin, name)
    offsets = read_offsets(admin, name, [partition.id for partition in topic.partitions])
    settings = setting_admin.read_topics(admin, [name]).get(name, [])
    return {
        "name": name,
        "id": str(topic.topic_id),
        "mode": setting_admin.value_of(settings, REPLICATION_MODE),
        "mode_change": _change_in(settings),
        "unconfirmed": _told_in(settings, UNCONFIRMED),
        "partitions": [
            {
                "partition": partition.id,
                "leader": partition.leader.id if partition.leader is not None else None,
                "replicas": [node.id for node in partition.replicas],
                "in_sync": [node.id for node in partition.isr],
                "start_offset": offsets[partition.id][0],
                "end_offset": offsets[partition.id][1],
            }
            for partition in topic.partitions
        ],
        "settings": [each for each in settings if each["name"] not in (MODE_CHANGE, UNCONFIRMED)],
    }


class ModeState(NamedTuple):
    wanted: str | None
    pending: list[dict[str, Any]]  # partitions that are not there yet: partition, mode, towards, waits_for


def mode_state(admin: "AdminClient", name: str) -> ModeState:
    """How far a change of mode has come."""
    settings = setting_admin.read_topics(admin, [name]).get(name, [])
    return ModeState(setting_admin.value_of(settings, REPLICATION_MODE), _change_in(settings))


def _change_in(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return _told_in(settings, MODE_CHANGE)


def _told_in(settings: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    text = setting_admin.value_of(settings, name)
    return [] if text is None else list(json.loads(text))


def own_settings(admin: "AdminClient", name: str) -> dict[str, str]:
    """What is set on the topic itself, not by a broker or by default."""
    settings = setting_admin.read_topics(admin, [name]).get(name, [])
    return {each["name"]: each["value"] for each in settings if each["set_by"] == "topic"}


def warnings(admin: "AdminClient", name: str) -> list[str]:
    """What the topic's own settings cost, where that may not be meant."""
    own = own_settings(admin, name)
    return check_topic_overrides(own, min(map(len, replicas_of(admin, name)), default=None))


def replicas_of(admin: "AdminClient", name: str) -> list[list[int]]:
    """Of each partition. By the administrative request, which does not create the topic for asking."""
    return [[node.id for node in partition.replicas] for partition in _describe(admin, name).partitions]


def _describe(admin: "AdminClient", name: str) -> Any:
    from confluent_kafka import TopicCollection

    asked = admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)
    return wait(asked[name], name)


def read_offsets(
    admin: "AdminClient", name: str, partitions: list[int]
) -> dict[int, tuple[int | None, int | None]]:
    """Start and (exclusive) end offset per partition; ``None`` where no leader can say."""
    starts = _offsets(admin, name, partitions, latest=False)
    ends = _offsets(admin, name, partitions, latest=True)
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def _offsets(
    admin: "AdminClient", name: str, partitions: list[int], *, latest: bool
) -> dict[int, int | None]:
    from confluent_kafka import KafkaException, TopicPartition

    specs = admin_library().OffsetSpec
    spec = specs.latest() if latest else specs.earliest()
    asked = {TopicPartition(name, partition): spec for partition in partitions}
    responses: dict[int, int | None] = dict.fromkeys(partitions)
    for partition, future in admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            responses[partition.partition] = future.result().offset
        except KafkaException:
            responses[partition.partition] = None
    return responses
