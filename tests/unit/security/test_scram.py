"""SCRAM on the server's side, against the client of tidelog.client and the examples of the RFCs."""

import base64

import pytest

from tidelog.cli.user import commands
from tidelog.client.sasl import Scram
from tidelog.security.sasl import LoginRefused
from tidelog.security.scram import (
    ITERATIONS,
    ScramCredential,
    ScramLogin,
    ScramMechanism,
    credential_of_password,
    credential_of_salted_password,
)
from tidelog.security.users import Users

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"0123456789abcdef"


def login(
    users: dict[str, str], mechanism: ScramMechanism = SHA_256, nonce: str = "server-nonce"
) -> ScramLogin:
    def credentials(asked: ScramMechanism, user: str) -> ScramCredential | None:
        return credential_of_password(asked, users[user], SALT) if user in users else None

    return ScramLogin(mechanism, credentials, nonce, b"decoy")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "Zoë"])
def test_both_sides_prove_the_password(mechanism: ScramMechanism, user: str) -> None:
    server = login({user: "secret"}, mechanism)
    client = Scram(mechanism.algorithm, user, "secret")
    assert server.user is None
    final = server.step(client.last(server.step(client.first())))
    client.finish(final)
    assert server.user == user


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of_password(SHA_256, "pencil", salt, 4096)
    server = ScramLogin(SHA_256, lambda *_: credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b"")
    challenge = server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert (
        challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = server.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_place(user: str) -> None:
    server = login({"alice": "secret"})
    client = Scram("sha256", user, "guess")
    last = client.last(server.step(client.first()))
    with pytest.raises(LoginRefused, match="with this password") as refused:
        server.step(last)
    assert refused.value.user == user
    assert server.user is None


def test_the_salt_of_an_unknown_user_is_the_same_each_time_and_no_other_users() -> None:
    def challenge(user: bytes) -> bytes:
        return login({}).step(b"n,,n=" + user + b",r=x").partition(b",s=")[2]

    assert challenge(b"mallory") == challenge(b"mallory") != challenge(b"trudy")


def test_the_first_answer_does_not_tell_who_exists() -> None:
    """Those of the file, those that were set by the command, and others."""
    users = Users.parse("alice:her password", b"salt of the file")
    made = commands._salted("bob", SHA_256, "his password", ITERATIONS)
    bob = credential_of_salted_password(SHA_256, made["salted_password"], made["salt"], made["iterations"])

    def known(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return bob if user == "bob" else users.credential(mechanism, user)

    shapes = set()
    for user in ("alice", "bob", "nobody"):
        begin = ScramLogin(SHA_256, known, "nonce", b"decoy")
        fields = begin.step(f"n,,n={user},r=x".encode()).decode().split(",")
        shapes.add((len(base64.b64decode(fields[1].removeprefix("s="))), fields[2]))
    assert len(shapes) == 1


def test_a_recorded_login_cannot_be_replayed() -> None:
    client = Scram("sha256", "alice", "secret", "fixed")
    recorded = client.last(login({"alice": "secret"}, nonce="first").step(client.first()))
    server = login({"alice": "secret"}, nonce="second")
    server.step(client.first())
    with pytest.raises(LoginRefused, match="another login"):
        server.step(recorded)


def test_a_login_of_one_mechanism_is_not_one_of_another() -> None:
    client = Scram("sha256", "alice", "secret")
    server = login({"alice": "secret"}, SHA_512)
    with pytest.raises(LoginRefused):
        server.step(client.last(server.step(client.first())))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,r=x,n=alice",
        b"p=tls-unique,,n=alice,r=x",  # channel binding
        b"n,,n=alice,r=x\x00",
        b"n,,m=ext,n=alice,r=x",  # a mandatory extension
        b"\xff\xfe",
        b"n,a=bob,n=alice,r=x",
        b"n,," + b"n" * 100_000,
        b"n,,n=alice,r=" + b"x" * 100_000,  # It would be kept until the login ends.
    ],
)
def test_invalid_first_messages(message: bytes) -> None:
    with pytest.raises(LoginRefused):
        login({"alice": "secret"}).step(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda last: last[: last.index(b",p=")],
        lambda last: last.replace(b"c=biws", b"c=eSws"),  # the header y,, although n,, was sent
        lambda last: last.replace(b"c=biws", b"c=!!"),
        lambda last: last[: last.index(b",p=")] + b",p=",
        lambda last: last[: last.index(b",p=")] + b",p=AAAA",
        lambda last: last[: last.index(b",p=")] + b",p=A",
        lambda last: last + b",x=y",
        lambda last: b"",
    ],
)
def test_invalid_last_messages(change: object) -> None:
    server = login({"alice": "secret"})
    client = Scram("sha256", "alice", "secret")
    last = client.last(server.step(client.first()))
    assert callable(change)
    with pytest.raises(LoginRefused):
        server.step(change(last))
    assert server.user is None


def test_a_long_name_makes_no_long_line_of_the_log() -> None:
    server, client = login({}), Scram("sha256", "a" * 2000, "guess")
    with pytest.raises(LoginRefused) as refused:
        server.step(client.last(server.step(client.first())))
    assert len(refused.value.reason) < 200


def test_a_login_ends_with_its_last_message() -> None:
    server = login({"alice": "secret"})
    client = Scram("sha256", "alice", "secret")
    server.step(client.last(server.step(client.first())))
    with pytest.raises(LoginRefused, match="ended"):
        server.step(client.first())


def test_a_salted_password_gives_the_credential_of_its_password() -> None:
    import hashlib

    salted = hashlib.pbkdf2_hmac("sha512", b"secret", SALT, 5000)
    assert credential_of_salted_password(SHA_512, salted, SALT, 5000) == credential_of_password(
        SHA_512, "secret", SALT, 5000
    )


def test_no_key_is_shown() -> None:
    credential = credential_of_password(SHA_256, "secret", SALT)
    assert repr(credential) == str(credential) == "ScramCredential(iterations=4096)"
