"""Requests that change very many things: no turn of the loop handles more than some of their elements."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.future import Future
from tidelog.broker.handlers import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    incremental_alter_configs,
)
from tidelog.broker.requests.request import RequestContext
from tidelog.broker.requests.submission import PARTITIONS_MAX, PLACED_PER_SLICE, ROWS_PER_SLICE
from unit.broker.fakes import FakeBroker

MANY = 2 * ROWS_PER_SLICE + 10
IN_A_TURN_MAX = PLACED_PER_SLICE + ROWS_PER_SLICE  # the last decisions, and the first rows
Named = SimpleNamespace


class Elements(list[Any]):
    """Counts how often one of them is looked at."""

    taken = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            self.taken += 1
            yield each


def quota(number: int) -> Any:
    entity = [Named(entity_type="user", entity_name=f"u{number}")]
    return Named(entity=entity, ops=[Named(key="producer_byte_rate", value=1.0, remove=False)])


def rule(number: int) -> Any:
    return Named(
        resource_type=2, resource_name=f"t{number}", resource_pattern_type=3, principal="User:u", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip


def rule_filter(number: int) -> Any:
    return Named(
        resource_type_filter=2, resource_name_filter=f"t{number}", pattern_type_filter=3,
        principal_filter=None, host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip


def topic(number: int) -> Any:
    return Named(
        name=f"t{number}", topic_id=None, count=3, num_partitions=1, replication_factor=1, assignments=[],
        configs=[], resource_type=2, resource_name=f"t{number}", mechanism=1,
    )  # fmt: skip


CASES: dict[str, tuple[Any, str, int, Any, str]] = {
    "DeleteTopics": (delete_topics, "topics", MANY, topic, "responses"),
    "IncrementalAlterConfigs": (incremental_alter_configs, "resources", MANY, topic, "responses"),
    "AlterClientQuotas": (alter_client_quotas, "entries", MANY, quota, "entries"),
    "AlterUserScramCredentials": (alter_user_scram_credentials, "deletions", MANY, topic, "results"),
    "CreateAcls": (create_acls, "creations", MANY, rule, "results"),
    "DeleteAcls": (delete_acls, "filters", MANY, rule_filter, "filter_results"),
    "CreateTopics": (create_topics, "topics", PARTITIONS_MAX + 1, topic, "topics"),
    "CreatePartitions": (create_partitions, "topics", PARTITIONS_MAX + 1, topic, "results"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_turn_handles_some_of_them(name: str, broker: FakeBroker) -> None:
    """Without these slices, 99,000 names in one DeleteTopics held the loop of the active controller for
    1.4 s, which is about as long as its session.
    """
    handler, field, count, element, rows = CASES[name]
    elements = Elements(element(number) for number in range(count))
    elements.taken = 0
    request = Named(**{"validate_only": False, "upsertions": [], "timeout": 1000, field: elements})
    outcome = handler.handle(broker.broker, request, RequestContext(0, 6, 1, "c", "h:1"))
    assert elements.taken <= IN_A_TURN_MAX
    assert isinstance(outcome, Future)
    while not outcome.is_complete:
        before = elements.taken
        broker.services._soon.popleft()()
        assert elements.taken - before <= IN_A_TURN_MAX
    told: list[Any] = []
    outcome.then(told.append)
    assert len(told[0][rows]) == count
