"""Settings of controllers: who votes, who does what, and what does not go together."""

import pytest

from tidelog.config import BrokerConfig
from tidelog.config.controllers import QuorumVoter
from tidelog.errors import InvalidConfig

TWO_LISTENERS = "PLAINTEXT://127.0.0.1:9092,CONTROL://127.0.0.1:9093"


def refusal(values: dict[str, str]) -> str:
    with pytest.raises(InvalidConfig) as refused:
        BrokerConfig.parse(values)
    return refused.value.message


def test_a_lone_node_is_everything() -> None:
    config = BrokerConfig.parse({})
    assert config.process_roles == {"broker", "controller"}
    assert config.controller_quorum_voters == ()


def test_voters_have_numbers_and_addresses() -> None:
    config = BrokerConfig.parse({"controller.quorum.voters": "1@one:9092, 2@[::1]:9093"})
    assert config.controller_quorum_voters == (QuorumVoter(1, "one", 9092), QuorumVoter(2, "::1", 9093))
    assert config.static_values["controller.quorum.voters"] == "1@one:9092,2@[::1]:9093"


@pytest.mark.parametrize(
    ("voters", "why"),
    [
        ("one:9092", "is not id@host:port"),
        ("1@one", "is not id@host:port"),
        ("1@one:0", "is not id@host:port"),
        ("1@one:70000", "is not id@host:port"),
        ("1@one:1,1@two:1", "controller 1 is listed twice"),
        ("1@one:1,2@one:1", "two controllers have the address one:1"),
        ("", "one or more id@host:port"),
    ],
)
def test_what_is_no_list_of_voters(voters: str, why: str) -> None:
    assert why in refusal({"controller.quorum.voters": voters})


def test_a_node_that_is_only_a_broker_needs_controllers_elsewhere() -> None:
    assert "at least one controller" in refusal({"process.roles": "broker"})
    mine = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "1@one:1"}
    assert "without node 1" in refusal(mine)
    config = BrokerConfig.parse({**mine, "node.id": "2"})
    assert config.process_roles == {"broker"}


def test_clients_are_not_told_of_the_controllers_listener() -> None:
    config = BrokerConfig.parse({"listeners": TWO_LISTENERS, "controller.listener.names": "control"})
    assert config.controller_listener_names == ("CONTROL",)
    assert [listener.name for listener in config.advertised_listeners] == ["PLAINTEXT"]


def test_a_controllers_listener_is_one_of_the_listeners_and_not_all_of_them() -> None:
    assert "a name from listeners" in refusal({"controller.listener.names": "CONTROL"})
    assert "clients need one" in refusal({"controller.listener.names": "PLAINTEXT"})
    alone = {"process.roles": "controller", "controller.listener.names": "PLAINTEXT"}
    assert BrokerConfig.parse(alone).process_roles == {"controller"}


def test_other_nodes_may_be_reached_at_other_addresses() -> None:
    config = BrokerConfig.parse({"node.addresses": "2@127.0.0.1:5002,3@[::1]:5003"})
    assert config.node_addresses == (QuorumVoter(2, "127.0.0.1", 5002), QuorumVoter(3, "::1", 5003))
    assert BrokerConfig.parse({}).node_addresses == ()
    assert "node 2 is listed twice" in refusal({"node.addresses": "2@one:1,2@two:1"})
    assert "two nodes have the address" in refusal({"node.addresses": "2@one:1,3@one:1"})
