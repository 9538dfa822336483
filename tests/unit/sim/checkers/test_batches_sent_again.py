"""What a producer may be told behind a batch that was refused and sent again."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.sequences import SequenceCheck
from tidelog.sim.checkers.violation import Violation

BROKER, PROCESS = 1, "a"
UNKNOWN, GAP = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def refused_once() -> SequenceCheck:
    check = SequenceCheck("p")
    check.sent(5, BROKER)
    check.refused(5, UNKNOWN, PROCESS, first=5)
    return check


def test_it_may_be_written_by_then_and_the_batch_after_it_lost() -> None:
    check = refused_once()
    for sequence in (5, 11, 12):
        check.sent(sequence, BROKER)
    check.refused(12, GAP, PROCESS, first=5)


def test_not_if_it_is_refused_again() -> None:
    check = refused_once()
    for sequence in (5, 11, 12):
        check.sent(sequence, BROKER)
    check.refused(5, UNKNOWN, PROCESS, first=5)
    with pytest.raises(Violation, match="sequence 12 is out of order for a broker that has refused 5"):
        check.refused(12, GAP, PROCESS, first=5)


def test_not_if_it_waits_to_be_sent_again() -> None:
    check = refused_once()
    check.sent(11, BROKER)
    with pytest.raises(Violation, match="sequence 11 is out of order for a broker that has refused 5"):
        check.refused(11, GAP, PROCESS, first=5)
