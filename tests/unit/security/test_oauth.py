"""Tokens: which are accepted, whatever they say of themselves."""

import base64
import contextlib
import json
import time
from typing import Any

import pytest

from tidelog.security import oauth
from tidelog.security.oauth import INVALID, Key, OAuthLogin, TokenRules, check_token
from tidelog.security.sasl import LoginRefused

NOW = 1_000_000.0
RULES = TokenRules("me", frozenset({"us"}), 30)


class Fake:
    """A key whose signatures are the signed bytes themselves."""

    algorithms = frozenset({"RS256"})

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        return algorithm in self.algorithms and signature == signed[::-1]


KEYS: dict[str, Key] = {"k": Fake(), "other": Fake()}


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(header: Any = None, signature: bytes | None = None, **claims: Any) -> bytes:
    given = {"sub": "alice", "iss": "me", "aud": "us", "exp": NOW + 60, **claims}
    body = {name: value for name, value in given.items() if value is not None}
    head = {"alg": "RS256", "kid": "k"} if header is None else header
    signed = b".".join(encoded(json.dumps(part).encode()) for part in (head, body))
    return signed + b"." + encoded(signed[::-1] if signature is None else signature)


@pytest.mark.parametrize(
    "claims",
    [{}, {"aud": ["them", "us"]}, {"exp": NOW - 29}, {"nbf": NOW + 29}, {"iat": NOW}, {"exp": NOW + 0.5}],
)
def test_good_tokens(claims: dict[str, Any]) -> None:
    assert check_token(token(**claims), KEYS, RULES, NOW).user == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 31}, "expired"),
        ({"exp": None}, "never expires"),
        ({"exp": True}, "invalid exp"),
        ({"exp": "9"}, "invalid exp"),
        ({"exp": 1e300}, "invalid exp"),
        ({"exp": -1}, "invalid exp"),
        ({"nbf": NOW + 31}, "valid in"),
        ({"iat": NOW + 31}, "valid in"),
        ({"iss": "you"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": ["me"]}, "issuer"),
        ({"aud": "them"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": [["us"]]}, "audience"),
        ({"aud": {"us": 1}}, "audience"),
        ({"sub": None}, "name"),
        ({"sub": " "}, "name"),
        ({"sub": ["alice"]}, "name"),
        ({"sub": "a" * 256}, "name"),
        ({"header": {"alg": "none", "kid": "k"}}, "signed with"),
        ({"header": {"alg": "HS256", "kid": "k"}}, "signed with"),
        ({"header": {"alg": ["RS256"], "kid": "k"}}, "signed with"),
        ({"header": {"kid": "k"}}, "signed with"),
        ({"header": {"alg": "RS256", "kid": "unknown"}}, "unknown key"),
        ({"header": {"alg": "RS256", "kid": ["k"]}}, "unknown key"),
        ({"header": {"alg": "RS256"}}, "unknown key"),
        ({"header": {"alg": "RS256", "kid": "k", "crit": ["exp"]}}, "understood"),
        ({"header": []}, "no signed JWT"),
        ({"signature": b""}, "wrong signature"),
        ({"signature": b"x"}, "wrong signature"),
    ],
)
def test_bad_tokens(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason):
        check_token(token(**claims), KEYS, RULES, NOW)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"..",
        b"a.b",
        b"a.b.c.d",
        b"!.!.!",
        b"e30.e30.",
        b"W10.W10.W10",
        encoded(b"[" * 100_000) + b".e30.e30",
    ],
)
def test_what_is_no_token(text: bytes) -> None:
    with pytest.raises(LoginRefused):
        check_token(text, KEYS, RULES, NOW)


def test_nothing_but_the_header_is_parsed_before_the_signature_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[bytes] = []

    def note(part: bytes) -> Any:
        parsed.append(part)
        return original(part)

    original = oauth._object
    monkeypatch.setattr(oauth, "_object", note)
    given = token(signature=b"x")
    with pytest.raises(LoginRefused, match="wrong signature"):
        check_token(given, KEYS, RULES, NOW)
    assert parsed == [given.split(b".")[0]]


