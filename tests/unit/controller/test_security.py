"""Users, access rules and quotas in the metadata."""

from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import (
    ClientQuotaChanged,
    ClusterFounded,
    GroupConfigChanged,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    decode,
    encode,
)
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tidelog.security.quota_entities import QuotaEntity
from tidelog.security.scram import ScramCredential, ScramMechanism

SHA256, SHA512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
CREDENTIAL = ScramCredential(b"salt\xff", b"\x00stored", b"server\x80", 4096)
ALICE: QuotaEntity = (("client-id", None), ("user", "alice"))
RULE = Acl(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
)


def an_image() -> ClusterImage:
    empty = ClusterImage().apply([ClusterFounded("c")])
    return empty.apply(
        [
            *security.change_credential("alice", SHA256, CREDENTIAL),
            *security.change_credential("bob", SHA512, CREDENTIAL),
            *security.add_acls(empty.security, [RULE, RULE._replace(host="::1")]),
            ClientQuotaChanged(ALICE, {"producer_byte_rate": 1024.0}),
        ]
    )


class TestImage:
    def test_what_records_add_up_to(self) -> None:
        image = an_image().security
        assert image.scram == {(SHA256, "alice"): CREDENTIAL, (SHA512, "bob"): CREDENTIAL}
        assert image.credential(SHA256, "alice") == CREDENTIAL
        assert image.credential(SHA256, "bob") is None
        assert image.acls == {RULE, RULE._replace(host="::1")}
        assert image.quotas == {ALICE: {"producer_byte_rate": 1024.0}}

    def test_a_snapshot_has_all_of_it(self) -> None:
        assert image_of(texts_of(an_image())) == an_image()

    def test_a_snapshot_without_any_is_the_one_of_older_versions(self) -> None:
        assert not [text for text in texts_of(ClusterImage()) if b"security" in text]

    def test_it_stays_the_same_object_while_other_things_change(self) -> None:
        before = an_image()
        after = before.apply([GroupConfigChanged("g", {"a": "b"})])
        assert after.security is before.security
        assert before.apply([ScramCredentialRemoved("alice", "SCRAM-SHA-256")]).security != before.security

    def test_an_older_image_is_not_changed(self) -> None:
        before = an_image()
        _, records = security.remove_acls(before.security, AclFilter())
        assert before.apply(records).security.acls == frozenset()
        assert len(before.security.acls) == 2

    def test_records_survive_their_encoding(self) -> None:
        records = [
            *security.change_credential("ü", SHA512, CREDENTIAL),
            ClientQuotaChanged(ALICE, {"producer_byte_rate": 0.1, "consumer_byte_rate": None}),
            *security.add_acls(ClusterImage().security, [RULE]),
        ]
        assert [decode(encode(record)) for record in records] == records

    def test_no_keys_in_texts_about_a_record(self) -> None:
        record = ScramCredentialChanged("alice", "SCRAM-SHA-256", 4096, b"pepper", b"keykey", b"other")
        for secret in ("pepper", "keykey", "other"):
            assert secret not in repr(record)
            assert secret not in repr(an_image())


class TestDecisions:
    def test_a_rule_is_added_once(self) -> None:
        empty = ClusterImage().security
        assert len(security.add_acls(empty, [RULE, RULE])) == 1
        assert security.add_acls(an_image().security, [RULE]) == []

    def test_rules_are_removed_by_filter(self) -> None:
        image = an_image()
        selected, records = security.remove_acls(image.security, AclFilter(host="::1"))
        assert selected == [RULE._replace(host="::1")]
        assert image.apply(records).security.acls == {RULE}

    def test_a_quota_without_limits_is_gone(self) -> None:
        image = an_image()
        records = security.change_quota(image.security, ALICE, {"producer_byte_rate": None})
        assert image.apply(records).security.quotas == {}

    def test_an_unchanged_limit_needs_no_record(self) -> None:
        image = an_image().security
        assert not security.change_quota(
            image, ALICE, {"producer_byte_rate": 1024.0, "request_percentage": None}
        )
