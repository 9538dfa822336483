"""ElectLeaders: one decision for all partitions, an answer for each."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode, TidelogError
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.three_brokers import TOPIC, three_brokers


@pytest.fixture
def broker() -> FakeBroker:
    return three_brokers()


def results(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def elect(broker: FakeBroker, version: int, partitions: Any, kind: int = 0) -> Any:
    return broker.call(
        "elect_leaders", version, topic_partitions=partitions, timeout=1000, election_type=kind
    )


class TestElectLeaders:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_each_partition_has_its_own_answer(self, broker: FakeBroker, version: int) -> None:
        wanted = [{"topic": TOPIC, "partitions": [0, 7]}, {"topic": "x", "partitions": [0]}]
        assert results(elect(broker, version, wanted)) == {
            (TOPIC, 0): ErrorCode.ELECTION_NOT_NEEDED,
            (TOPIC, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    def test_all_partitions_tells_only_what_is_new(self, broker: FakeBroker) -> None:
        assert results(elect(broker, 2, None)) == {}
        assert results(elect(broker, 2, None, kind=1)) == {}

    def test_an_unknown_kind(self, broker: FakeBroker) -> None:
        assert elect(broker, 2, None, kind=9).error_code == ErrorCode.INVALID_REQUEST

    def test_nobody_decides(self, broker: FakeBroker) -> None:
        broker.store.failure = TidelogError("not here", ErrorCode.NOT_CONTROLLER)
        assert elect(broker, 2, None).error_code == ErrorCode.NOT_CONTROLLER
