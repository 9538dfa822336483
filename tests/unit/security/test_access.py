"""What a set of access rules permits: cases with the answers of Kafka's StandardAuthorizer."""

import random

import pytest

from tidelog.security.access import AccessTable, all_operations
from tidelog.security.acls import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from tidelog.security.principal import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def rule(text: str) -> Acl:
    """For instance ``allow alice READ orders``, ``deny * ALL topic:or~ from 10.0.0.1``; ``~``: a prefix."""
    words, _, host = text.partition(" from ")
    permission, who, operation, resource = words.split(" ")
    kind, _, name = resource.rpartition(":")
    prefixed = name.endswith("~")
    return Acl(
        ResourceType[(kind or "topic").upper()],
        name.removesuffix("~"),
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        f"User:{who}",
        host or WILDCARD,
        Operation[operation],
        Permission[permission.upper()],
    )


def table(*rules: str, **settings: bool) -> AccessTable:
    made = AccessTable(**settings)  # type: ignore[arg-type]
    made.follow(frozenset(map(rule, rules)))
    return made


# rules; who; operation; resource; whether it is permitted
CASES: list[tuple[list[str], Principal, Operation, str, bool]] = [
    ([], ALICE, Operation.READ, "orders", False),
    (["allow alice READ orders"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ orders"], BOB, Operation.READ, "orders", False),
    (["allow alice READ orders"], ALICE, Operation.WRITE, "orders", False),
    (["allow alice READ orders"], ALICE, Operation.READ, "orders2", False),
    (["allow alice READ orders"], ALICE, Operation.READ, "order", False),
    (["allow alice READ group:orders"], ALICE, Operation.READ, "orders", False),
    # everybody
    (["allow * READ orders"], BOB, Operation.READ, "orders", True),
    (["allow * READ orders"], Principal("Group", "x"), Operation.READ, "orders", True),
    # patterns
    (["allow alice READ *"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ or~"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ orders~"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ orders-~"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ *~"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ *~"], ALICE, Operation.READ, "*x", True),
    # operations
    (["allow alice ALL orders"], ALICE, Operation.ALTER_CONFIGS, "orders", True),
    (["allow alice ALL orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice READ orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice WRITE orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice DELETE orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice ALTER orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice CREATE orders"], ALICE, Operation.DESCRIBE, "orders", False),
    (["allow alice ALTER_CONFIGS orders"], ALICE, Operation.DESCRIBE, "orders", False),
    (["allow alice ALTER_CONFIGS orders"], ALICE, Operation.DESCRIBE_CONFIGS, "orders", True),
    (["allow alice DESCRIBE_CONFIGS orders"], ALICE, Operation.ALTER_CONFIGS, "orders", False),
    (["allow alice ALTER orders"], ALICE, Operation.DESCRIBE_CONFIGS, "orders", False),
    (["allow alice DESCRIBE orders"], ALICE, Operation.READ, "orders", False),
    # deny wins, however it is written
    (["allow alice READ orders", "deny alice READ orders"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ orders", "deny * READ orders"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ orders", "deny alice READ *"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ orders", "deny alice READ o~"], ALICE, Operation.READ, "orders", False),
    (["allow alice ALL orders", "deny alice ALL orders"], ALICE, Operation.READ, "orders", False),
    (["allow alice READ orders", "deny bob READ orders"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ orders", "deny alice WRITE orders"], ALICE, Operation.READ, "orders", True),
    # for deny, nothing is implied
    (["allow alice ALL orders", "deny alice READ orders"], ALICE, Operation.DESCRIBE, "orders", True),
    (["allow alice READ orders", "deny alice DESCRIBE orders"], ALICE, Operation.DESCRIBE, "orders", False),
    (["allow alice READ orders", "deny alice DESCRIBE orders"], ALICE, Operation.READ, "orders", True),
    # hosts
    ([f"allow alice READ orders from {HOST}"], ALICE, Operation.READ, "orders", True),
    (["allow alice READ orders from 10.0.0.2"], ALICE, Operation.READ, "orders", False),
    (
        ["allow alice READ orders", f"deny alice READ orders from {HOST}"],
        ALICE,
        Operation.READ,
        "orders",
        False,
    ),
]


class TestCases:
    @pytest.mark.parametrize(("rules", "who", "operation", "name", "permitted"), CASES)
    def test_of_topics(
        self, rules: list[str], who: Principal, operation: Operation, name: str, permitted: bool
    ) -> None:
        made = table(*rules)
        assert made.permits(who, HOST, operation, TOPIC, name) is permitted
        assert made.permits(who, HOST, operation, TOPIC, name) is permitted  # the kept verdict

    def test_the_host_is_part_of_a_verdict(self) -> None:
        made = table("allow alice READ orders from 10.0.0.2")
        assert not made.permits(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert made.permits(ALICE, "10.0.0.2", Operation.READ, TOPIC, "orders")

    @pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1"])
    def test_addresses_as_java_writes_them(self, written: str) -> None:
        made = table(f"allow alice READ orders from {written}")
        assert made.permits(ALICE, "::1", Operation.READ, TOPIC, "orders")
        assert not made.permits(ALICE, "::2", Operation.READ, TOPIC, "orders")


class TestWithoutRules:
    def test_super_users_may_do_everything(self) -> None:
        made = AccessTable(["User:alice"])
        made.follow(frozenset({rule("deny * ALL orders")}))
        assert made.permits(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert not made.permits(BOB, HOST, Operation.READ, TOPIC, "orders")
        assert not made.permits(Principal("Other", "alice"), HOST, Operation.READ, TOPIC, "orders")

    def test_open_until_there_is_a_rule_of_anybody(self) -> None:
        made = table("allow bob READ orders", "allow bob READ pre~", open_without_rules=True)
        assert made.permits(ALICE, HOST, Operation.WRITE, TOPIC, "invoices")
        assert not made.permits(ALICE, HOST, Operation.WRITE, TOPIC, "orders")
        assert not made.permits(ALICE, HOST, Operation.WRITE, TOPIC, "prefix")
        assert made.permits(ALICE, HOST, Operation.WRITE, GROUP, "orders")
        assert not table("allow bob READ *", open_without_rules=True).permits(
            ALICE, HOST, Operation.READ, TOPIC, "x"
        )


class TestAnyResource:
    @pytest.mark.parametrize(
        ("rules", "permitted"),
        [
            ([], False),
            (["allow alice WRITE orders"], True),
            (["allow alice WRITE or~"], True),
            (["allow alice WRITE *"], True),
            (["allow alice ALL orders"], True),
            (["allow alice READ orders"], False),
            (["allow bob WRITE orders"], False),
            (["allow * WRITE orders"], True),
            (["allow alice WRITE group:orders"], False),
            (["allow alice WRITE orders from 10.0.0.9"], False),
            (["allow alice WRITE orders", "deny alice WRITE orders"], False),
            (["allow alice WRITE orders", "deny alice ALL *"], False),
            (["allow alice WRITE orders", "deny alice WRITE or~"], False),
            (["allow alice WRITE orders", "deny alice WRITE orders~"], False),
            (["allow alice WRITE or~", "deny alice WRITE orders"], True),
            (["allow alice WRITE or~", "deny alice WRITE o~"], False),
            (["allow alice WRITE or~", "deny alice WRITE or~"], False),
            (["allow alice WRITE or~", "deny alice WRITE ord~"], True),
            (["allow alice WRITE *", "deny alice WRITE o~"], True),
            (["allow alice WRITE orders", "deny bob WRITE orders"], True),
        ],
    )
    def test_cases(self, rules: list[str], permitted: bool) -> None:
        assert table(*rules).permits_any(ALICE, HOST, Operation.WRITE, TOPIC) is permitted

    def test_super_users_and_open_clusters(self) -> None:
        assert AccessTable(["User:alice"]).permits_any(ALICE, HOST, Operation.WRITE, TOPIC)
        assert AccessTable(open_without_rules=True).permits_any(ALICE, HOST, Operation.WRITE, TOPIC)


class TestChanges:
    def test_a_kept_verdict_ends_with_the_rules(self) -> None:
        made = table()
        assert not made.permits(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert not made.permits_any(ALICE, HOST, Operation.READ, TOPIC)
        made.follow(frozenset({rule("allow alice READ orders")}))
        assert made.permits(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert made.permits_any(ALICE, HOST, Operation.READ, TOPIC)
        made.follow(frozenset())
        assert not made.permits(ALICE, HOST, Operation.READ, TOPIC, "orders")
        assert not made.permits_any(ALICE, HOST, Operation.READ, TOPIC)

    def test_after_any_changes_it_is_like_a_fresh_table(self) -> None:
        chance = random.Random(7)
        words = [
            rule(f"{permission} {who} {operation} {resource}")
            for permission in ("allow", "deny")
            for who in ("alice", "bob", "*")
            for operation in ("READ", "ALL", "ALTER")
            for resource in ("orders", "*", "o~", "or~", "group:orders", "group:o~")
        ]
        changed = AccessTable()
        for _ in range(200):
            acls = frozenset(chance.sample(words, chance.randrange(8)))
            changed.follow(acls)
            fresh = AccessTable()
            fresh.follow(acls)
            for name in ("orders", "order", "o", "x"):
                for kind in (TOPIC, GROUP):
                    for operation in (Operation.READ, Operation.DESCRIBE, Operation.ALTER):
                        asked = (ALICE, HOST, operation, kind, name)
                        assert changed.permits(*asked) == fresh.permits(*asked), (acls, asked)
                        assert changed.permits_any(*asked[:4]) == fresh.permits_any(*asked[:4])

    def test_the_kept_verdicts_are_bounded(self) -> None:
        from tidelog.security import access

        made = table("allow alice READ *")
        for number in range(access.VERDICTS_MAX + 10):
            made.permits(ALICE, HOST, Operation.READ, TOPIC, f"t{number}")
        assert len(made._verdicts) <= access.VERDICTS_MAX
        made.permits(ALICE, HOST, Operation.READ, GROUP, "g" * 30_000)
        assert all(len(key[4] or "") <= access.LONG_NAME for key in made._verdicts)


class TestAuthorizedOperations:
    def test_as_a_bit_field(self) -> None:
        made = table("allow alice READ orders")
        expected = 1 << Operation.READ | 1 << Operation.DESCRIBE
        assert made.operations(ALICE, HOST, TOPIC, "orders") == expected
        assert made.operations(BOB, HOST, TOPIC, "orders") == 0

    @pytest.mark.parametrize(("kind", "bits"), [(TOPIC, 0xDF8), (GROUP, 0xD48), (CLUSTER, 0x1FA0)])
    def test_all(self, kind: ResourceType, bits: int) -> None:
        assert all_operations(kind) == bits
        assert AccessTable(["User:alice"]).operations(ALICE, HOST, kind, "x") == bits
