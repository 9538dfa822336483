"""Requests that a broker forwards are judged by the rights of its client, at the active controller."""

from typing import Any

import pytest

from interop.wire import parse_response, request_bytes
from tidelog.broker.requests.request import RequestContext
from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope
from tidelog.protocol.wire import skip_tags
from tidelog.runtime.assembly import _trust
from tidelog.runtime.handling import HEADER
from tidelog.runtime.peers.envelopes import Envelopes
from tidelog.security.acls import Operation, ResourceType
from tidelog.security.principal import ANONYMOUS
from unit.broker.fakes import FakeBroker
from unit.broker.guards.rules import STANDARD, allow, secured_broker

NEW = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout": 1000}
CREATE = request_bytes("create_topics", 5, 1, "app", NEW)


class Node:
    """The connection of the broker that forwards."""

    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def await_rows(self, count: int) -> None: ...

    def rows_made(self, count: int) -> None: ...


def forwarded(broker: FakeBroker, body: bytes) -> int:
    """The error of the topic in the response to the client."""
    replies: list[Any] = []
    frame = memoryview(body)
    *_, client_size = HEADER.unpack_from(frame, 0)
    context = RequestContext(envelope.API_KEY, 0, 7, "node", "10.0.0.2:1", by_node=True)
    position = skip_tags(frame, 10 + client_size)
    Envelopes(broker.broker, lambda: True).open(frame, position, context, replies.extend, Node())
    broker.services.settle()
    answer = envelope.decode_response(memoryview(replies[0])[4:])
    assert answer.error is ErrorCode.NONE and answer.data is not None
    return int(parse_response(bytes(answer.data), "create_topics", 5, 1).topics[0].error_code)


def in_envelope(who: tuple[str, str]) -> bytes:
    return bytes(envelope.encode_request(7, "node", memoryview(CREATE), who, "10.0.0.9:5")[4:])


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (("User", "admin"), ErrorCode.NONE),
        (("User", "alice"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (tuple(ANONYMOUS), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_the_principal_of_the_client_counts(who: tuple[str, str], code: ErrorCode) -> None:
    broker = secured_broker()
    assert forwarded(broker, in_envelope(who)) == code
    assert ("new" in broker.store.image.topics) is (code is ErrorCode.NONE)


def test_its_address_counts() -> None:
    rule = allow(Operation.CREATE, ResourceType.TOPIC, "new")
    for host, code in (("10.0.0.2", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("10.0.0.9", ErrorCode.NONE)):
        broker = secured_broker()
        broker.allow(rule._replace(host=host))
        assert forwarded(broker, in_envelope(("User", "alice"))) == code


def test_a_node_of_an_older_version_forwards_for_nobody() -> None:
    fields = {"request_data": CREATE, "request_principal": None, "client_host_address": b"h"}
    body = request_bytes("envelope", 0, 7, "node", fields)
    assert forwarded(secured_broker(), body) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_audit_log_has_the_client() -> None:
    broker = secured_broker()
    forwarded(broker, in_envelope(("User", "admin")))
    (line,) = broker.audited
    assert (line["principal"], line["host"], line["items"]) == ("User:admin", "10.0.0.9", ["new"])


def test_with_rules_a_claim_to_be_a_node_is_not_enough() -> None:
    assert _trust(BrokerConfig.parse({}), None).admits(ANONYMOUS, "PLAINTEXT", 2)
    secured = BrokerConfig.parse({"authorizer.class.name": STANDARD})
    assert not _trust(secured, None).admits(ANONYMOUS, "PLAINTEXT", 2)
