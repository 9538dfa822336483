"""InitProducerId: an id for each producer, and none twice."""

from typing import Any

import pytest

from tidelog.controller.producer_ids import BLOCK_SIZE
from tidelog.errors import ErrorCode, StorageError
from unit.broker.fakes import FakeBroker, value_of

VERSIONS = range(7)


def grant(broker: FakeBroker, version: int | None = None, **more: Any) -> Any:
    request = {"transactional_id": None, "transaction_timeout": 60_000, **more}
    return broker.call("init_producer_id", version, **request)


class TestIds:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_every_version(self, broker: FakeBroker, version: int) -> None:
        answer = grant(broker, version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)

    def test_none_is_given_twice(self, broker: FakeBroker) -> None:
        ids = [grant(broker).producer_id for _ in range(BLOCK_SIZE + 10)]
        assert ids == list(range(BLOCK_SIZE + 10))
        assert broker.store.image.next_producer_id == 2 * BLOCK_SIZE

    def test_what_a_stopped_broker_had_left_is_lost(self, broker: FakeBroker) -> None:
        assert grant(broker).producer_id == 0
        following = FakeBroker()
        following.store.submit = broker.store.submit  # type: ignore[method-assign]
        assert grant(following).producer_id == BLOCK_SIZE

    def test_given_only_when_reserved_for_good(self, broker: FakeBroker) -> None:
        broker.store.held = True
        request = {"transactional_id": None, "transaction_timeout": 60_000}
        waiting = [broker.begin("init_producer_id", **request) for _ in range(3)]
        assert not any(future.is_complete for future in waiting)
        broker.services.settle()
        assert not any(future.is_complete for future in waiting)
        broker.store.held = False
        broker.store.commit()
        assert [value_of(future).producer_id for future in waiting] == [0, 1, 2]
        assert broker.store.image.next_producer_id == BLOCK_SIZE

    def test_no_controller_no_id(self, broker: FakeBroker) -> None:
        broker.store.failure = StorageError("the disk is gone")
        answer = grant(broker)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        broker.store.failure = None
        assert grant(broker).producer_id == 0

    def test_who_has_one_gets_a_new_one(self, broker: FakeBroker) -> None:
        first = grant(broker).producer_id
        again = grant(broker, producer_id=first, producer_epoch=3)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first + 1, 0)

    @pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 0}])
    def test_half_an_identity_is_refused(self, broker: FakeBroker, half: dict[str, int]) -> None:
        both = {"producer_id": -1, "producer_epoch": -1, **half}
        assert grant(broker, **both).error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_empty_transactional_id_is_refused(self, broker: FakeBroker, version: int) -> None:
        assert grant(broker, version, transactional_id="").error_code == ErrorCode.INVALID_REQUEST
        assert broker.store.image.next_producer_id == 0
