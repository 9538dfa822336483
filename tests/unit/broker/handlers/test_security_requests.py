"""Users, access rules and quotas over the protocol."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from tidelog.security.scram import ScramMechanism, credential_of_password
from unit.broker.fakes import FakeBroker

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")


def creation(name: str = "orders", **more: Any) -> dict[str, Any]:
    return {
        "resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:a",
        "host": "*", "operation": 3, "permission_type": 3, **more,
    }  # fmt: skip


def a_filter(**more: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1, **more,
    }  # fmt: skip


class TestAcls:
    def test_created_described_and_deleted(self, broker: FakeBroker) -> None:
        made = broker.call("create_acls", creations=[creation(), creation(operation=4), creation("invoices")])
        assert [result.error_code for result in made.results] == [0, 0, 0]
        found = broker.call("describe_acls", **a_filter())
        assert [(each.resource_name, len(each.acls)) for each in found.resources] == [
            ("invoices", 1),
            ("orders", 2),
        ]
        gone = broker.call("delete_acls", filters=[a_filter(resource_name_filter="orders"), a_filter()])
        assert [len(each.matching_acls) for each in gone.filter_results] == [2, 1]
        assert broker.call("describe_acls", **a_filter()).resources == ()

    def test_one_bad_rule_does_not_refuse_the_others(self, broker: FakeBroker) -> None:
        made = broker.call("create_acls", creations=[creation(principal="a"), creation(), creation("")])
        assert [result.error_code for result in made.results] == [
            ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST
        ]  # fmt: skip
        assert len(broker.store.image.security.acls) == 1

    def test_many(self, broker: FakeBroker) -> None:
        made = broker.call("create_acls", creations=[creation(f"t{number}") for number in range(1000)])
        assert {result.error_code for result in made.results} == {0}
        assert len(broker.store.image.security.acls) == 1000

    def test_unknown_numbers_in_filters(self, broker: FakeBroker) -> None:
        assert broker.call("describe_acls", **a_filter(operation=0)).error_code == ErrorCode.INVALID_REQUEST
        gone = broker.call("delete_acls", filters=[a_filter(resource_type_filter=77), a_filter()])
        assert [each.error_code for each in gone.filter_results] == [ErrorCode.INVALID_REQUEST, 0]

    def test_version_1_knows_only_literal_patterns_by_default(self, broker: FakeBroker) -> None:
        made = broker.call("create_acls", 1, creations=[creation()])
        assert made.results[0].error_code == 0
        assert broker.call("describe_acls", 1, **a_filter()).resources[0].pattern_type == 3

    def test_without_an_authorizer(self) -> None:
        broker = FakeBroker()
        assert broker.call("describe_acls", **a_filter()).error_code == ErrorCode.SECURITY_DISABLED
        made = broker.call("create_acls", creations=[creation()])
        assert made.results[0].error_code == ErrorCode.SECURITY_DISABLED
        gone = broker.call("delete_acls", filters=[a_filter()])
        assert gone.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
        assert not broker.store.image.security.acls


def upsertion(name: str = "alice", mechanism: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "mechanism": mechanism, "iterations": 4096, "salt": b"s", "salted_password": b"p",
        **more,
    }  # fmt: skip


def alter(broker: FakeBroker, *upsertions: dict[str, Any], delete: Any = ()) -> dict[str, int]:
    answer = broker.call("alter_user_scram_credentials", deletions=list(delete), upsertions=list(upsertions))
    return {result.user: result.error_code for result in answer.results}


class TestUsers:
    def test_set_and_deleted(self, broker: FakeBroker) -> None:
        assert alter(broker, upsertion(), upsertion(mechanism=2), upsertion("bob")) == {"alice": 0, "bob": 0}
        found = broker.call("describe_user_scram_credentials", users=None)
        assert [(each.user, len(each.credential_infos)) for each in found.results] == [
            ("alice", 2),
            ("bob", 1),
        ]
        assert alter(broker, delete=[{"name": "alice", "mechanism": 1}]) == {"alice": 0}
        (left,) = broker.call("describe_user_scram_credentials", users=[{"name": "alice"}]).results
        assert [(info.mechanism, info.iterations) for info in left.credential_infos] == [(2, 4096)]

    def test_the_credential_is_that_of_the_password(self, broker: FakeBroker) -> None:
        import hashlib

        salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"s", 4096)
        alter(broker, upsertion(salted_password=salted))
        expected = credential_of_password(ScramMechanism.SCRAM_SHA_256, "secret", b"s", 4096)
        assert broker.store.image.security.scram[ScramMechanism.SCRAM_SHA_256, "alice"] == expected

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(mechanism=7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
            (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
            (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ],
    )
    def test_refused(self, broker: FakeBroker, change: dict[str, Any], code: ErrorCode) -> None:
        assert alter(broker, change, upsertion("bob")) == {change["name"]: code, "bob": 0}
        assert list(broker.store.image.security.scram) == [(1, "bob")]

    def test_twice_in_one_request(self, broker: FakeBroker) -> None:
        duplicate = ErrorCode.DUPLICATE_RESOURCE
        assert alter(broker, upsertion(), upsertion()) == {"alice": duplicate}
        assert alter(broker, upsertion(), delete=[{"name": "alice", "mechanism": 1}]) == {"alice": duplicate}
        assert not broker.store.image.security.scram
        found = broker.call("describe_user_scram_credentials", users=[{"name": "a"}, {"name": "a"}])
        assert [each.error_code for each in found.results] == [duplicate]

    def test_unknown_users(self, broker: FakeBroker) -> None:
        missing = ErrorCode.RESOURCE_NOT_FOUND
        assert alter(broker, delete=[{"name": "alice", "mechanism": 1}]) == {"alice": missing}
        found = broker.call("describe_user_scram_credentials", users=[{"name": "alice"}])
        assert [each.error_code for each in found.results] == [missing]


def entry(*entity: tuple[str, str | None], **limits: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits.items()
        ],
    }


def alter_quotas(broker: FakeBroker, *entries: dict[str, Any], validate_only: bool = False) -> list[int]:
    answer = broker.call("alter_client_quotas", entries=list(entries), validate_only=validate_only)
    return [each.error_code for each in answer.entries]


def described(broker: FakeBroker, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    answer = broker.call(
        "describe_client_quotas",
        components=[
            {"entity_type": kind, "match_type": match_type, "match": match}
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    if answer.error_code:
        return answer.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


class TestQuotas:
    ALICE = entry(("user", "alice"), producer_byte_rate=1024)
    EVERY_CLIENT = entry(("user", "alice"), ("client-id", None), consumer_byte_rate=10)
    DEFAULT = entry(("user", None), request_percentage=50)

    def test_set_and_removed(self, broker: FakeBroker) -> None:
        assert alter_quotas(broker, self.ALICE) == [0]
        assert described(broker) == {(("user", "alice"),): {"producer_byte_rate": 1024.0}}
        assert alter_quotas(broker, entry(("user", "alice"), producer_byte_rate=None)) == [0]
        assert described(broker) == {}

    def test_filters(self, broker: FakeBroker) -> None:
        assert alter_quotas(broker, self.ALICE, self.EVERY_CLIENT, self.DEFAULT) == [0, 0, 0]
        alice, default = (("user", "alice"),), (("user", None),)
        both = (("client-id", None), ("user", "alice"))
        assert set(described(broker, ("user", 0, "alice"))) == {alice, both}
        assert set(described(broker, ("user", 0, "alice"), strict=True)) == {alice}
        assert set(described(broker, ("user", 1, None))) == {default}
        assert set(described(broker, ("user", 2, None))) == {alice, both, default}
        assert set(described(broker, ("client-id", 1, None))) == {both}
        assert set(described(broker, ("ip", 2, None))) == set()

    @pytest.mark.parametrize(
        "component", [("user", 7, None), ("user", 0, None), ("user", 1, "a"), ("user", 2, "a")]
    )
    def test_bad_filters(self, broker: FakeBroker, component: tuple[str, int, str | None]) -> None:
        assert described(broker, component) == ErrorCode.INVALID_REQUEST

    def test_more_bad_filters(self, broker: FakeBroker) -> None:
        assert described(broker, ("shoe-size", 2, None)) == ErrorCode.UNSUPPORTED_VERSION
        assert described(broker, ("user", 2, None), ("user", 2, None)) == ErrorCode.INVALID_REQUEST
        assert described(broker, ("user", 2, None), ("ip", 2, None)) == ErrorCode.INVALID_REQUEST

    def test_refusals_and_validation(self, broker: FakeBroker) -> None:
        twice = self.ALICE | {"ops": self.ALICE["ops"] * 2}
        bad = ErrorCode.INVALID_REQUEST
        assert alter_quotas(broker, twice, entry(("user", "b"), producer_byte_rate=-1)) == [bad, bad]
        assert alter_quotas(broker, self.ALICE, entry(), validate_only=True) == [0, bad]
        assert described(broker) == {}
