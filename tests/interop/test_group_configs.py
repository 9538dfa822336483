"""Settings of single groups, and the list of everything that has settings."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .wire import Wire

pytestmark = pytest.mark.interop

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE = 0, 1
GROUP_CONFIG, DEFAULT = 8, 5
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def change(wire: Wire, group: str, *changes: tuple[str, int, str | None], **more: Any) -> ErrorCode:
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    (found,) = wire.call("incremental_alter_configs", 1, resources=[resource], **more).responses
    return found.error_code  # type: ignore[no-any-return]


def described(wire: Wire, group: str) -> dict[str, tuple[str, int]]:
    resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": None}
    (found,) = wire.call("describe_configs", 4, resources=[resource]).results
    assert found.error_code is ErrorCode.none, found
    return {each.name: (each.value, each.config_source) for each in found.configs}


def wait_until(condition: Callable[[], bool]) -> None:
    """Kafka's broker hears of a change a moment after its controller has made it."""
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def listed(wire: Wire, *kinds: int) -> set[tuple[int, str]]:
    answer = wire.call("list_config_resources", 1, resource_types=list(kinds))
    assert answer.error_code is ErrorCode.none, answer
    return {(each.resource_type, each.resource_name) for each in answer.config_resources}


def test_set_describe_list_and_delete(wire: Wire, group: str) -> None:
    assert described(wire, group)[SESSION] == ("45000", DEFAULT)
    assert (GROUP, group) not in listed(wire, GROUP)
    assert change(wire, group, (SESSION, SET, "50000")) is ErrorCode.none
    wait_until(lambda: described(wire, group)[SESSION] == ("50000", GROUP_CONFIG))
    assert described(wire, group)[INTERVAL] == ("5000", DEFAULT)
    assert (GROUP, group) in listed(wire, GROUP)
    assert change(wire, group, (SESSION, DELETE, None)) is ErrorCode.none
    wait_until(lambda: described(wire, group)[SESSION] == ("45000", DEFAULT))


@pytest.mark.parametrize(
    ("name", "value"),
    [(SESSION, "44999"), (SESSION, "60001"), (INTERVAL, "1"), (SESSION, "soon"), ("x.y", "1")],
)
def test_values_that_are_refused(wire: Wire, group: str, name: str, value: str) -> None:
    assert change(wire, group, (name, SET, value)) is ErrorCode.invalid_config
    assert described(wire, group)[SESSION] == ("45000", DEFAULT)


def test_only_to_see_whether_it_would_work(wire: Wire, group: str) -> None:
    assert change(wire, group, (SESSION, SET, "50000"), validate_only=True) is ErrorCode.none
    assert described(wire, group)[SESSION] == ("45000", DEFAULT)


def test_without_a_name(wire: Wire) -> None:
    assert change(wire, "", (SESSION, SET, "50000")) is ErrorCode.invalid_request
    resource = {"resource_type": GROUP, "resource_name": "", "configuration_keys": None}
    (found,) = wire.call("describe_configs", 4, resources=[resource]).results
    assert found.error_code is ErrorCode.invalid_request


def test_members_hear_of_the_groups_own_interval(wire: Wire, group: str, topic: str) -> None:
    assert change(wire, group, (INTERVAL, SET, "7000")) is ErrorCode.none
    joined = {
        "group_id": group, "member_id": "m" * 22, "member_epoch": 0, "rebalance_timeout": 30_000,
        "subscribed_topic_names": [topic], "topic_partitions": [],
    }  # fmt: skip
    wire.call("find_coordinator", 3, key=group, key_type=0)

    def interval_ms() -> float:
        answer = wire.call("consumer_group_heartbeat", 0, **joined)
        if answer.error_code is ErrorCode.none:
            joined["member_epoch"] = answer.member_epoch
            joined["subscribed_topic_names"] = None
            joined["topic_partitions"] = None
        return answer.heartbeat_interval.total_seconds() * 1000  # type: ignore[no-any-return]

    calls.eventually(lambda: interval_ms() == 7000, "the member has the group's interval")


def test_everything_that_has_settings(wire: Wire, topic: str) -> None:
    assert (TOPIC, topic) in listed(wire, TOPIC)
    assert {kind for kind, _ in listed(wire, BROKER)} == {BROKER}
    assert listed(wire, TOPIC) | listed(wire, BROKER) <= listed(wire)
    assert listed(wire, CLIENT_METRICS) == set()
    assert wire.call("list_config_resources", 0).config_resources == ()
    unknown = wire.call("list_config_resources", 1, resource_types=[77])
    assert unknown.error_code is ErrorCode.unsupported_version
