"""The server's side of OAUTHBEARER (RFC 7628) with signed tokens (JWT, RFC 7519).

What it owns: the client's message, and which tokens are accepted. It does not know how signatures are
computed: keys come in as objects that verify. A token says itself by which algorithm it is signed. Only the
algorithms of the key that it names are tried, and never none: otherwise any client could sign with a public
key, which is no secret.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tidelog.security.sasl import LoginRefused

NAME = "OAUTHBEARER"
INVALID = json.dumps({"status": "invalid_token"}).encode()
_HEADER = re.compile(rb"n,(?:a=([^,]*))?,")
_PAIR = re.compile(rb"[A-Za-z]+=.*", re.S)
_BEARER = re.compile(rb"auth=[Bb]earer +([\w.~+/=-]+)")
NAME_CHARACTERS_MAX = 255
HEADER_BYTES_MAX = 4096  # of a token's header, the only part that is parsed before the signature is known
PAIRS_MAX = 100  # of a message


class Key(Protocol):
    """A public key of the issuer of tokens."""

    @property
    def algorithms(self) -> frozenset[str]:
        """Names of RFC 7518 by which it may have signed."""

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool: ...


class TokenRules(NamedTuple):
    issuer: str | None = None
    audiences: frozenset[str] = frozenset()  # One of them has to be the token's. Empty: any, or none.
    clock_skew_s: float = 30.0
    user_claim: str = "sub"
    scope_claim: str = "scope"


class Token(NamedTuple):
    user: str
    expires_s: float  # seconds since 1970


def check_token(text: bytes, keys: Mapping[str, Key], rules: TokenRules, now_s: float) -> Token:
    """Raises :class:`LoginRefused`."""
    parts = text.split(b".", 3)
    if len(parts) != 3 or len(parts[0]) > HEADER_BYTES_MAX:
        raise LoginRefused("a token that is no signed JWT")
    header = _object(parts[0])
    key = _key_of(header, keys)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in key.algorithms:
        raise LoginRefused(f"a token signed with {str(algorithm)[:20]!r}, which its key does not allow")
    if header.get("crit"):
        raise LoginRefused("a token with extensions that have to be understood")
    if not key.verifies(algorithm, text[: text.rindex(b".")], _decoded(parts[2])):
        raise LoginRefused("a token with a wrong signature")
    return _checked(_object(parts[1]), rules, now_s)


def _checked(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Token:
    expires_s = _time(claims, "exp")
    if expires_s is None:
        raise LoginRefused("a token that never expires")
    if now_s >= expires_s + rules.clock_skew_s:
        raise LoginRefused(f"a token that expired {now_s - expires_s:.0f} s ago")
    for claim in ("nbf", "iat"):
        begins_s = _time(claims, claim)
        if begins_s is not None and now_s < begins_s - rules.clock_skew_s:
            raise LoginRefused(f"a token that is valid in {begins_s - now_s:.0f} s only ({claim})")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise LoginRefused("a token of another issuer")
    given = claims.get("aud")
    audiences = given if isinstance(given, list) else [given]
    if rules.audiences and not any(isinstance(each, str) and each in rules.audiences for each in audiences):
        raise LoginRefused("a token for another audience")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip() or len(user) > NAME_CHARACTERS_MAX:
        raise LoginRefused(f"a token without a name in {rules.user_claim!r}")
    return Token(user, expires_s)


def _key_of(header: Mapping[str, Any], keys: Mapping[str, Key]) -> Key:
    name = header.get("kid")
    if name is None and len(keys) == 1:
        return next(iter(keys.values()))
    key = keys.get(name) if isinstance(name, str) else None
    if key is None:
        raise LoginRefused(f"a token signed by an unknown key ({str(name)[:40]!r})")
    return key


def _time(claims: Mapping[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise LoginRefused(f"a token with an invalid {claim}")
    return float(value)


def _object(part: bytes) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        raise LoginRefused("a token that is no signed JWT") from None
    if not isinstance(found, dict):
        raise LoginRefused("a token that is no signed JWT")
    return found


def _decoded(part: bytes) -> bytes:
    try:
        return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise LoginRefused("a token that is no signed JWT") from None


def _token_of(message: bytes) -> tuple[bytes | None, bytes]:
    """As whom the client wants to act, and its token. Raises :class:`LoginRefused`.

    By hand: any client can send this message, and the time that one regular expression for all of it takes
    grows with the square of its length.
    """
    header, *pairs = message.split(b"\x01", PAIRS_MAX + 2)
    acting_as = _HEADER.fullmatch(header)
    if acting_as is None or pairs[-2:] != [b"", b""] or not all(map(_PAIR.fullmatch, pairs[:-2])):
        raise LoginRefused("an invalid OAUTHBEARER message")
    found = [match[1] for match in map(_BEARER.fullmatch, pairs[:-2]) if match is not None]
    if len(found) != 1:
        raise LoginRefused("an OAUTHBEARER message without a token, or with several")
    return acting_as[1], found[0]


class OAuthLogin:
    """One login. A token that is not accepted is answered with a challenge, which the client acknowledges."""

    is_slow = False

    def __init__(self, keys: Mapping[str, Key], rules: TokenRules, now_s: float) -> None:
        self._keys = keys
        self._rules = rules
        self._now_s = now_s
        self._refusal: LoginRefused | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None

    def step(self, message: bytes) -> bytes:
        if self._refusal is not None:
            raise self._refusal
        acting_as, text = _token_of(message)
        try:
            token = check_token(text, self._keys, self._rules, self._now_s)
            if acting_as and acting_as.decode("utf-8", "replace") != token.user:
                raise LoginRefused("the client wants to act as another user", token.user)
        except LoginRefused as refusal:
            self._refusal = refusal
            return INVALID
        self.user = token.user
        self.expires_ms = round(token.expires_s * 1000)
        return b""