def test_a_changed_token_has_a_wrong_signature() -> None:
    header, _, signature = token().split(b".")
    _, body, _ = token(sub="admin").split(b".")
    with pytest.raises(LoginRefused, match="wrong signature"):
        check_token(b".".join((header, body, signature)), KEYS, RULES, NOW)


def test_one_key_needs_no_name() -> None:
    assert check_token(token({"alg": "RS256"}), {"k": Fake()}, RULES, NOW).user == "alice"


class TestLogin:
    def login(self) -> OAuthLogin:
        return OAuthLogin(KEYS, RULES, NOW)

    @pytest.mark.parametrize(
        "message",
        [b"n,,\x01auth=Bearer %s\x01\x01", b"n,a=alice,\x01auth=Bearer %s\x01\x01",
         b"n,,\x01auth=bearer %s\x01traceId=7\x01\x01", b"n,,\x01host=x\x01auth=Bearer %s\x01\x01"],
    )  # fmt: skip
    def test_a_good_message(self, message: bytes) -> None:
        login = self.login()
        assert login.step(message % token()) == b""
        assert login.user == "alice"
        assert login.expires_ms == (NOW + 60) * 1000

    @pytest.mark.parametrize(
        "message", [b"n,,\x01auth=Bearer %s\x01\x01", b"n,a=bob,\x01auth=Bearer %s\x01\x01"]
    )
    def test_a_refused_token_is_told_and_acknowledged(self, message: bytes) -> None:
        login = self.login()
        bad = token(exp=NOW - 100) if b"bob" not in message else token()
        assert login.step(message % bad) == INVALID
        assert login.user is None
        with pytest.raises(LoginRefused):
            login.step(b"\x01")
        assert login.user is None

    @pytest.mark.parametrize(
        "message",
        [b"", b"n,,", b"n,,\x01", b"n,,\x01\x01", b"n,,\x01auth=Bearer %s\x01", b"n,,\x01auth=Bearer %s",
         b"n,,\x01auth=Basic %s\x01\x01", b"n,,\x01auth=Bearer\x01\x01", b"n,,auth=Bearer %s\x01\x01",
         b"n,,\x01auth=Bearer %s\x01x\x01\x01", b"n,,\x01auth=Bearer %s\x01auth=Bearer %s\x01\x01",
         b"n,,\x01\x01auth=Bearer %s\x01\x01", b"p=x,,\x01auth=Bearer %s\x01\x01",
         b"n,,\x01auth=Bearer %s\x01" + b"a=b\x01" * 100 + b"\x01"],
    )  # fmt: skip
    def test_an_invalid_message(self, message: bytes) -> None:
        with pytest.raises(LoginRefused, match="OAUTHBEARER"):
            self.login().step(message.replace(b"%s", token()))

    @pytest.mark.parametrize(
        "message",
        [b"n,,\x01" + b"auth=Bearer x\x01" * 37_000, b"n,,\x01" + b"a=b\x01" * 120_000,
         b"n,,\x01auth=Bearer " + b"a." * 250_000 + b"\x01\x01",
         b"n,,\x01auth=Bearer " + encoded(b"[" + b"{}," * 120_000) + b".a.b\x01\x01"],
    )  # fmt: skip
    def test_a_long_message_of_a_stranger_takes_no_time(self, message: bytes) -> None:
        """Half a megabyte, which anybody can send, held the event loop for half a minute."""
        began = time.thread_time()
        with contextlib.suppress(LoginRefused):
            self.login().step(message)
        assert time.thread_time() - began < 0.2

    def test_after_a_refusal_no_better_token_is_taken(self) -> None:
        login = self.login()
        login.step(b"n,,\x01auth=Bearer %s\x01\x01" % token(sub=None))
        with pytest.raises(LoginRefused):
            login.step(b"n,,\x01auth=Bearer %s\x01\x01" % token())
        assert login.user is None

    @pytest.mark.parametrize(
        "message",
        [b"", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"y,,\x01auth=Bearer x\x01\x01",
         b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01auth=Bearer x\x01", b"n,,\x01" + b"a=b\x01" * 50_000],
    )  # fmt: skip
    def test_bad_messages(self, message: bytes) -> None:
        with pytest.raises(LoginRefused):
            self.login().step(message)
