"""Changes in the audit log."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.guards.changes import CHANGES, changes_of
from tidelog.broker.registry import SERVED
from tidelog.protocol import messages
from tidelog.runtime.handling import handle_decoded
from tidelog.security.acls import Operation, ResourceType
from unit.broker.fakes import FakeBroker
from unit.broker.guards.rules import ADMIN, allow, secured_broker
from unit.protocol.sample_requests import PLAIN_REQUESTS, request_body
from unit.versions import tried

ALTER_CONFIGS, CREATE_ACLS, ALTER_QUOTAS, ALTER_USERS, CREATE_TOPICS, DELETE_TOPICS = 44, 30, 49, 51, 19, 20


def sample(key: int, version: int, *, validate_only: bool = False) -> Any:
    values = PLAIN_REQUESTS[key] | {"validate_only": validate_only}
    return messages.decode(key, version, memoryview(request_body(key, version, values)), 0)


def handle(
    broker: FakeBroker, key: int, version: int | None = None, values: dict[str, Any] | None = None
) -> list[Any]:
    """``values``: of the request, instead of the sample's."""
    version = SERVED[key].newest if version is None else version
    wanted = sample(key, version)
    if values is not None:
        body = request_body(key, version, PLAIN_REQUESTS[key] | {"validate_only": False} | values)
        wanted = messages.decode(key, version, memoryview(body), 0)
    frames: list[bytes] = []
    handle_decoded(broker.broker, wanted, broker.context(key, version), frames.append, print)
    broker.services.settle()
    assert len(frames) == 1
    return [line for line in broker.audited if line["event"] == "change"]


@pytest.mark.parametrize(
    ("key", "version"),
    tried({key: range(SERVED[key].oldest, SERVED[key].newest + 1) for key in CHANGES}),
)
def test_every_change_can_be_described(key: int, version: int) -> None:
    assert changes_of(sample(key, version), FakeBroker().context(key, version))


@pytest.mark.parametrize(
    ("key", "items"),
    [
        (CREATE_ACLS, ["ALLOW User:alice from * READ TOPIC LITERAL orders"]),
        (ALTER_QUOTAS, ["user alice: request_percentage=1.5"]),
        (ALTER_USERS, ["delete bob SCRAM_SHA_256", "set alice SCRAM_SHA_512"]),
    ],
)
def test_a_change_has_a_line_with_its_principal(key: int, items: list[str]) -> None:
    broker = secured_broker()
    broker.principal = ADMIN
    (line,) = handle(broker, key)
    assert (line["principal"], line["host"], line["items"]) == ("User:admin", "10.0.0.1", items)


def test_values_of_settings_are_not_told() -> None:
    broker = secured_broker()
    broker.principal = ADMIN
    (line,) = handle(broker, ALTER_CONFIGS)
    assert line["items"] == ["topic orders: retention.ms, x"]


def test_a_refused_change_has_a_line_with_the_error() -> None:
    broker = secured_broker()
    (line,) = handle(broker, CREATE_ACLS)
    assert line["errors"] == ["CLUSTER_AUTHORIZATION_FAILED"]
    assert not broker.store.image.security.acls


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (CREATE_ACLS, None),
        (CREATE_TOPICS, None),
        (DELETE_TOPICS, {"topics": [{"name": None, "topic_id": UUID(int=7)}]}),
        (DELETE_TOPICS, {"topics": [{"name": None, "topic_id": None}]}),
    ],
)
def test_who_has_no_rights_cannot_fill_the_log(key: int, values: dict[str, Any] | None) -> None:
    broker = secured_broker()
    handle(broker, key, None, values)
    count = len(broker.audited)
    for _ in range(3):
        handle(broker, key, None, values)
    assert len(broker.audited) == count


def test_a_request_that_names_nothing_changes_nothing() -> None:
    assert not handle(secured_broker(), CREATE_TOPICS, None, {"topics": []})


def test_the_response_tells_refused_and_allowed_parts_together() -> None:
    broker = secured_broker()
    broker.allow(allow(Operation.CREATE, ResourceType.TOPIC, "plain"))
    (line,) = handle(broker, CREATE_TOPICS)
    assert line["items"] == ["plain", "placed"]
    # The setting of the first topic has no value, and the second is not alice's to create.
    assert set(line["errors"]) == {"INVALID_CONFIG", "TOPIC_AUTHORIZATION_FAILED"}


def test_nodes_and_checks_have_none() -> None:
    context = FakeBroker().context(CREATE_TOPICS, 7)
    assert changes_of(sample(CREATE_TOPICS, 7), context._replace(by_node=True)) is None
    assert changes_of(sample(CREATE_TOPICS, 7, validate_only=True), context) is None
