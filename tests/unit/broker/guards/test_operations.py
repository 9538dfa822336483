"""Every API asks for exactly the rights in the table of operations."""

from collections.abc import Iterable
from typing import Any

import pytest

from tidelog.broker.guards.parts import CODES, Forbidden
from tidelog.broker.guards.table import GUARDS, admit
from tidelog.broker.registry import SERVED
from tidelog.controller.records import TopicCreated
from tidelog.protocol import envelope, messages
from tidelog.runtime.peers.exchanges import BY_API
from tidelog.security.acls import Acl, Operation, ResourceType
from tidelog.security.operations import NEEDS, Need, Right
from unit.broker.fakes import ME, FakeBroker
from unit.broker.guards.rules import ADMIN, allow, secured_broker
from unit.protocol.sample_requests import PLAIN_REQUESTS, TOPIC_ID, request_body
from unit.versions import tried

PRODUCE, FETCH, METADATA, LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_TOPIC_PARTITIONS = 0, 1, 3, 16, 66, 75
OFFSET_FETCH, ADD_PARTITIONS_TO_TXN, BATCHED_FROM = 9, 24, 4
BY_LOGIN = {17, 36}  # SaslHandshake and SaslAuthenticate, for everybody
BY_HANDLER = {PRODUCE, FETCH, METADATA, LIST_GROUPS, LIST_TRANSACTIONS, DESCRIBE_TOPIC_PARTITIONS} | BY_LOGIN
NOT_IN_SAMPLES = {
    "for groups",
    "for brokers and everything else",
    "of a transactional id",
    "for topics of the members",
}
DENIED = frozenset(CODES.values())

GUARDED = tried(
    {
        key: range(
            SERVED[key].oldest, BATCHED_FROM if key == ADD_PARTITIONS_TO_TXN else SERVED[key].newest + 1
        )
        for key in sorted(SERVED)
        if key not in BY_HANDLER
    }
)


class Blank(dict[str, Any]):
    """A response of a handler, in which every list is empty."""

    def __missing__(self, name: str) -> list[Any]:
        return []


def a_broker() -> FakeBroker:
    """With the topic of the sample requests."""
    broker = secured_broker()
    broker.submit(TopicCreated("orders", TOPIC_ID, [[ME]], {}))
    return broker


def outcome(broker: FakeBroker, key: int, version: int) -> tuple[Any, set[int]]:
    """What is left of the sample request, and the refusals in its response."""
    decoded = messages.decode(key, version, memoryview(request_body(key, version, PLAIN_REQUESTS[key])), 0)
    admitted = admit(broker.broker, decoded, broker.context(key, version))
    if isinstance(admitted, Forbidden):
        return None, set(codes_in(admitted.fields))
    answer = Blank()
    if key == OFFSET_FETCH:
        answer["groups"] = [Blank() for _ in getattr(admitted.request, "groups", ())]
    merged = {} if admitted.merge is None else admitted.merge(answer)
    return (admitted.request == decoded, set(codes_in(merged)))


def codes_in(value: Any) -> Iterable[int]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code") and inner in DENIED:
                yield inner
            yield from codes_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from codes_in(inner)


def rules(rights: Iterable[Right]) -> list[Acl]:
    return [allow(right.operation, right.kind) for right in dict.fromkeys(rights)]


def test_no_served_api_is_missing() -> None:
    assert set(NEEDS) >= set(SERVED)
    assert set(GUARDS) >= set(SERVED) - {PRODUCE, FETCH}
    assert set(NEEDS) == set(GUARDS) | {PRODUCE, FETCH}


def test_what_is_not_in_the_table_is_for_nodes_only() -> None:
    # Those that have a handler, too, mean something else between nodes.
    assert {key for key in BY_API if key in SERVED} <= {23, 24, 27, 67}
    assert envelope.API_KEY not in SERVED


@pytest.mark.parametrize(("key", "version"), GUARDED)
def test_without_rules_everything_is_refused(key: int, version: int) -> None:
    left, codes = outcome(a_broker(), key, version)
    if [need for need in NEEDS[key] if not need.hides]:
        assert left is None and codes
    else:
        assert left and not codes


@pytest.mark.parametrize(("key", "version"), GUARDED)
def test_the_rights_in_the_table_are_enough(key: int, version: int) -> None:
    broker = a_broker()
    broker.allow(*rules(need.right for need in NEEDS[key] if not need.hides))
    assert outcome(broker, key, version) == (True, set())


@pytest.mark.parametrize(("key", "version"), GUARDED)
def test_super_users_need_none(key: int, version: int) -> None:
    broker = a_broker()
    broker.principal = ADMIN
    assert outcome(broker, key, version) == (True, set())


EACH_NEED = [
    (key, version, need)
    for key, version in GUARDED
    for need in NEEDS[key]
    if not need.hides and need.when not in NOT_IN_SAMPLES and not need.when.startswith("without")
]


@pytest.mark.parametrize(("key", "version", "need"), EACH_NEED)
def test_each_right_is_needed(key: int, version: int, need: Need) -> None:
    broker = a_broker()
    broker.allow(*rules(other.right for other in NEEDS[key] if other.right != need.right))
    left, codes = outcome(broker, key, version)
    assert not left and codes


@pytest.mark.parametrize(
    ("key", "need"), [(key, need) for key, needs in NEEDS.items() for need in needs if need.instead]
)
def test_the_other_right_is_enough_too(key: int, need: Need) -> None:
    if key in BY_HANDLER or need.instead is None:
        return
    broker = a_broker()
    others = [other.right for other in NEEDS[key] if other is not need and not other.hides]
    broker.allow(*rules([need.instead, *others]))
    assert outcome(broker, key, SERVED[key].newest) == (True, set())


def test_requests_of_nodes_are_not_guarded() -> None:
    broker = a_broker()
    for key in sorted(set(SERVED) - BY_HANDLER):
        version = SERVED[key].newest
        data = memoryview(request_body(key, version, PLAIN_REQUESTS[key]))
        decoded = messages.decode(key, version, data, 0)
        admitted = admit(broker.broker, decoded, broker.context(key, version)._replace(by_node=True))
        assert admitted == (decoded, None)


def test_refusals_name_the_kind_of_resource() -> None:
    expected = {kind.name.lower() for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)}
    assert expected | {"transactional_id"} == set(CODES)


@pytest.mark.parametrize("version", [4, 5])
def test_batches_of_transactions_are_for_brokers(version: int) -> None:
    broker = a_broker()
    broker.allow(*rules(need.right for need in NEEDS[ADD_PARTITIONS_TO_TXN]))
    assert outcome(broker, ADD_PARTITIONS_TO_TXN, version)[0] is None
    broker.allow(allow(Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
    assert outcome(broker, ADD_PARTITIONS_TO_TXN, version) == (True, set())
