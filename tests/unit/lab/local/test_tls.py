"""Certificates, settings and the clients' file of a local cluster with TLS."""

from pathlib import Path

import pytest

from tidelog.client.properties import parse_properties
from tidelog.client.tls import context
from tidelog.config import BrokerConfig
from tidelog.lab.local import tls


def test_without_certificates_clients_connect_plainly(tmp_path: Path) -> None:
    assert tls.client_security(tmp_path).tls is None
    tls.make_certificates(tmp_path, [1])
    assert not tls.has_tls(tmp_path)  # not before clients were told
    tls.write_client_file(tmp_path, "127.0.0.1:1")
    assert tls.has_tls(tmp_path)


def test_what_it_makes_is_taken_by_brokers_and_clients(tmp_path: Path) -> None:
    tls.make_certificates(tmp_path, [1, 2])
    path = tls.write_client_file(tmp_path, "127.0.0.1:1,127.0.0.1:2")
    assert path.stat().st_mode & 0o777 == 0o600
    values = parse_properties(path.read_text())
    assert values["bootstrap.servers"] == "127.0.0.1:1,127.0.0.1:2"
    assert all(Path(values[f"ssl.{store}.location"]).is_file() for store in ("truststore", "keystore"))
    security = tls.client_security(tmp_path)
    assert security.tls is not None
    assert context(security.tls).get_ca_certs()[0]["subject"] == (
        (("commonName", "Tidelog test authority"),),
    )
    for number in (1, 2):
        settings = tls.broker_settings(number, tmp_path / tls.DIRECTORY)
        assert Path(settings["ssl.keystore.location"]).is_file()
        BrokerConfig.parse({"node.id": number, "listeners": "SSL://127.0.0.1:1", **settings})


@pytest.mark.parametrize("spoiled", [b"", b"no certificate"])
def test_only_what_is_missing_or_broken_is_made_again(tmp_path: Path, spoiled: bytes) -> None:
    tls.make_certificates(tmp_path, [1, 2])
    root = tmp_path / tls.DIRECTORY
    first = {path.name: path.read_bytes() for path in root.iterdir()}
    (root / "broker-2.pem").write_bytes(spoiled)
    tls.make_certificates(tmp_path, [1, 2, 3])
    second = {path.name: path.read_bytes() for path in root.iterdir()}
    changed = {name for name in second if second[name] != first.get(name)}
    assert changed == {f"broker-{number}.{kind}" for number in (2, 3) for kind in ("pem", "crt", "key")}
