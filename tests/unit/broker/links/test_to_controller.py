"""Which responses of a former controller are for the next one."""

import pytest

from tidelog.broker.links.to_controller import is_for_next_controller
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields

GONE, FINE, OTHER = ErrorCode.NOT_CONTROLLER, ErrorCode.NONE, ErrorCode.INVALID_CONFIG


def topics(*codes: ErrorCode) -> Fields:
    return {"topics": [{"name": "t", "error_code": code, "configs": []} for code in codes]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"error_code": GONE}, True),
        ({"error_code": FINE}, False),
        ({}, False),
        ({"topics": []}, False),
        (topics(GONE, GONE), True),
        (topics(GONE, FINE), False),
        (topics(GONE, OTHER), False),
        ({"error_code": FINE, "results": [{"parts": [{"error_code": GONE}]}]}, True),
        ({"results": [{"parts": [{"error_code": GONE}]}, {"parts": [{"error_code": FINE}]}]}, False),
        ({"topics": [{"error_code": FINE, "configs": [{"name": "a"}]}]}, False),
    ],
)
def test_only_if_nothing_was_executed(fields: Fields, expected: bool) -> None:
    assert is_for_next_controller(fields) is expected
