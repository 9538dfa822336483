"""SASL/OAUTHBEARER: tokens from a provider on this machine, and the exchange with a broker that is played."""

import base64
import json
import struct
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tidelog.client import oauth
from tidelog.client.oauth import NoToken
from tidelog.client.sasl import AuthenticationFailed, authenticate
from tidelog.client.settings import OAuthSettings, SaslSettings

SASL_HANDSHAKE = 17
AUTHENTICATION_FAILED = 58


class Provider(HTTPServer):
    """Gives a token to the client ``me`` with the secret ``s:cret``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[dict[str, list[str]]] = []
        self.failures = 0
        self.answer: Any = {"access_token": "token-1", "expires_in": 3600}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        provider = self.server
        assert isinstance(provider, Provider)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        provider.asked.append(urllib.parse.parse_qs(body))
        if provider.failures:
            provider.failures -= 1
            self.send_error(503)
        elif self.headers["Authorization"] != "Basic " + base64.b64encode(b"me:s:cret").decode():
            self.send_error(401, "who is this")
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(provider.answer).encode())

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


class Broker:
    """Its half of the exchange: the token that it accepts."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.extensions: list[bytes] = []

    def call(self, api: int, version: int, body: bytes) -> memoryview:
        if api == SASL_HANDSHAKE:
            assert body[2:] == b"OAUTHBEARER"
            return memoryview(struct.pack(">hi", 0, 0))
        message = body[4:]
        if message == b"\x01":
            reason = b"Invalid token"
            return memoryview(struct.pack(">hh", AUTHENTICATION_FAILED, len(reason)) + reason + b"\xff" * 4)
        head, token, *self.extensions, end, behind = message.split(b"\x01")
        assert (head, end, behind) == (b"n,,", b"", b"")
        refusal = b"" if token == f"auth=Bearer {self.token}".encode() else b'{"status":"invalid_token"}'
        return memoryview(struct.pack(">hhi", 0, -1, len(refusal)) + refusal)


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def sign_in(provider: Provider) -> Callable[..., None]:
    def sign_in(broker: Broker, **changes: Any) -> None:
        given = {"token_url": provider.url, "client_id": "me", "client_secret": "s:cret"} | changes
        settings = SaslSettings("OAUTHBEARER", given["client_id"], "", OAuthSettings(**given))
        authenticate(broker.call, settings)

    return sign_in


def test_a_token_is_asked_for_once_and_sent_to_every_broker(
    provider: Provider, sign_in: Callable[..., None]
) -> None:
    broker = Broker("token-1")
    for _ in range(3):
        sign_in(broker, scope="read write", extensions=(("logicalCluster", "lkc-1"),))
    assert provider.asked == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]
    assert broker.extensions == [b"logicalCluster=lkc-1"]


def test_a_token_is_replaced_before_it_expires(provider: Provider, sign_in: Callable[..., None]) -> None:
    provider.answer = {"access_token": "token-1", "expires_in": 0}
    sign_in(Broker("token-1"))
    provider.answer = {"access_token": "token-2", "expires_in": 3600}
    sign_in(Broker("token-2"))
    assert len(provider.asked) == 2


@pytest.mark.slow
def test_a_provider_that_fails_for_a_moment_is_asked_again(
    provider: Provider, sign_in: Callable[..., None]
) -> None:
    provider.failures = 2
    sign_in(Broker("token-1"))
    assert len(provider.asked) == 3


def test_a_refused_token_is_not_used_again(provider: Provider, sign_in: Callable[..., None]) -> None:
    with pytest.raises(AuthenticationFailed, match="rejected the user 'me': Invalid token"):
        sign_in(Broker("another"))
    provider.answer = {"access_token": "another", "expires_in": 3600}
    sign_in(Broker("another"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"client_secret": "wrong"}, "gives no token to the client 'me': 401 who is this"),
        ({"token_url": "http://127.0.0.1:1/token"}, "127.0.0.1:1/token gives no token.*refused"),
        ({"token_url": "file:///nosuch/token"}, "The file /nosuch/token has no token: No such file"),
    ],
)
def test_no_token_is_one_sentence(sign_in: Callable[..., None], changes: dict[str, str], says: str) -> None:
    with pytest.raises(NoToken, match=says):
        sign_in(Broker("token-1"), **changes)


def test_an_answer_without_a_token(provider: Provider, sign_in: Callable[..., None]) -> None:
    provider.answer = {"error": "no"}
    with pytest.raises(NoToken, match="has no access_token"):
        sign_in(Broker("token-1"))


def test_a_token_in_a_file_is_read_each_time(sign_in: Callable[..., None], tmp_path: Path) -> None:
    file = tmp_path / "token"
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        sign_in(Broker(token), token_url=file.as_uri(), client_id="", client_secret="")


def test_a_token_without_signature_for_trials() -> None:
    text = oauth.token(OAuthSettings(subject="alice"))
    header, claims, signature = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in text.split(".")
    )
    assert json.loads(header) == {"alg": "none"} and signature == b""
    assert json.loads(claims)["sub"] == "alice"


def test_secrets_are_not_in_messages() -> None:
    settings = SaslSettings("OAUTHBEARER", "me", "", OAuthSettings("https://x", "me", "s:cret"))
    assert "s:cret" not in repr(settings) and "s:cret" not in repr(settings.oauth)
