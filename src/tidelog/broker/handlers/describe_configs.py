"""DescribeConfigs, versions 1 to 4: topics and brokers, with synonyms and documentation."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.resources import BROKER, TOPIC, check_broker, settings_in_force
from tidelog.broker.request import RequestContext
from tidelog.config import DescribedSetting, describe_broker
from tidelog.controller import topics
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    documented = getattr(request, "include_documentation", False)
    return {
        "results": [
            _describe(broker, resource, request.include_synonyms, documented)
            for resource in request.resources
        ]
    }


def _describe(broker: Broker, resource: Any, synonyms: bool, documented: bool) -> Fields:
    answer = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        settings = _settings(broker, resource.resource_type, resource.resource_name)
    except TidelogError as refusal:
        return {**answer, "error_code": refusal.code, "error_message": refusal.message}
    keys = resource.configuration_keys
    shown = [setting for setting in settings if setting.name in keys] if keys else settings
    return {
        **answer,
        "error_code": ErrorCode.NONE,
        "configs": [_fields(each, synonyms, documented) for each in shown],
    }


def _settings(broker: Broker, kind: int, name: str) -> list[DescribedSetting]:
    if kind == TOPIC:
        topics.check_name(name)
        topic = topics.require(broker.image, name)
        return settings_in_force(topic.configs, len(topic.partitions[0].target), broker.config)
    if kind == BROKER:
        check_broker(broker, name)
        dynamic = broker.image.broker_configs
        return describe_broker(
            broker.config.static_values, dynamic.get(str(broker.broker_id), {}), dynamic.get("", {})
        )
    raise InvalidRequest(f"resource type {kind} has no settings here")


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
