"""UnregisterBroker: only brokers that are gone."""

from uuid import UUID

import pytest

from tidelog.controller.records import BrokerRegistered
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker
from unit.broker.handlers.three_brokers import three_brokers


@pytest.fixture
def broker() -> FakeBroker:
    return three_brokers()


class TestUnregister:
    @pytest.mark.parametrize(
        ("broker_id", "code"), [(3, ErrorCode.INVALID_REQUEST), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)]
    )
    def test_refusals(self, broker: FakeBroker, broker_id: int, code: ErrorCode) -> None:
        assert broker.call("unregister_broker", 0, broker_id=broker_id).error_code == code

    def test_one_that_is_gone(self, broker: FakeBroker) -> None:
        broker.submit(BrokerRegistered(3, UUID(int=33), "h3", 9092, None, 9, fenced=True))
        assert broker.call("unregister_broker", 0, broker_id=3).error_code == 0
        assert set(broker.store.image.brokers) == {ME, 2}
