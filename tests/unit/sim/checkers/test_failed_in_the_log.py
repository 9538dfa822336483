"""What a producer may be told behind a batch that is in the log, though it was answered with an error."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.sequences import SequenceCheck
from tidelog.sim.checkers.violation import Violation

BROKER, PROCESS = 1, "a"
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def check() -> SequenceCheck:
    """Three batches are sent, and the request with the second one is lost."""
    check = SequenceCheck("p")
    for sequence in (0, 4, 5):
        check.sent(sequence, BROKER)
    return check


def test_the_lost_one_is_missing_behind_it(check: SequenceCheck) -> None:
    check.failed_in_the_log(0, PROCESS)
    check.refused(5, GAP, PROCESS, first=0)


def test_also_if_it_was_refused_before(check: SequenceCheck) -> None:
    check.refused(0, ErrorCode.NOT_ENOUGH_REPLICAS, PROCESS, first=0)
    check.sent(0, BROKER)
    check.failed_in_the_log(0, PROCESS)
    check.sent(5, BROKER)
    check.refused(5, GAP, PROCESS, first=0)


def test_one_that_is_not_in_the_log_is_the_missing_one(check: SequenceCheck) -> None:
    check.refused(0, ErrorCode.KAFKA_STORAGE_ERROR, PROCESS, first=0)
    with pytest.raises(Violation, match="sequence 5 is out of order for a broker that has refused 0"):
        check.refused(5, GAP, PROCESS, first=0)


def test_one_in_the_log_is_not_missing_itself(check: SequenceCheck) -> None:
    check.failed_in_the_log(0, PROCESS)
    with pytest.raises(Violation, match="sequence 0 is out of order, and none is missing"):
        check.refused(0, GAP, PROCESS, first=0)
