"""Who a client is by its certificate."""

import pytest

from tidelog.errors import InvalidConfig
from tidelog.security.principal import Principal
from tidelog.security.subjects import NoRuleError, Subject, parse_rules, principal_of, text_of

ALICE: Subject = (
    (("countryName", "DE"),),
    (("organizationName", "Example"),),
    (("organizationalUnitName", "Data"),),
    (("commonName", "Alice"),),
)


def name(subject: Subject, rules: str) -> str:
    return principal_of(subject, parse_rules(rules)).name


def test_a_subject_is_written_as_java_writes_it() -> None:
    assert text_of(ALICE) == "CN=Alice,OU=Data,O=Example,C=DE"


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ((("commonName", 'a,b+c"d\\e<f>g;h'),), 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ((("commonName", "#a"),), "CN=\\#a"),
        ((("commonName", " a "),), "CN=\\ a\\ "),
        ((("commonName", "a"), ("userId", "b")), "CN=a+UID=b"),
        ((("emailAddress", "a@b"),), "1.2.840.113549.1.9.1=#1603614062"),
        ((("1.2.3.4", "x"),), "1.2.3.4=#0c0178"),
        ((("emailAddress", "a" * 200),), "1.2.840.113549.1.9.1=#1681c8" + "61" * 200),
    ],
)
def test_special_values(pairs: tuple[tuple[str, str], ...], text: str) -> None:
    assert text_of((pairs,)) == text


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "CN=Alice,OU=Data,O=Example,C=DE"),
        ("RULE:^CN=([^,]+).*$/$1/", "Alice"),
        ("RULE:^CN=([^,]+).*$/$1/L", "alice"),
        ("RULE:^CN=([^,]+).*$/$1/U", "ALICE"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "Alice@Data"),
        ("RULE:^CN=(.*?),OU=Other,.*$/$1/,RULE:^.*O=(.*?),.*$/$1/L,DEFAULT", "example"),
        ("RULE:^CN=Bob$/bob/ , DEFAULT", "CN=Alice,OU=Data,O=Example,C=DE"),
        ("RULE:CN=Alice/alice/,DEFAULT", "CN=Alice,OU=Data,O=Example,C=DE"),  # the whole subject has to match
        ("RULE:^CN=([^,]+).*$/a\\/$1\\/$2/", "a/Alice/$2"),
        ("RULE:^CN=([^,]+).*$/$0/", "CN=Alice,OU=Data,O=Example,C=DE"),
    ],
)
def test_rules(rules: str, expected: str) -> None:
    assert name(ALICE, rules) == expected


def test_a_principal_is_a_user() -> None:
    assert principal_of(ALICE, parse_rules("DEFAULT")) == Principal("User", "CN=Alice,OU=Data,O=Example,C=DE")


def test_without_a_matching_rule_there_is_no_principal() -> None:
    with pytest.raises(NoRuleError, match="CN=Alice"):
        name(ALICE, "RULE:^CN=Bob$/bob/")


def test_a_slash_in_a_subject_is_written_with_a_backslash_in_the_rule() -> None:
    assert name(((("commonName", "kafka/host"),),), "RULE:^CN=kafka\\/(.*)$/$1/") == "host"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("CN=alice", "neither DEFAULT nor RULE"),
        ("RULE:^CN=(.*)$", "neither DEFAULT nor RULE"),
        ("RULE://x/", "its pattern is empty"),
        ("RULE:(/x/", "missing"),
        ("RULE:^(a)\\1$/x/", "invalid"),
        ("DEFAULT DEFAULT", "separated by commas"),
        ("RULE:^CN=(.*)$/$1/LX", "separated by commas"),
    ],
)
def test_bad_rules(rules: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_rules(rules)
    assert words in caught.value.message


def test_a_rule_takes_linear_time_whatever_the_subject_is() -> None:
    # Python's re would take years.
    subject: Subject = ((("commonName", "a" * 60 + "!"),),)
    assert name(subject, "RULE:^CN=(a+)+$/x/,DEFAULT").startswith("CN=aaa")
