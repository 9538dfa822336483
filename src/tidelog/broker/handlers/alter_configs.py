"""AlterConfigs, versions 0 to 2: replaces all overrides of a topic, or all dynamic settings of a broker.

A topic's replication mode is kept unless the request contains it. A Kafka tool does not know that setting and
leaves it out, which must not start a change of mode.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.resources import Change, alter_all
from tidelog.config.topic import REPLICATION_MODE
from tidelog.errors import InvalidRequest


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return alter_all(broker, request, _replace)


def _replace(resource: Any) -> Change:
    def change(current: Mapping[str, str]) -> Mapping[str, str]:
        missing = [config.name for config in resource.configs if config.value is None]
        if missing:
            raise InvalidRequest(f"settings without a value: {', '.join(missing)}")
        kept = {name: text for name, text in current.items() if name == REPLICATION_MODE}
        return kept | {config.name: config.value for config in resource.configs}

    return change
