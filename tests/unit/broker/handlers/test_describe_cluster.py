"""DescribeCluster: who is there."""

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker


class TestCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_who_is_there(self, broker: FakeBroker, version: int) -> None:
        answer = broker.call("describe_cluster", version, endpoint_type=1)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster", 1)
        assert [(node.broker_id, node.host, node.port) for node in answer.brokers] == [(1, "localhost", 9092)]

    @pytest.mark.parametrize(
        ("kind", "code"),
        [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_other_endpoints(self, broker: FakeBroker, kind: int, code: ErrorCode) -> None:
        answer = broker.call("describe_cluster", 2, endpoint_type=kind)
        assert (answer.error_code, answer.brokers) == (code, ())
        assert answer.error_message
