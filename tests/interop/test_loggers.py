"""Levels of a broker's loggers, changed by a client while the broker runs."""

from collections.abc import Iterator

import kafka.admin
import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from interop.wire import Wire
from tidelog.testing import Broker, Cluster

pytestmark = pytest.mark.interop

BROKER_LOGGER, BROKER = 8, 4
SET, DELETE = 0, 1
LOGGER = "tidelog.runtime.server"


@pytest.fixture
def brokers(tidelog_shared_cluster: Cluster) -> Iterator[list[Broker]]:
    found = list(tidelog_shared_cluster)
    yield found
    for broker in found:
        change(broker, broker.node_id, LOGGER, DELETE, None)
        change(broker, broker.node_id, "root", SET, "INFO")


def change(broker: Broker, of: int, logger: str, operation: int, value: str | None) -> int:
    configs = [{"name": logger, "config_operation": operation, "value": value}]
    resource = {"resource_type": BROKER_LOGGER, "resource_name": str(of), "configs": configs}
    with Wire(broker.bootstrap) as wire:
        (found,) = wire.call("incremental_alter_configs", 1, resources=[resource]).responses
    return int(found.error_code)


def level(broker: Broker, logger: str) -> str:
    resource = {"resource_type": BROKER_LOGGER, "resource_name": str(broker.node_id)}
    with Wire(broker.bootstrap) as wire:
        asked = [{**resource, "configuration_keys": [logger]}]
        (found,) = wire.call("describe_configs", 4, resources=asked).results
    assert found.error_code == 0, found
    (config,) = found.configs
    return str(config.value)


def test_each_broker_has_its_own_levels_and_needs_no_controller_for_them(brokers: list[Broker]) -> None:
    for number, broker in enumerate(brokers):
        value = ("DEBUG", "WARN", "FATAL")[number]
        assert change(broker, broker.node_id, LOGGER, SET, value) == 0
    assert [level(broker, LOGGER) for broker in brokers] == ["DEBUG", "WARN", "FATAL"]
    assert change(brokers[0], brokers[1].node_id, LOGGER, SET, "INFO") == 42


def test_another_setting_does_not_reset_the_root_logger(brokers: list[Broker]) -> None:
    broker = brokers[0]
    assert change(broker, broker.node_id, "root", SET, "ERROR") == 0
    for operation, value in ((SET, "3600001"), (DELETE, None)):
        configs = [{"name": "log.retention.ms", "config_operation": operation, "value": value}]
        resource = {"resource_type": BROKER, "resource_name": str(broker.node_id), "configs": configs}
        with Wire(broker.bootstrap) as wire:
            (found,) = wire.call("incremental_alter_configs", 1, resources=[resource]).responses
        assert found.error_code == 0, found
    assert level(broker, "root") == "ERROR"


def test_with_kafka_python(broker: Broker) -> None:
    name = str(broker.node_id)
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        changed = ConfigResource(ConfigResourceType.BROKER_LOGGER, name, {LOGGER: "WARN"})
        admin.alter_configs([changed])
        found = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, name)])
    finally:
        admin.close()
    assert "'WARN'" in repr(found) and LOGGER in repr(found), found
    assert level(broker, LOGGER) == "WARN"
    assert change(broker, broker.node_id, LOGGER, DELETE, None) == 0
    assert level(broker, LOGGER) == "INFO"
