"""The notation of addresses."""

import pytest

from tidelog.config import BrokerConfig, Listener, SecurityProtocol, describe_broker
from tidelog.config.kinds import Raw
from tidelog.config.listener_rules import insecure_listeners, refuse_insecure_listeners
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092)),
        ("plaintext://queue.example.org:0", Listener("PLAINTEXT", "queue.example.org", 0)),
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "", 9092)),
        ("BETWEEN_BROKERS://[::1]:65535", Listener("BETWEEN_BROKERS", "::1", 65535)),
    ],
)
def test_one_listener(text: str, listener: Listener) -> None:
    broker = BrokerConfig.parse({"listeners": text})
    assert broker.listeners == (listener,)
    assert Listener.parse(str(listener)) == listener


def test_clients_are_told_the_same_address_unless_another_is_given() -> None:
    values: dict[str, Raw] = {"controller.listener.names": "CONTROLLER"}
    broker = BrokerConfig.parse({**values, "listeners": "PLAINTEXT://a:1,CONTROLLER://b:2"})
    assert broker.advertised_listeners == (Listener("PLAINTEXT", "a", 1),)
    values |= {"listeners": ["PLAINTEXT://:1", "CONTROLLER://b:2"]}
    broker = BrokerConfig.parse({**values, "advertised.listeners": "PLAINTEXT://outside:9"})
    assert broker.advertised_listeners == (Listener("PLAINTEXT", "outside", 9),)


