"""Config resources: shared by AlterConfigs, IncrementalAlterConfigs and DescribeConfigs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome, error_of
from tidelog.broker.requests.submission import Decide, rows_in_slices, submit_each
from tidelog.config import BrokerConfig, DescribedSetting, describe_topic
from tidelog.config.modes import COPIES
from tidelog.config.topic import mode_of
from tidelog.controller import configs, topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.controller.rules import Rulebook
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
MINIMUM = "min.insync.replicas"

Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the current overrides to the requested overrides."""


def check_broker(broker: Broker, name: str) -> None:
    """The resource name is a broker id; the empty name stands for the default of all brokers."""
    if name not in ("", str(broker.broker_id)):
        raise InvalidRequest(f"this is broker {broker.broker_id}; ask broker {name!r} for its settings")


def settings_in_force(
    overrides: Mapping[str, str], replicas: int, config: BrokerConfig
) -> list[DescribedSetting]:
    """A topic's effective settings. ``min.insync.replicas`` depends on the mode and the number of replicas: a
    topic with fewer replicas than the default minimum needs only as many as it has.
    """
    copies = COPIES[mode_of(overrides)]
    return [
        replace(setting, value=str(copies(int(setting.value or 0), replicas)))
        if setting.name == MINIMUM
        else setting
        for setting in describe_topic(overrides, config)
    ]


def alter_all(broker: Broker, request: Any, change_of: Callable[[Any], Change]) -> Future[Fields]:
    """One decision per resource, with a common response."""
    rules = Rulebook(broker.config)
    resources = request.resources
    decisions = (_decide(broker, rules, resource, change_of(resource)) for resource in resources)

    def respond(refusals: list[TidelogError | None]) -> Outcome:
        return rows_in_slices(broker, map(_row, resources, refusals), lambda rows: {"responses": rows})

    return submit_each(broker, decisions, respond, validate_only=request.validate_only)


def _row(resource: Any, refusal: TidelogError | None) -> Fields:
    return {
        **error_of(refusal),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _decide(broker: Broker, rules: Rulebook, resource: Any, change: Change) -> Decide:
    name = resource.resource_name

    def decide(image: ClusterImage) -> list[MetadataRecord]:
        if resource.resource_type == TOPIC:
            current = topics.require(image, name).configs
            return configs.change_topic(image, name, change(current), rules)
        if resource.resource_type == BROKER:
            return configs.change_broker(image, name, change(image.broker_configs.get(name, {})), rules)
        if resource.resource_type == GROUP:
            current = image.group_configs.get(name, {})
            return configs.change_group(image, name, change(current), broker.config)
        if resource.resource_type == BROKER_LOGGER:
            raise InvalidRequest("levels of loggers need an IncrementalAlterConfigs that changes only levels")
        raise InvalidRequest(f"resource type {resource.resource_type} has no settings here")

    return decide
