"""Whose connection is a node's, by what it has shown."""

import pytest

from tidelog.runtime.peers.trust import LOGGED_MAX, NodeTrust
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.security.principal import ANONYMOUS, USER, Principal

SECOND = Principal(USER, "broker-2")
BY_CERTIFICATE = frozenset({"SSL"})
SECRET = ClusterSecret.parse("s" * 40)


def trust(*, secret: bool = False, is_required: bool = True) -> NodeTrust:
    return NodeTrust(
        SECRET if secret else None,
        listeners=frozenset({"SSL", "SASL_SSL"}),
        by_certificate=BY_CERTIFICATE,
        is_required=is_required,
    )


def test_the_certificate_of_the_node_itself() -> None:
    assert trust().admits(SECOND, "SSL", 2)
    assert not trust().admits(SECOND, "SSL", 3)
    assert not trust().admits(ANONYMOUS, "SSL", 2)


def test_a_certificate_of_another_principal_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Such brokers connect again and again, and would not say why none of them accepts another."""
    nodes = trust()
    for _ in range(3):
        assert not nodes.admits(Principal(USER, "CN=shared"), "SSL", 2)
    assert [record.getMessage() for record in caplog.records] == [
        "a connection that says it is of node 2 has the certificate of User:CN=shared, not of "
        "User:broker-2: see inter.broker.principal and ssl.principal.mapping.rules, "
        "or set cluster.secret.file on all nodes"
    ]
    for node in range(1000):
        nodes.admits(Principal(USER, "CN=shared"), "SSL", node)
    assert len(caplog.records) == LOGGED_MAX


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("is_required", [False, True])
def test_a_user_who_is_called_like_a_node(secret: bool, is_required: bool) -> None:
    """Users may choose their names, for instance at an issuer of tokens. A node bypasses all access rules."""
    assert not trust(secret=secret, is_required=is_required).admits(SECOND, "SASL_SSL", 2)


def test_a_listener_of_clients_has_no_nodes() -> None:
    assert not trust(is_required=False).admits(ANONYMOUS, "CLIENTS", 2)
    assert not trust().admits(SECOND, "CLIENTS", 2)


def test_with_a_secret_a_certificate_is_not_enough() -> None:
    assert not trust(secret=True).admits(SECOND, "SSL", 2)
    assert trust(secret=True, is_required=False).admits(SECOND, "SSL", 2)


def test_a_claim_counts_only_where_nothing_else_is_there() -> None:
    assert trust(is_required=False).admits(ANONYMOUS, "SSL", 2)
    assert not trust().admits(ANONYMOUS, "SSL", 2)
