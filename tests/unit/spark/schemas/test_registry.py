"""The client of a schema registry: what it asks, keeps, retries and refuses."""

import json
import os
import pickle
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from spark.registry_server import RegistryServer, running_registry
from tidelog.spark.options import OptionError
from tidelog.spark.schemas import registry as module
from tidelog.spark.schemas.errors import RegistryUnavailable
from tidelog.spark.schemas.registry import Reference, Registry, RegistrySettings

STRING = '"string"'


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running_registry() as running:
        yield running


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BACKOFF_SECONDS", 0.0)


def client(url: str, **options: str) -> Registry:
    return Registry(RegistrySettings.of(url, {name.replace("_", "."): one for name, one in options.items()}))


def test_schemas_are_fetched_once_and_unknown_ids_are_none(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = server.add("orders-value", STRING)
    asked = client(server.url)
    for _ in range(3):
        found = asked.by_id(number)
        assert found is not None and (found.text, found.kind) == (STRING, "AVRO")
        assert asked.by_id(99) is None
    assert server.requests == [f"GET /schemas/ids/{number}", "GET /schemas/ids/99"]
    server.first_id = 98
    assert server.add("orders-value", '"long"') == 99
    assert asked.by_id(99) is None
    monkeypatch.setattr("tidelog.spark.schemas.registry.time.monotonic", lambda: 1e12)
    later = asked.by_id(99)
    assert later is not None and later.text == '"long"'


def test_the_cache_is_bounded(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED_SCHEMAS_MAX", 2)
    numbers = [server.add("s", f'{{"type": "fixed", "name": "F", "size": {size}}}') for size in range(1, 5)]
    asked = client(server.url)
    for number in (*numbers, *numbers, 90, 91, 92, 93, 90):
        asked.by_id(number)
    assert len(server.requests) == 13
    assert len(asked._known) == len(asked._unknown) == 2


def test_schemas_are_registered_and_looked_up(server: RegistryServer) -> None:
    asked = client(server.url)
    references = (Reference("Name", "names/1", 1),)
    assert asked.lookup("a b/c", STRING, "AVRO") is None
    number = asked.register("a b/c", STRING, "AVRO", references)
    assert asked.register("a b/c", STRING, "AVRO", references) == number
    assert asked.lookup("a b/c", STRING, "AVRO", references) == number
    assert asked.latest("a b/c") == asked.by_id(number)
    with pytest.raises(OptionError, match="has no schema of the subject 'nothing'"):
        asked.latest("nothing")
    with pytest.raises(OptionError, match="refuses the schema: Input schema is an invalid schema"):
        asked.register("a b/c", "refused", "AVRO")


def test_references_come_before_what_uses_them(server: RegistryServer) -> None:
    server.add("c", '"c"')
    server.add("b", '"b"', references=[{"name": "C", "subject": "c", "version": 1}])
    both = [{"name": "C", "subject": "c", "version": 1}, {"name": "B", "subject": "b", "version": 1}]
    server.add("a", '"a"', references=both)
    asked = client(server.url)
    assert [name for name, _ in asked.referenced(asked.latest("a"))] == ["C", "B"]
    server.schemas[1]["references"] = [{"name": "A", "subject": "a", "version": 1}]
    server.schemas[3]["references"] = [{"name": "X", "subject": "c", "version": 1}]
    with pytest.raises(OptionError, match="form a cycle"):
        asked.referenced(asked.latest("a"))


def test_a_failing_registry_is_asked_again_and_then_an_error(server: RegistryServer) -> None:
    number = server.add("s", STRING)
    server.fails = 3
    assert client(server.url).by_id(number) is not None
    server.fails = 4
    with pytest.raises(RegistryUnavailable, match=r"does not answer \(Forwarding to the leader failed\)"):
        client(server.url).by_id(number)
    gone = "http://127.0.0.1:1"
    assert client(f"{gone},{server.url}").by_id(number) is not None
    with pytest.raises(RegistryUnavailable, match=r"does not answer .*refused"):
        client(gone, max_retries="1").by_id(number)


def test_logins(server: RegistryServer) -> None:
    number = server.add("s", STRING)
    server.login = "ann:pa:ss"
    assert client(server.url, basic_auth_user_info="ann:pa:ss").by_id(number) is not None
    assert client(server.url.replace("//", "//ann:pa%3Ass@")).by_id(number) is not None
    for asked in (client(server.url), client(server.url.replace("//", "//ann:wrong@"))):
        with pytest.raises(RegistryUnavailable, match=r"refuses access \(Unauthorized\)") as refused:
            asked.by_id(number)
        assert "wrong" not in str(refused.value)
    server.login = "Bearer token"
    assert client(server.url, bearer_auth_token="token").by_id(number) is not None


def test_a_redirection_does_not_take_the_password_along(server: RegistryServer) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{server.url}{self.path}")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    other = HTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        with pytest.raises(RegistryUnavailable, match="it redirects to"):
            client(
                f"http://127.0.0.1:{other.server_port}", basic_auth_user_info="a:b", max_retries="0"
            ).by_id(1)
    finally:
        other.shutdown()
        thread.join()
        other.server_close()
    assert server.requests == []


def test_what_is_not_a_registry_is_refused(server: RegistryServer) -> None:
    with pytest.raises(OptionError, match="is not the address of a schema registry"):
        client(f"{server.url}/somewhere").by_id(1)
    for url in ("localhost:8081", "", "ftp://x"):
        with pytest.raises(OptionError, match="allowed: URLs such as"):
            RegistrySettings.of(url)
    with pytest.raises(OptionError, match="There is no registry option 'user'"):
        RegistrySettings.of(server.url, {"user": "x"})
    with pytest.raises(OptionError, match="certificates of the schema registry cannot be read"):
        client(server.url, ssl_ca_location="/nowhere.pem")


def test_settings_travel_and_do_not_show_the_password() -> None:
    settings = RegistrySettings.of("http://a", {"basic.auth.user.info": "ann:secret"})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "secret" not in repr(settings)


@pytest.mark.slow
def test_tls(server: RegistryServer, tmp_path: Path) -> None:
    number = server.add("s", STRING)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    secure = server.url.replace("http:", "https:")
    assert client(secure, ssl_ca_location=str(certificate)).by_id(number) is not None
    with pytest.raises(RegistryUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        client(secure, max_retries="0").by_id(number)


@pytest.mark.skipif("TIDELOG_TEST_REGISTRY" not in os.environ, reason="needs the address of a registry")
def test_a_real_registry() -> None:
    """``TIDELOG_TEST_REGISTRY`` is the address of a registry to which subjects may be added."""
    asked, subject = client(os.environ["TIDELOG_TEST_REGISTRY"]), f"tidelog-{uuid.uuid4().hex}"
    schema = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
    assert asked.by_id(2**31 - 2) is None and asked.lookup(subject, schema, "AVRO") is None
    number = asked.register(subject, schema, "AVRO")
    assert asked.register(subject, schema, "AVRO") == asked.lookup(subject, schema, "AVRO") == number
    found = asked.by_id(number)
    assert found is not None and found.kind == "AVRO" and json.loads(found.text) == json.loads(schema)
    using = '{"type":"record","name":"Using","fields":[{"name":"order","type":"Order"}]}'
    other = asked.register(f"{subject}-using", using, "AVRO", (Reference("Order", subject, 1),))
    user = asked.by_id(other)
    assert user is not None and [one.id for _, one in asked.referenced(user)] == [number]
    for kind, text in (
        ("JSON", '{"type":"object","properties":{"x":{"type":"integer"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message A { int32 x = 1; }'),
    ):
        made = asked.by_id(asked.register(f"{subject}-{kind}", text, kind))
        assert made is not None and made.kind == kind
    with pytest.raises(OptionError, match="has no schema of the subject"):
        asked.latest(f"{subject}-nothing")
    with pytest.raises(OptionError, match="refuses the schema"):
        asked.register(subject, "{", "AVRO")