def test_what_binding_found_out_goes_into_the_address() -> None:
    listener = Listener("PLAINTEXT", "", 0)
    assert listener.every_interface
    assert str(listener.at(host="box", port=4711)) == "PLAINTEXT://box:4711"
    assert not listener.at(host="box").every_interface


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"listeners": ""}, "NAME://host:port"),
        ({"listeners": "127.0.0.1:9092"}, "127.0.0.1:9092 is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65536"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:-1"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://a\x00b:1"}, "is not NAME://host:port"),
        ({"listener.security.protocol.map": "A"}, "it must be one or more NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:TLS"}, "TLS is no security protocol; there are PLAINTEXT"),
        ({"listener.security.protocol.map": "A:SSL,a:SSL"}, "two listeners have the name A"),
        (
            {"listeners": "A://a:1,B://b:1", "listener.security.protocol.map": "A:SSL"},
            "with a protocol for B",
        ),
        ({"inter.broker.listener.name": "B"}, "the name of an advertised listener: PLAINTEXT"),
        (
            {
                "listeners": "A://a:1,B://b:1",
                "controller.listener.names": "B",
                "inter.broker.listener.name": "B",
            },
            "inter.broker.listener.name=B is refused",
        ),
        ({"listener.name.b.ssl.client.auth": "none"}, "a name from listeners: PLAINTEXT"),
        ({"listener.name.plaintext.node.id": "1"}, "node.id cannot be set for one listener"),
        ({"listener.name.plaintext.ssl.client.auht": "1"}, "Did you mean ssl.client.auth"),
        ({"listeners": "A://a:1,A://a:2"}, "two listeners have the name A"),
        ({"listeners": "A://a:1,B://a:1"}, "two listeners have the address a:1"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to"),
        ({"advertised.listeners": "OTHER://a:9092"}, "a name from listeners: PLAINTEXT"),
    ],
)
def test_bad_addresses(values: dict[str, Raw], words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.parse(values)
    assert words in caught.value.message


def test_several_free_ports_do_not_clash() -> None:
    values = {"listeners": "A://127.0.0.1:0,B://127.0.0.1:0", "controller.listener.names": "B"}
    assert len(BrokerConfig.parse(values).listeners) == 2


def test_the_name_or_the_map_gives_the_protocol() -> None:
    values: dict[str, Raw] = {"listeners": "SASL_SSL://127.0.0.1:1,INSIDE://127.0.0.1:2,ssl://127.0.0.1:3"}
    by_name = {each.name: each.protocol for each in BrokerConfig.parse(values).listeners}
    assert by_name == {
        "SASL_SSL": SecurityProtocol.SASL_SSL,
        "INSIDE": SecurityProtocol.PLAINTEXT,
        "SSL": SecurityProtocol.SSL,
    }
    mapped = BrokerConfig.parse(
        {
            "listeners": "A://127.0.0.1:1,B://127.0.0.1:2",
            "advertised.listeners": "B://b:2",
            "listener.security.protocol.map": "a:SASL_PLAINTEXT, B:SSL",
        }
    )
    assert [each.protocol.name for each in mapped.listeners] == ["SASL_PLAINTEXT", "SSL"]
    assert mapped.advertised_listeners == (Listener("B", "b", 2, SecurityProtocol.SSL),)


def test_who_uses_which_listener() -> None:
    values: dict[str, Raw] = {
        "listeners": "CLIENTS://127.0.0.1:1,BROKERS://127.0.0.1:2,CONTROLLERS://127.0.0.1:3"
    }
    plain = BrokerConfig.parse(values)
    assert plain.inter_broker_listener.name == plain.controller_listener.name == "CLIENTS"
    assert plain.peer_listener_names == {"CLIENTS"}
    split = BrokerConfig.parse(
        {
            **values,
            "inter.broker.listener.name": "brokers",
            "controller.listener.names": "CONTROLLERS",
        }
    )
    assert split.inter_broker_listener.name == "BROKERS"
    assert split.controller_listener.name == "CONTROLLERS"
    assert split.peer_listener_names == {"BROKERS", "CONTROLLERS"}
    assert [each.name for each in split.client_listeners] == ["CLIENTS", "BROKERS"]


def test_a_setting_of_one_listener_comes_before_that_of_all() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "A://127.0.0.1:1,B://127.0.0.1:2",
            "ssl.client.auth": "requested",
            "listener.name.a.ssl.client.auth": "required",
        }
    )
    assert config.ssl_client_auth == "requested"
    assert config.of_listener("A").ssl_client_auth == "required"
    assert config.of_listener("B").ssl_client_auth == "requested"
    assert config.static_values["listener.name.a.ssl.client.auth"] == "required"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("localhost", True),
        ("[::1]", True),
        ("", False),
        ("0.0.0.0", False),
        ("[::]", False),
        ("10.0.0.1", False),
        ("queue.example.org", False),
    ],
)
def test_an_open_listener_without_authentication_is_refused(host: str, loopback: bool) -> None:
    values: dict[str, Raw] = {"listeners": f"PLAINTEXT://{host}:1", "advertised.listeners": "PLAINTEXT://a:1"}
    config = BrokerConfig.parse(values)
    if loopback:
        refuse_insecure_listeners(config)
        assert not insecure_listeners(config)
        return
    with pytest.raises(InvalidConfig, match=r"allow\.insecure\.listeners=true"):
        refuse_insecure_listeners(config)
    allowed = BrokerConfig.parse({**values, "allow.insecure.listeners": "true"})
    refuse_insecure_listeners(allowed)
    assert insecure_listeners(allowed) == list(allowed.listeners)


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"listeners": "SASL_SSL://:1"}, []),
        ({"listeners": "SASL_PLAINTEXT://:1"}, []),
        ({"listeners": "SSL://:1"}, ["SSL"]),
        ({"listeners": "SSL://:1", "ssl.client.auth": "requested"}, ["SSL"]),
        ({"listeners": "SSL://:1", "ssl.client.auth": "required"}, []),
        (
            {
                "listeners": "SSL://:1",
                "ssl.client.auth": "required",
                "listener.name.ssl.ssl.client.auth": "none",
            },
            ["SSL"],
        ),
    ],
)
def test_what_counts_as_authentication(values: dict[str, Raw], refused: list[str]) -> None:
    assert [each.name for each in insecure_listeners(BrokerConfig.parse(values))] == refused


def test_passwords_are_not_shown() -> None:
    config = BrokerConfig.parse(
        {"ssl.key.password": "geheim", "listener.name.plaintext.ssl.keystore.password": "auch geheim"}
    )
    assert config.ssl_key_password == "geheim"
    assert config.of_listener("PLAINTEXT").ssl_keystore_password == "auch geheim"
    assert "geheim" not in f"{config!r} {config.ssl_key_password!r} {config.listener_values}"
    described = {each.name: each for each in describe_broker(config.static_values, {})}
    for name in ("ssl.key.password", "listener.name.plaintext.ssl.keystore.password"):
        assert described[name].sensitive
        assert described[name].value is None
        assert all(each.value is None for each in described[name].synonyms)
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.parse({"ssl.key.password": ["geheim"]})
    assert "geheim" not in caught.value.message
