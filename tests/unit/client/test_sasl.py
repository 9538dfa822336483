"""SCRAM against a broker that is not the one it says to be."""

import base64
import hashlib

import pytest

from tidelog.client.sasl import ITERATIONS_MAX, AuthenticationFailed, Scram

NONCE = "fixed"
SALT = base64.b64encode(b"salt").decode()


def client() -> Scram:
    scram = Scram("sha256", "alice", "secret", NONCE)
    scram.first()
    return scram


@pytest.mark.parametrize("iterations", [-1, 0, 1, 4095, ITERATIONS_MAX + 1, (1 << 63) - 1])
def test_a_password_is_not_hashed_too_little_or_for_ever(
    iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one iteration, whoever answers in place of the broker could guess the password at leisure."""
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *_: pytest.fail("it was hashed"))
    with pytest.raises(AuthenticationFailed, match=f"{iterations} iterations"):
        client().last(f"r={NONCE}x,s={SALT},i={iterations}".encode())


@pytest.mark.parametrize("challenge", [f"r={NONCE},s={SALT},i=4096", f"r=x,s={SALT},i=4096"])
def test_a_nonce_that_is_not_of_both(challenge: str) -> None:
    """An old proof of the client could be played back to it."""
    with pytest.raises(AuthenticationFailed, match="does not belong"):
        client().last(challenge.encode())


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff", b"r", b"e=other-error", f"r={NONCE}x,s={SALT}".encode(), f"r={NONCE}x,s=A,i=4096".encode(),
     f"r={NONCE}x,s={SALT},i=many".encode()],
)  # fmt: skip
def test_what_is_no_challenge(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="not valid"):
        client().last(challenge)
