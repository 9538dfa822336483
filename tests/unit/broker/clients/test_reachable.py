"""Which brokers clients are shown."""

from uuid import UUID

from tidelog.broker.clients.reachable import SHOWN_FOR_MS, Reachable
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerFencingChanged, BrokerRegistered
from unit.broker.fakes import FakeServices


def test_a_broker_that_was_fenced_a_moment_ago_is_still_shown() -> None:
    services = FakeServices()
    reachable = Reachable(services)
    image = ClusterImage().apply(
        BrokerRegistered(number, UUID(int=number), "localhost", 9090 + number) for number in (1, 2)
    )
    reachable.follow(image)
    services.advance(10 * SHOWN_FOR_MS)
    image = image.apply([BrokerFencingChanged(2, True)])
    reachable.follow(image)
    assert [node.broker_id for node in reachable.brokers(image)] == [1, 2]
    services.advance(SHOWN_FOR_MS + 1)
    reachable.follow(image)
    assert [node.broker_id for node in reachable.brokers(image)] == [1]


def test_a_broker_that_was_fenced_all_along_is_not() -> None:
    reachable = Reachable(FakeServices())
    image = ClusterImage().apply([BrokerRegistered(1, UUID(int=1), "localhost", 9091, fenced=True)])
    reachable.follow(image)
    assert reachable.brokers(image) == []
