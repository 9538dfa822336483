"""Which address of a broker a client is told."""

from uuid import UUID

import msgspec
import pytest

from tidelog.controller.endpoints import Endpoint, endpoint_for
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered
from tidelog.controller.snapshot import image_of, texts_of

INSIDE, OUTSIDE = Endpoint("INSIDE", "10.0.0.2", 9092), Endpoint("OUTSIDE", "queue.example.org", 9094, 3)


def image_with(*endpoints: Endpoint) -> ClusterImage:
    mine = [Endpoint("INSIDE", "10.0.0.1", 9092), Endpoint("OUTSIDE", "q1", 9094, 3)]
    return ClusterImage().apply(
        [
            BrokerRegistered(1, UUID(int=1), "10.0.0.1", 9092, endpoints=mine),
            BrokerRegistered(2, UUID(int=2), "10.0.0.2", 9093, endpoints=list(endpoints) or msgspec.UNSET),
        ]
    )


def told(image: ClusterImage, listener: str) -> tuple[str, int] | None:
    endpoint = endpoint_for(image, 1, image.brokers[2], listener)
    return None if endpoint is None else (endpoint.host, endpoint.port)


def test_a_client_is_told_the_address_of_its_own_listener() -> None:
    image = image_with(INSIDE, OUTSIDE)
    assert told(image, "INSIDE") == ("10.0.0.2", 9092)
    assert told(image, "OUTSIDE") == ("queue.example.org", 9094)


def test_a_broker_without_this_listener_has_no_address_for_its_clients() -> None:
    assert told(image_with(INSIDE), "OUTSIDE") is None


@pytest.mark.parametrize("listener", ["INSIDE", "OUTSIDE", ""])
def test_a_broker_that_does_not_say_which_listeners_it_has_has_one_address(listener: str) -> None:
    assert told(image_with(), listener) == ("10.0.0.2", 9093)


def test_a_listener_that_is_not_advertised_has_no_addresses_of_its_own() -> None:
    assert told(image_with(INSIDE, OUTSIDE), "CONTROLLER") == ("10.0.0.2", 9093)


def test_they_are_in_the_snapshot() -> None:
    image = image_with(INSIDE, OUTSIDE)
    again = image_of(texts_of(image))
    assert again.brokers[2].endpoints == (INSIDE, OUTSIDE)
