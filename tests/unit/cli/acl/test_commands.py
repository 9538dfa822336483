"""What ``tidelog acl`` makes of its options, and of the rules that a broker lists."""

from types import SimpleNamespace

import pytest

from tidelog.cli.acl import commands
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.errors import ErrorCode
from tidelog.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType


def resource(
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
) -> tuple[ResourceType, str, PatternType] | None:
    return commands._resource(topic, group, transactional_id, cluster)


def test_names_prefixes_and_the_wildcard() -> None:
    assert resource(topic="orders") == (ResourceType.TOPIC, "orders", PatternType.LITERAL)
    assert resource(group="app-*") == (ResourceType.GROUP, "app-", PatternType.PREFIXED)
    assert resource(transactional_id="*") == (ResourceType.TRANSACTIONAL_ID, "*", PatternType.LITERAL)
    assert resource(cluster=True) == (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    assert resource() is None


def test_two_resources_at_a_time_are_refused() -> None:
    with pytest.raises(InvalidCommandLine, match="One resource at a time"):
        resource(topic="orders", cluster=True)


def test_a_listing_of_a_name_finds_every_rule_that_concerns_it() -> None:
    found = commands._filter(resource(topic="orders"), "alice", None, None, None)
    assert found["pattern_type_filter"] is PatternType.MATCH
    assert (found["resource_name_filter"], found["principal_filter"]) == ("orders", "User:alice")
    assert (found["operation"], found["permission_type"]) == (Operation.ANY, Permission.ANY)


def test_a_listing_of_a_prefix_finds_the_rules_of_that_prefix() -> None:
    assert commands._filter(resource(topic="o*"), None, None, None, None)["pattern_type_filter"] is (
        PatternType.PREFIXED
    )


def test_a_removal_names_the_pattern_of_the_rules_themselves() -> None:
    found = commands._filter(resource(topic="orders"), None, None, Operation.READ, PatternType.LITERAL)
    assert (found["pattern_type_filter"], found["operation"]) == (PatternType.LITERAL, Operation.READ)


def test_without_a_resource_all_rules_are_meant() -> None:
    found = commands._filter(None, None, None, None, None)
    assert (found["resource_type_filter"], found["pattern_type_filter"]) == (
        ResourceType.ANY,
        PatternType.ANY,
    )
    assert found["resource_name_filter"] is None


def test_a_principal_without_a_type_is_a_user() -> None:
    assert commands._principal("alice") == "User:alice"
    assert commands._principal("*") == "User:*"
    assert commands._principal("User:alice") == "User:alice"


def test_operations_have_the_words_of_the_help() -> None:
    assert commands._operation("idempotent-write") is Operation.IDEMPOTENT_WRITE
    assert commands._operation("All") is Operation.ALL


@pytest.mark.parametrize("word", ["any", "reed", ""])
def test_other_words_are_no_operation(word: str) -> None:
    with pytest.raises(InvalidCommandLine, match=f"no operation '{word}'"):
        commands._operation(word)


def test_a_listed_rule_can_be_typed_again() -> None:
    acl = SimpleNamespace(
        permission_type=Permission.DENY, principal="User:bob", host="*", operation=Operation.ALTER_CONFIGS
    )
    row = commands._row(ResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED, acl)
    assert row == {
        "permission": "deny", "principal": "User:bob", "host": "*", "operation": "alter-configs",
        "resource": "transactional-id", "name": "tx-*",
    }  # fmt: skip
    assert commands._operation(row["operation"]) is Operation.ALTER_CONFIGS


def test_a_cluster_without_rules_says_what_to_set() -> None:
    with pytest.raises(CommandFailed, match=r"The rule is not added: .* Set authorizer\.class\.name"):
        commands._check(ErrorCode.SECURITY_DISABLED, None, "the rule is not added")
    commands._check(0, None, "the rule is not added")
