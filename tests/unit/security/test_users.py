"""Users of a file, and PLAIN, which is checked against them."""

import pytest

from tidelog.security.plain import PlainLogin
from tidelog.security.sasl import LoginRefused
from tidelog.security.scram import ITERATIONS, ScramCredential, ScramMechanism, credential_of_password
from tidelog.security.users import Users, hashed, is_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
CREDENTIAL = credential_of_password(SHA_512, "secret", b"salt", 5000)


def test_passwords_in_plain_text_are_for_every_mechanism() -> None:
    users = Users.parse("# comment\n\nalice:a:b c \n", b"salt")
    assert users.names == {"alice"}
    for mechanism in ScramMechanism:
        credential = users.credential(mechanism, "alice")
        assert credential is not None
        again = credential_of_password(mechanism, "a:b c ", credential.salt, ITERATIONS)
        assert credential == again
        assert users.credential(mechanism, "alice") is credential, "worked out once"
    assert users.credential(SHA_256, "bob") is None


def test_hashed_passwords_are_for_theirs() -> None:
    users = Users.parse(f"alice:{hashed(SHA_512, CREDENTIAL)}\n", b"salt")
    assert users.credential(SHA_512, "alice") == CREDENTIAL
    assert users.credential(SHA_256, "alice") is None


@pytest.mark.parametrize(
    "text",
    [
        "alice",
        ":secret",
        "alice:",
        "alice:secret\nalice:other",
        "alice:SCRAM-SHA-256$4096:c2FsdA==$AAAA:AAAA",
        "alice:SCRAM-SHA-1$4096:c2FsdA==$AAAA:AAAA",
        "alice:" + hashed(SHA_512, CREDENTIAL).replace("512$5000", "512$1000"),
        "alice:" + hashed(SHA_512, CREDENTIAL).replace("512$5000", "256$5000"),
        "alice:SCRAM-SHA-256$secret",
        "\n".join(f"u{number}:p" for number in range(10_001)),
    ],
)
def test_files_that_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        Users.parse(text, b"")
    assert "secret" not in str(refused.value)


def test_no_password_is_shown() -> None:
    assert "secret" not in repr(Users.parse("alice:secret", b""))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_password_is_checked_against_what_there_is(mechanism: ScramMechanism) -> None:
    known = credential_of_password(mechanism, "secret", b"salt")

    def lookup(asked: ScramMechanism, user: str) -> ScramCredential | None:
        return known if (asked, user) == (mechanism, "alice") else None

    assert is_password(lookup, "alice", "secret")
    assert not is_password(lookup, "alice", "guess")
    assert not is_password(lookup, "bob", "secret")


class TestPlain:
    def login(self, message: bytes) -> PlainLogin:
        login = PlainLogin(lambda user, password: (user, password) == ("alice", "se:cret"))
        assert login.step(message) == b""
        return login

    @pytest.mark.parametrize("message", [b"\0alice\0se:cret", b"alice\0alice\0se:cret"])
    def test_the_right_password(self, message: bytes) -> None:
        assert self.login(message).user == "alice"

    @pytest.mark.parametrize(
        "message",
        [b"", b"\0", b"\0\0", b"\0alice\0", b"\0\0se:cret", b"alice\0se:cret", b"bob\0alice\0se:cret",
         b"\0alice\0se:cret\0", b"\0alice\0guess", b"\xff\0alice\0se:cret", b"\0alice\0" + b"x" * 2000],
    )  # fmt: skip
    def test_everything_else(self, message: bytes) -> None:
        with pytest.raises(LoginRefused) as refused:
            self.login(message)
        assert "se:cret" not in refused.value.reason
