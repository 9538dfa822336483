"""Settings of topics and brokers in a running cluster: reading and changing them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, wait
from tidelog.cli.cluster.admin import BROKER_RESOURCE, DESCRIBE_CONFIGS, Broker
from tidelog.cli.cluster_client import ClusterClient, check
from tidelog.cli.failure import CommandFailed
from tidelog.config import topic_setting

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

# Who decided a value, by Kafka's number for it.
_SET_BY = {1: "topic", 2: "broker", 3: "all brokers", 4: "config file"}
BY_DEFAULT = "default"


def read_topics(admin: "AdminClient", names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The settings of each topic: name, value, who set it. One that just vanished is left out."""
    library = admin_library()
    found: dict[str, list[dict[str, Any]]] = {}
    resources = [library.ConfigResource(library.ResourceType["TOPIC"], name) for name in names]
    if not resources:
        return found
    futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    for resource in resources:
        try:
            entries = wait(futures[resource], resource.name)
        except CommandFailed as failure:
            if failure.kafka_error == "UNKNOWN_TOPIC_OR_PART":
                continue
            raise
        found[resource.name] = [
            {"name": name, "value": entry.value, "set_by": _SET_BY.get(entry.source, BY_DEFAULT)}
            for name, entry in sorted(entries.items())
        ]
    return found


def read_brokers(client: ClusterClient, brokers: Iterable[Broker]) -> dict[int, list[dict[str, Any]]]:
    """As :func:`read_topics`. Each broker is asked itself, also one that is fenced and so not in Metadata."""
    return {each.broker: _of_broker(client, each) for each in brokers}


def _of_broker(client: ClusterClient, broker: Broker) -> list[dict[str, Any]]:
    resource = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": str(broker.broker),
        "configuration_keys": None,
    }
    (result,) = client.ask(broker.address, DESCRIBE_CONFIGS, {"resources": [resource]}).results
    check(result.error_code, result.error_message)
    return [
        {
            "name": config.name,
            "value": config.value,
            "set_by": _SET_BY.get(config.config_source, BY_DEFAULT),
        }
        for config in sorted(result.configs, key=lambda config: str(config.name))
    ]


def change_topic(admin: "AdminClient", name: str, set_: Mapping[str, str], unset: Iterable[str] = ()) -> None:
    """Set some settings of one topic and remove others."""
    unset = list(unset)
    for key in unset:  # Removing an unknown name would succeed, and hide a typing error.
        topic_setting(key)
    library = admin_library()
    operations = library.AlterConfigOpType
    entries = [
        library.ConfigEntry(key, value, incremental_operation=operations.SET) for key, value in set_.items()
    ]
    entries += [library.ConfigEntry(key, None, incremental_operation=operations.DELETE) for key in unset]
    resource = library.ConfigResource(library.ResourceType["TOPIC"], name, incremental_configs=entries)
    futures = admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    wait(futures[resource], name)


def value_of(settings: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((setting["value"] for setting in settings if setting["name"] == name), None)
