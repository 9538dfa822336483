"""Tokens for SASL/OAUTHBEARER (RFC 7628): where they come from, and the client's first message.

A token is asked for with the client's credentials (OAuth 2.0, RFC 6749 section 4.4), or read from a file that
something else keeps up to date. It is kept until most of its lifetime is over, because every connection of a
process sends it.
"""

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.client.errors import ClientError
from tidelog.client.settings import OAuthSettings, TlsSettings

_SEPARATOR = b"\x01"
_TIMEOUT_S = 30.0
_USED_SHARE = 0.8  # of a token's lifetime, after which another one is asked for
_LIFETIME_S = 300.0  # of tokens that do not tell
_ATTEMPTS = 3


class NoToken(ClientError):
    """The token's provider refuses, or does not respond."""


class _Token(NamedTuple):
    text: str
    use_until: float  # by time.monotonic()


_tokens: dict[OAuthSettings, _Token] = {}
_lock = threading.Lock()


def first_message(oauth: OAuthSettings, token: str) -> bytes:
    parts = [b"n,,", f"auth=Bearer {token}".encode()]
    parts += [f"{name}={value}".encode() for name, value in oauth.extensions]
    return _SEPARATOR.join([*parts, b"", b""])


def token(oauth: OAuthSettings, tls: TlsSettings | None = None) -> str:
    """A token that is valid for a while. ``tls``: whom to trust besides the system's authorities."""
    with _lock:
        known = _tokens.get(oauth)
        if known is None or time.monotonic() >= known.use_until:
            known = _tokens[oauth] = _new_token(oauth, tls)
        return known.text


def forget(oauth: OAuthSettings) -> None:
    """The broker did not accept it."""
    with _lock:
        _tokens.pop(oauth, None)


def _new_token(oauth: OAuthSettings, tls: TlsSettings | None) -> _Token:
    if oauth.subject is not None:
        return _Token(_unsecured(oauth.subject), time.monotonic() + _USED_SHARE * _LIFETIME_S)
    url = urllib.parse.urlsplit(oauth.token_url)
    if url.scheme == "file":
        # What writes the file decides when the token is replaced.
        return _Token(_from_file(Path(urllib.request.url2pathname(url.path))), time.monotonic())
    response = _asked(oauth, tls)
    text, lifetime_s = response.get("access_token"), response.get("expires_in", _LIFETIME_S)
    if not isinstance(text, str) or not text:
        raise NoToken(f"The response of {oauth.token_url} has no access_token.")
    if not isinstance(lifetime_s, int | float):
        lifetime_s = _LIFETIME_S
    return _Token(text, time.monotonic() + _USED_SHARE * lifetime_s)


def _asked(oauth: OAuthSettings, tls: TlsSettings | None) -> dict[str, Any]:
    fields = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    credentials = base64.b64encode(f"{oauth.client_id}:{oauth.client_secret}".encode()).decode()
    request = urllib.request.Request(
        oauth.token_url,
        urllib.parse.urlencode(fields).encode(),
        {
            "Authorization": f"Basic {credentials}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    failure: object = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(0.1 * 2**attempt)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=_context(tls)) as file:
                response = json.loads(file.read())
                return response if isinstance(response, dict) else {}
        except urllib.error.HTTPError as error:
            failure = f"{error.code} {error.reason}"
            if error.code < 500:
                break
        except (OSError, ValueError) as error:
            failure = error.reason if isinstance(error, urllib.error.URLError) else error
    raise NoToken(f"{oauth.token_url} gives no token to the client {oauth.client_id!r}: {failure}.")


def _context(tls: TlsSettings | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if tls is not None and (tls.trusted_path or tls.trusted):
        context.load_verify_locations(tls.trusted_path, cadata=tls.trusted)
    return context


def _from_file(path: Path) -> str:
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise NoToken(f"The file {path} has no token: {error.strerror}.") from None
    if not text:
        raise NoToken(f"The file {path} has no token: it is empty.")
    return text


def _unsecured(subject: str) -> str:
    """A token without a signature, which brokers accept only for trials."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + _LIFETIME_S}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
