"""The certificates of a test cluster: which files there are, who may read them, what they are good for."""

import ssl
import stat
from pathlib import Path

import pytest

from tidelog.cli import main

pytest.importorskip("cryptography")


def certs(directory: Path, *arguments: str) -> int:
    return main(["certs", "--dir", str(directory), *arguments])


def handshake(server: Path, client: Path, trusted: Path, host: str) -> ssl.SSLObject:
    """Both sides in memory; the server asks for the client's certificate."""
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(server)
    there.load_verify_locations(trusted)
    there.verify_mode = ssl.CERT_REQUIRED
    here = ssl.create_default_context(cafile=str(trusted))
    here.load_cert_chain(client)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = here.wrap_bio(down, up, server_hostname=host), there.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for each in (ours, theirs):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert theirs.getpeercert() is not None
    return theirs


def test_without_arguments_there_are_three_brokers_of_this_machine(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    assert certs(directory) == 0
    for name in ("broker-1", "broker-2", "broker-3"):
        handshake(directory / f"{name}.pem", directory / "broker-1.pem", directory / "ca.pem", "127.0.0.1")


def test_names_and_addresses_of_brokers_and_a_client(tmp_path: Path) -> None:
    assert certs(tmp_path, "--broker", "a=10.0.0.1,a.example.org", "--client", "alice") == 0
    for host in ("10.0.0.1", "a.example.org"):
        theirs = handshake(tmp_path / "a.pem", tmp_path / "alice.pem", tmp_path / "ca.pem", host)
        assert theirs.getpeercert()["subject"] == ((("commonName", "alice"),),)  # type: ignore[index]
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(tmp_path / "a.pem", tmp_path / "alice.pem", tmp_path / "ca.pem", "b.example.org")
    with pytest.raises(ssl.SSLError):  # A client's certificate does not make a server.
        handshake(tmp_path / "alice.pem", tmp_path / "a.pem", tmp_path / "ca.pem", "alice")


def test_another_call_adds_to_the_same_authority(tmp_path: Path) -> None:
    assert certs(tmp_path, "--broker", "a=localhost") == 0
    authority = (tmp_path / "ca.pem").read_bytes()
    assert certs(tmp_path, "--client", "late") == 0
    assert (tmp_path / "ca.pem").read_bytes() == authority
    handshake(tmp_path / "a.pem", tmp_path / "late.pem", tmp_path / "ca.pem", "localhost")


def test_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    assert certs(tmp_path / "tls", "--client", "alice", "--password", "changeit") == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {
        name: modes[name] for name in ("ca.pem", "ca.p12", "alice.crt") if modes[name] & 0o077
    }
    assert modes["alice.pem"] == modes["alice.key"] == modes["alice.p12"] == modes["ca.key"] == 0o600


def test_nothing_is_replaced_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert certs(tmp_path, "--client", "alice") == 0
    before = (tmp_path / "alice.pem").read_bytes()
    assert certs(tmp_path, "--client", "alice") == 1
    assert "pass --yes to replace it" in capsys.readouterr().err
    assert (tmp_path / "alice.pem").read_bytes() == before
    assert certs(tmp_path, "--client", "alice", "--yes") == 0
    assert (tmp_path / "alice.pem").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--broker", "a"], "is not NAME=HOST"),
        (["--broker", "a="], "is not NAME=HOST"),
        (["--client", "../x"], "is no name"),
        (["--client", ".x"], "is no name"),
        (["--client", "ca"], "the name of the authority"),
    ],
)
def test_bad_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert certs(tmp_path, *arguments) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_authority_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "ca.key").write_text("y")
    assert certs(tmp_path, "--client", "alice") == 1
    assert "cannot be read" in capsys.readouterr().err
