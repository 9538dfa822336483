"""What the topic commands ask of a cluster, as plain dicts and lists ready for a table or for JSON."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, refusal, wait

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

REPLICATION_MODE = "replication.mode"
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


def change_settings(admin: "AdminClient", name: str, set_: Mapping[str, str], unset: Iterable[str]) -> None:
    library = admin_library()
    operations = library.AlterConfigOpType
    entries = [
        library.ConfigEntry(key, value, incremental_operation=operations.SET) for key, value in set_.items()
    ]
    entries += [library.ConfigEntry(key, None, incremental_operation=operations.DELETE) for key in unset]
    resource = library.ConfigResource(library.ResourceType.TOPIC, name, incremental_configs=entries)
    wait(admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource], name)


def list_topics(admin: "AdminClient", *, internal: bool) -> list[dict[str, Any]]:
    """One row per topic, by name."""
    from confluent_kafka import KafkaException

    try:
        metadata = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException as error:
        raise refusal(error) from None
    names = sorted(name for name in metadata if internal or not name.startswith("__"))
    settings = read_settings(admin, names)
    return [
        {
            "name": name,
            "partitions": len(metadata[name].partitions),
            "replicas": max((len(p.replicas) for p in metadata[name].partitions.values()), default=0),
            "mode": value_of(settings[name], REPLICATION_MODE),
        }
        for name in names
    ]


def describe(admin: "AdminClient", name: str) -> dict[str, Any]:
    """A topic with its partitions and all of its settings."""
    from confluent_kafka import TopicCollection

    topic = wait(
        admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)[name], name
    )
    offsets = read_offsets(admin, name, [partition.id for partition in topic.partitions])
    settings = read_settings(admin, [name])[name]
    return {
        "name": name,
        "id": str(topic.topic_id),
        "mode": value_of(settings, REPLICATION_MODE),
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
        "settings": settings,
    }


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
    answers: dict[int, int | None] = dict.fromkeys(partitions)
    for partition, future in admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            answers[partition.partition] = future.result().offset
        except KafkaException:
            answers[partition.partition] = None
    return answers


def read_settings(admin: "AdminClient", names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Each topic's settings: name, value, and whether the topic itself sets it."""
    if not names:
        return {}
    library = admin_library()
    by_topic = library.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    resources = [library.ConfigResource(library.ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    return {
        resource.name: [
            {
                "name": entry.name,
                "value": entry.value,
                "set_by": "topic" if entry.source == by_topic else "default",
            }
            for entry in sorted(wait(futures[resource], resource.name).values(), key=lambda entry: entry.name)
        ]
        for resource in resources
    }


def value_of(settings: list[dict[str, Any]], name: str) -> str | None:
    return next((setting["value"] for setting in settings if setting["name"] == name), None)
