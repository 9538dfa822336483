"""What tests of requests about settings share."""

from typing import Any

from unit.broker.fakes import FakeBroker

TOPIC, BROKER = 2, 4
TOPIC_LEVEL, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5


def resource(kind: int, name: str, *changes: tuple[Any, ...]) -> dict[str, Any]:
    """Changes are (name, value), or (name, operation, value) for the incremental kind."""
    configs = [{"name": each[0], "config_operation": each[1], "value": each[-1]} for each in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def alter(
    broker: FakeBroker, *resources: dict[str, Any], api: str = "alter_configs", **more: Any
) -> list[int]:
    return [each.error_code for each in broker.call(api, resources=resources, **more).responses]


def describe(broker: FakeBroker, kind: int, name: str, version: int | None = None, **more: Any) -> Any:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": more.pop("keys", None)}]
    (result,) = broker.call("describe_configs", version, resources=resources, **more).results
    return result


def settings(result: Any) -> dict[str, tuple[str | None, int]]:
    assert result.error_code == 0, result
    return {config.name: (config.value, config.config_source) for config in result.configs}
