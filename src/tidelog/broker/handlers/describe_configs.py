"""DescribeConfigs, versions 1 to 4: topics, brokers, groups and loggers, with synonyms and documentation."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.broker.broker import Broker
from tidelog.broker.requests import loggers
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.resources import (
    BROKER,
    BROKER_LOGGER,
    GROUP,
    TOPIC,
    check_broker,
    settings_in_force,
)
from tidelog.broker.slices import describe_in_slices
from tidelog.config import ConfigSource, ConfigType, DescribedSetting, describe_broker, describe_group
from tidelog.config.topic import MODE_CHANGE, UNCONFIRMED
from tidelog.controller import promises, topics
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import TopicImage
from tidelog.controller.successions import mode_changes
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

DESCRIBED_PER_SLICE = 20  # about 4 ms, for topics


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    documented = getattr(request, "include_documentation", False)
    return describe_in_slices(
        broker.services,
        dict.fromkeys(request.resources),  # A response is a thousand times larger.
        lambda resource: _describe(broker, resource, request.include_synonyms, documented),
        DESCRIBED_PER_SLICE,
        lambda rows: {"results": rows},
    )


def _describe(broker: Broker, resource: Any, synonyms: bool, documented: bool) -> Fields:
    response = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        settings = _settings(broker, resource.resource_type, resource.resource_name)
    except TidelogError as refusal:
        return {**response, "error_code": refusal.code, "error_message": refusal.message}
    keys = frozenset(resource.configuration_keys or ())
    shown = [setting for setting in settings if setting.name in keys] if keys else settings
    return {
        **response,
        "error_code": ErrorCode.NONE,
        "configs": [_fields(each, synonyms, documented) for each in shown],
    }


def _settings(broker: Broker, kind: int, name: str) -> list[DescribedSetting]:
    if kind == TOPIC:
        topics.check_name(name)
        topic = topics.require(broker.image, name)
        settings = settings_in_force(topic.configs, len(topic.partitions[0].target), broker.config)
        return [*settings, *_mode_change(broker, topic), *_unconfirmed(topic)]
    if kind == BROKER:
        check_broker(broker, name)
        dynamic = broker.image.broker_configs
        return describe_broker(
            broker.config.static_values, dynamic.get(str(broker.broker_id), {}), dynamic.get("", {})
        )
    if kind == BROKER_LOGGER:
        return loggers.describe(broker, name)
    if kind == GROUP:
        if not name:
            raise InvalidRequest("the settings of a group need its name")
        return describe_group(broker.image.group_configs.get(name, {}), broker.config)
    raise InvalidRequest(f"resource type {kind} has no settings here")


def _mode_change(broker: Broker, topic: TopicImage) -> Iterator[DescribedSetting]:
    """The partitions that are still changing their replication mode. Shown as a read-only setting, so that
    every Kafka client can follow the change.
    """
    left = [each._asdict() for each in mode_changes.pending(topic, BrokerAvailability.of(broker.image))]
    if left:
        yield _told(
            MODE_CHANGE,
            left,
            "Partitions that do not use replication.mode yet, and what each of them waits for; "
            "present only while the mode changes.",
        )


def _unconfirmed(topic: TopicImage) -> Iterator[DescribedSetting]:
    """The partitions for which a setting that promises more than before is not in effect yet."""
    left = [each._asdict() for each in promises.unconfirmed(topic)]
    if left:
        yield _told(
            UNCONFIRMED,
            left,
            "Partitions for which flush.messages=1 or more copies are not in effect yet, and what each of "
            "them waits for; present only until then.",
        )


def _told(name: str, value: object, documentation: str) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=msgspec.json.encode(value).decode(),
        source=ConfigSource.DEFAULT_CONFIG,
        read_only=True,
        sensitive=False,
        type=ConfigType.STRING,
        documentation=documentation,
        synonyms=(),
    )


def _fields(setting: DescribedSetting, synonyms: bool, documented: bool) -> Fields:
    return {
        "name": setting.name,
        "value": None if setting.sensitive else setting.value,
        "read_only": setting.read_only,
        "config_source": setting.source,
        "is_sensitive": setting.sensitive,
        "synonyms": [
            {"name": name, "value": value, "source": source}
            for name, value, source in (setting.synonyms if synonyms else ())
        ],
        "config_type": setting.type,
        "documentation": setting.documentation if documented else None,
    }
