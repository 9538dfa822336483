"""Who a client is, by its certificate: the subject in Java's notation, and the rules that make a name of it.

The notation is that of RFC 2253, as Kafka's brokers write it, so that access rules mean the same here: the
parts in reverse order, ``CN=alice,OU=Data,O=Example,C=DE``. The rules are Kafka's
``ssl.principal.mapping.rules``: ``RULE:pattern/replacement/`` with ``L`` or ``U`` behind it for small or
capital letters, and ``DEFAULT``. The first whose pattern matches the whole subject decides. Patterns are
RE2's: the owner of a certificate may have chosen its subject.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog import regex
from tidelog.errors import InvalidConfig, TidelogError
from tidelog.security.principal import USER, Principal

Subject = Sequence[Sequence[tuple[str, str]]]
"""As ``ssl.SSLObject.getpeercert`` has it: relative names in the order of the certificate."""

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "domainComponent": "DC",
    "userId": "UID",
}
_IA5, _PRINTABLE, _UTF8 = 0x16, 0x13, 0x0C
# RFC 2253 has no name for these: Java writes their numbers and their encoded values.
_NUMBERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5),
    "serialNumber": ("2.5.4.5", _PRINTABLE),
    "surname": ("2.5.4.4", _UTF8),
    "title": ("2.5.4.12", _UTF8),
    "givenName": ("2.5.4.42", _UTF8),
    "initials": ("2.5.4.43", _UTF8),
    "dnQualifier": ("2.5.4.46", _PRINTABLE),
    "pseudonym": ("2.5.4.65", _UTF8),
}
_SPECIAL = re.compile(r'([,+"\\<>;])')
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_GROUP = re.compile(r"\$(\d)")


class NoRuleError(TidelogError):
    """No rule matches the subject."""


class Rule(NamedTuple):
    pattern: str  # "" is DEFAULT: the whole subject
    replacement: str
    case: str  # "L", "U" or ""

    def name_of(self, subject: str) -> str | None:
        if not self.pattern:
            return subject
        groups = regex.groups_of(self.pattern, subject)
        if groups is None:
            return None

        def group(match: re.Match[str]) -> str:
            number = int(match[1])
            if number == 0:
                return subject
            # Kafka leaves a reference to a group that the pattern does not have as it is.
            return (groups[number - 1] or "") if number <= len(groups) else match[0]

        name = _GROUP.sub(group, self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


DEFAULT = Rule("", "", "")


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a setting; ``InvalidConfig`` if it is not valid."""
    rules, rest = [], text.strip()
    while rest:
        if rest.startswith("DEFAULT"):
            rule, rest = DEFAULT, rest.removeprefix("DEFAULT")
        else:
            match = _RULE.match(rest)
            if match is None:
                raise _invalid(rest, "it is neither DEFAULT nor RULE:pattern/replacement/")
            rule = Rule(_plain(match[1]), _plain(match[2]), match[3])
            if not rule.pattern:
                raise _invalid(rest, "its pattern is empty")
            try:
                regex.check(rule.pattern)
            except TidelogError as error:
                raise _invalid(rest, error.message) from None
            rest = rest[match.end() :]
        rules.append(rule)
        rest = rest.lstrip(" \t")
        if rest and rest[0] not in ",\n":
            raise _invalid(rest, "rules are separated by commas")
        rest = rest[1:].lstrip()
    return tuple(rules)


def _plain(text: str) -> str:
    """A slash inside a pattern or replacement is written with a backslash."""
    return text.replace("\\/", "/")


def _invalid(text: str, reason: str) -> InvalidConfig:
    return InvalidConfig(f"ssl.principal.mapping.rules: {text[:60]!r} is refused: {reason}.")


def principal_of(subject: Subject, rules: Iterable[Rule]) -> Principal:
    """Who a certificate belongs to; ``NoRuleError`` if no rule matches."""
    text = text_of(subject)
    for rule in rules:
        name = rule.name_of(text)
        if name is not None:
            return Principal(USER, name)
    raise NoRuleError(f"no rule of ssl.principal.mapping.rules matches {text!r}")


def text_of(subject: Subject) -> str:
    """The subject in Java's notation."""
    parts = ("+".join(_part(kind, value) for kind, value in pairs) for pairs in reversed(subject))
    return ",".join(parts)


def _part(kind: str, value: str) -> str:
    short = _SHORT.get(kind)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, tag = _NUMBERS.get(kind, (kind, _UTF8))
    encoded = value.encode()
    return f"{number}=#{bytes((tag, *_length(len(encoded)), *encoded)).hex()}"


def _length(count: int) -> bytes:
    """The length of a value in DER."""
    if count < 0x80:
        return bytes((count,))
    size = (count.bit_length() + 7) // 8
    return bytes((0x80 | size,)) + count.to_bytes(size, "big")


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
