"""Settings of topics and brokers in a running cluster: reading and changing them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tidelog.cli.client import REQUEST_TIMEOUT_S, admin_library, wait
from tidelog.cli.failure import CommandFailed
from tidelog.config import broker_setting, topic_setting

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Kind = Literal["TOPIC", "BROKER"]

# Who decided a value, by Kafka's number for it.
_SET_BY = {1: "topic", 2: "broker", 3: "all brokers", 4: "config file"}
BY_DEFAULT = "default"


def read(admin: "AdminClient", kind: Kind, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The settings of each topic or broker: name, value, who set it. One that just vanished is left out."""
    library = admin_library()
    found: dict[str, list[dict[str, Any]]] = {}
    resources = [library.ConfigResource(library.ResourceType[kind], name) for name in names]
    # Kafka answers for one broker per request only.
    groups = [resources] if kind == "TOPIC" else [[resource] for resource in resources]
    for group in filter(None, groups):
        futures = admin.describe_configs(group, request_timeout=REQUEST_TIMEOUT_S)
        for resource in group:
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


def change(
    admin: "AdminClient", kind: Kind, name: str, set_: Mapping[str, str], unset: Iterable[str] = ()
) -> None:
    """Set some settings of one topic or broker and remove others."""
    unset = list(unset)
    for key in unset:  # Removing an unknown name would succeed, and hide a typing error.
        (topic_setting if kind == "TOPIC" else broker_setting)(key)
    library = admin_library()
    operations = library.AlterConfigOpType
    entries = [
        library.ConfigEntry(key, value, incremental_operation=operations.SET) for key, value in set_.items()
    ]
    entries += [library.ConfigEntry(key, None, incremental_operation=operations.DELETE) for key in unset]
    resource = library.ConfigResource(library.ResourceType[kind], name, incremental_configs=entries)
    futures = admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    wait(futures[resource], name if kind == "TOPIC" else "")


def value_of(settings: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((setting["value"] for setting in settings if setting["name"] == name), None)
