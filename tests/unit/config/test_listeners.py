"""The notation of addresses."""

import pytest

from tidelog.config import BrokerConfig, Listener
from tidelog.config.kinds import Raw
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
        ({"listeners": "SASL_SSL://a:1"}, "does not have yet"),
        ({"listeners": "A://a:1,A://a:2"}, "two listeners have the name A"),
        ({"listeners": "A://a:1,B://a:1"}, "two listeners have the address a:1"),
        ({"listeners": "A://a:1,B://b:1"}, "one listener for clients"),
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
