"""The secret of the nodes: its text, who logs in with it, and how it is changed."""

from itertools import pairwise

import pytest

from tidelog.security.cluster_secret import MECHANISM, ClusterSecret
from tidelog.security.sasl import LoginRefused
from tidelog.security.scram import ScramLogin, ScramMechanism
from tidelog.security.scram_client import ScramClient

OLD, NEW = "o" * 32, "n" * 43


def log_in(client: ClusterSecret, server: ClusterSecret, node: int = 7) -> str | None:
    """The user as the server knows it."""
    login = ScramLogin(MECHANISM, server.credential, "server-nonce", b"decoy")
    scram = ScramClient(MECHANISM, client.user_of(node), client.salted, "client-nonce")
    scram.finish(login.step(scram.last(login.step(scram.first()))))
    return login.user


def test_who_knows_it_is_the_node_that_it_says() -> None:
    secret = ClusterSecret.parse(OLD + "\n")
    user = log_in(secret, ClusterSecret.parse(f"  {OLD}\n\n"))
    assert user is not None
    assert ClusterSecret.node_of(user) == 7


def test_who_does_not_know_it_is_refused() -> None:
    with pytest.raises(LoginRefused, match="another cluster secret"):
        log_in(ClusterSecret.parse(OLD), ClusterSecret.parse(NEW))


def test_it_is_changed_node_by_node() -> None:
    steps = [OLD, f"{OLD}\n{NEW}", f"{NEW}\n{OLD}", NEW]
    for before, after in pairwise(steps):
        one, other = ClusterSecret.parse(before), ClusterSecret.parse(after)
        assert log_in(one, other)
        assert log_in(other, one)
    with pytest.raises(LoginRefused):
        log_in(ClusterSecret.parse(OLD), ClusterSecret.parse(NEW))


@pytest.mark.parametrize(
    "text", ["", "\n \n", "short", "x" * 31, "x" * 1025, f"{OLD}\nshort", f"{OLD}\n" * 11]
)
def test_what_is_no_secret(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        ClusterSecret.parse(text)
    assert "short" not in str(refused.value)


@pytest.mark.parametrize(
    "user", ["broker-", "broker-x/1", "broker-²", "alice", "7", "broker-" + "9" * 11, "broker--1"]
)
def test_users_that_are_no_nodes(user: str) -> None:
    secret = ClusterSecret.parse(OLD)
    fingerprint = secret.user_of(1).partition("/")[2]
    assert ClusterSecret.node_of(user) is None
    assert secret.credential(MECHANISM, f"{user}/{fingerprint}") is None


def test_it_is_for_one_mechanism() -> None:
    secret = ClusterSecret.parse(OLD)
    assert secret.credential(MECHANISM, secret.user_of(1)) is not None
    assert secret.credential(ScramMechanism.SCRAM_SHA_512, secret.user_of(1)) is None


def test_a_false_server_cannot_choose_the_salt() -> None:
    """Otherwise it could have the node hash its secret in a way that is easy to guess from."""
    secret = ClusterSecret.parse(OLD)
    scram = ScramClient(MECHANISM, secret.user_of(1), secret.salted, "mine")
    with pytest.raises(LoginRefused):
        scram.last(b"r=minetheirs,s=c2FsdA==,i=1")


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=mine,s=c2FsdA==,i=4096", b"r=other,s=c2FsdA==,i=4096", b"r=minex,s=c2FsdA==,i=many", b"r=minex",
     b"\xff", b"e=other-error"],
)  # fmt: skip
def test_challenges_of_a_false_server(challenge: bytes) -> None:
    secret = ClusterSecret.parse(OLD)
    scram = ScramClient(MECHANISM, secret.user_of(1), secret.salted, "mine")
    with pytest.raises(LoginRefused):
        scram.last(challenge)


def test_a_server_that_cannot_prove_that_it_knows_the_secret() -> None:
    secret = ClusterSecret.parse(OLD)
    login = ScramLogin(MECHANISM, secret.credential, "server", b"decoy")
    scram = ScramClient(MECHANISM, secret.user_of(1), secret.salted, "mine")
    scram.last(login.step(scram.first()))
    for final in (b"", b"v=", b"v=AAAA", b"e=other-error"):
        with pytest.raises(LoginRefused, match="prove"):
            scram.finish(final)


def test_nothing_of_it_is_shown() -> None:
    secret = ClusterSecret.parse(OLD)
    assert OLD not in repr(secret) + repr(vars(secret)) + repr(
        secret.credential(MECHANISM, secret.user_of(1))
    )
