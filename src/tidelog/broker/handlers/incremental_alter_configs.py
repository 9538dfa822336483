"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to and subtract from single settings."""

from collections.abc import Mapping
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests import loggers
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.resources import BROKER, GROUP, TOPIC, Change, alter_all
from tidelog.config import apply_incremental, broker_setting, group_setting, topic_setting

_SETTING_OF = {TOPIC: topic_setting, BROKER: broker_setting, GROUP: group_setting}


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if loggers.are_named_by(request):
        return loggers.alter(broker, request)
    return alter_all(broker, request, lambda resource: _increment(broker, resource))


def _increment(broker: Broker, resource: Any) -> Change:
    def change(current: Mapping[str, str]) -> Mapping[str, str]:
        operations = [(config.name, config.config_operation, config.value) for config in resource.configs]
        setting_of = _SETTING_OF[resource.resource_type]  # The caller has refused all other types.
        return apply_incremental(current, operations, setting_of=setting_of, config=broker.config)

    return change
