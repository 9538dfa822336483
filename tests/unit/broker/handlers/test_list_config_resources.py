"""ListConfigResources: the names of what has settings."""

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.config_requests import alter, describe, resource, settings

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SESSION = "consumer.session.timeout.ms"


def names(broker: FakeBroker, *kinds: int) -> list[tuple[int, str]]:
    answer = broker.call("list_config_resources", 1, resource_types=list(kinds))
    assert answer.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_each_kind(topic: FakeBroker) -> None:
    own = resource(GROUP, "readers", (SESSION, 0, "50000"))
    assert alter(topic, own, api="incremental_alter_configs") == [0]
    assert names(topic, TOPIC) == [(TOPIC, "orders")]
    assert names(topic, GROUP) == [(GROUP, "readers")]
    assert names(topic, BROKER, BROKER) == [(BROKER, "1")]
    assert names(topic) == [(TOPIC, "orders"), (BROKER, "1"), (BROKER_LOGGER, "1"), (GROUP, "readers")]
    assert settings(describe(topic, GROUP, "readers"))[SESSION] == ("50000", 8)
    assert settings(describe(topic, GROUP, "others"))[SESSION] == ("45000", 5)
    assert describe(topic, GROUP, "").error_code == ErrorCode.INVALID_REQUEST
    assert alter(topic, resource(GROUP, "readers", (SESSION, 2, "1")), api="incremental_alter_configs") == [
        ErrorCode.INVALID_CONFIG
    ]
    assert alter(topic, resource(GROUP, "readers"), api="alter_configs") == [0]
    assert names(topic, GROUP) == []


def test_the_version_for_client_metrics(topic: FakeBroker) -> None:
    assert topic.call("list_config_resources", 0).config_resources == ()


@pytest.mark.parametrize("kind", [0, 3, 64])
def test_unknown_kinds(topic: FakeBroker, kind: int) -> None:
    answer = topic.call("list_config_resources", 1, resource_types=[TOPIC, kind])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
