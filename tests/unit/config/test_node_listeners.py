"""Which listeners find out who a node is, and when that is needed."""

import pytest

from tidelog.config import BrokerConfig
from tidelog.config.authorization import STANDARD_AUTHORIZER
from tidelog.config.node_listeners import authenticates_nodes, refuse_unknown_nodes
from tidelog.errors import InvalidConfig

RULES = {"authorizer.class.name": STANDARD_AUTHORIZER}
MUTUAL = {"listeners": "SSL://127.0.0.1:9092", "ssl.client.auth": "required"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        (MUTUAL, True),
        ({**MUTUAL, "ssl.client.auth": "requested"}, False),
        ({"listeners": "SASL_SSL://127.0.0.1:9092"}, True),
        ({**MUTUAL, "listeners": "PLAINTEXT://127.0.0.1:9091,SSL://127.0.0.1:9092"}, False),
        (
            {
                **MUTUAL,
                "listeners": "PLAINTEXT://127.0.0.1:9091,SSL://127.0.0.1:9092",
                "inter.broker.listener.name": "SSL",
            },
            True,
        ),
    ],
)
def test_listeners_that_find_out_who_a_node_is(settings: dict[str, str], expected: bool) -> None:
    assert authenticates_nodes(BrokerConfig.parse(settings)) is expected


@pytest.mark.parametrize(
    "settings",
    [{}, RULES | {"cluster.secret.file": "x"}, RULES | MUTUAL, {"cluster.secret.required": "false"}],
)
def test_nodes_that_are_known_or_need_not_be(settings: dict[str, str]) -> None:
    refuse_unknown_nodes(BrokerConfig.parse(settings))


@pytest.mark.parametrize(
    "settings", [RULES, RULES | {"cluster.secret.file": "x", "cluster.secret.required": "false"}]
)
def test_access_rules_need_nodes_that_are_known(settings: dict[str, str]) -> None:
    """They do not apply to nodes, and so to nobody who says that he is one."""
    with pytest.raises(InvalidConfig, match="bypass the access rules"):
        refuse_unknown_nodes(BrokerConfig.parse(settings))
