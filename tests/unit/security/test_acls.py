"""Access rules as requests name them, and filters."""

import pytest

from tidelog.errors import InvalidRequest
from tidelog.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    new_acl,
    new_filter,
    select,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(name: str, pattern: PatternType = LITERAL, **more: object) -> Acl:
    rule = Acl(ResourceType.TOPIC, name, pattern, "User:a", "*", Operation.READ, Permission.ALLOW)
    return rule._replace(**more)  # type: ignore[arg-type]


RULES = [acl("orders"), acl("or", PREFIXED), acl("*"), acl("other"), acl("orders", host="10.0.0.1")]


class TestFilters:
    @pytest.mark.parametrize(
        ("pattern", "name", "expected"),
        [
            (PatternType.ANY, None, {"orders", "or", "*", "other"}),
            (PatternType.ANY, "orders", {"orders"}),
            (PatternType.MATCH, "orders", {"orders", "or", "*"}),
            (PatternType.MATCH, "o", {"*"}),
            (LITERAL, "or", set()),
            (LITERAL, None, {"orders", "*", "other"}),
            (PREFIXED, "or", {"or"}),
            (PREFIXED, "orders", set()),
            (PREFIXED, None, {"or"}),
        ],
    )
    def test_patterns(self, pattern: PatternType, name: str | None, expected: set[str]) -> None:
        wanted = AclFilter(resource_name=name, pattern_type=pattern)
        assert {rule.resource_name for rule in select(RULES, wanted)} == expected

    @pytest.mark.parametrize(
        ("wanted", "count"),
        [
            (AclFilter(), 5),
            (AclFilter(host="10.0.0.1"), 1),
            (AclFilter(host="*"), 4),
            (AclFilter(principal="User:b"), 0),
            (AclFilter(principal="User:a"), 5),
            (AclFilter(operation=Operation.WRITE), 0),
            (AclFilter(operation=Operation.READ, permission=Permission.ALLOW), 5),
            (AclFilter(permission=Permission.DENY), 0),
            (AclFilter(resource_type=ResourceType.GROUP), 0),
        ],
    )
    def test_every_field_counts(self, wanted: AclFilter, count: int) -> None:
        assert len(select(RULES, wanted)) == count


class TestRulesOfRequests:
    GOOD = (2, "orders", 3, "User:a", "*", 3, 3)

    def test_a_good_one(self) -> None:
        assert new_acl(*self.GOOD) == acl("orders")

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (0, 1), (0, 0), (0, 99), (1, ""), (2, 1), (2, 2), (2, 0), (2, 9), (3, "alice"), (3, ""),
            (3, ":a"), (4, ""), (5, 0), (5, 1), (5, 99), (6, 0), (6, 1), (6, 9),
        ],
    )  # fmt: skip
    def test_what_no_rule_can_have(self, place: int, value: object) -> None:
        fields: list[object] = list(self.GOOD)
        fields[place] = value
        with pytest.raises(InvalidRequest):
            new_acl(*fields)  # type: ignore[arg-type]

    def test_there_is_one_cluster(self) -> None:
        assert new_acl(4, "kafka-cluster", 3, "User:a", "*", 7, 3).resource_type is ResourceType.CLUSTER
        with pytest.raises(InvalidRequest, match="kafka-cluster"):
            new_acl(4, "mine", 3, "User:a", "*", 7, 3)

    @pytest.mark.parametrize(
        "numbers", [(0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0), (99, 1, 1, 1)]
    )
    def test_filters_with_unknown_numbers(self, numbers: tuple[int, int, int, int]) -> None:
        kind, pattern, operation, permission = numbers
        with pytest.raises(InvalidRequest):
            new_filter(kind, None, pattern, None, None, operation, permission)
