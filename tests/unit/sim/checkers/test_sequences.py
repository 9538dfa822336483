"""When an idempotent producer may be told of a gap."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.sim.checkers.sequences import SequenceCheck
from tidelog.sim.checkers.violation import Violation

A, B = 1, 2
NOT_LEADER, GAP = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def check() -> SequenceCheck:
    return SequenceCheck("p")


def send(check: SequenceCheck, *sequences: int, to: int = A) -> None:
    for sequence in sequences:
        check.sent(sequence, to)


def test_a_gap_behind_a_batch_that_the_same_broker_has_refused(check: SequenceCheck) -> None:
    send(check, 0, 5)
    check.refused(0, NOT_LEADER, "a", first=0)
    with pytest.raises(Violation, match="sequence 5 is out of order for a broker that has refused 0"):
        check.refused(5, GAP, "a", first=0)


def test_also_if_an_earlier_request_was_lost(check: SequenceCheck) -> None:
    send(check, 0)
    check.unanswered(0)
    send(check, 0, 5)
    check.refused(0, NOT_LEADER, "a", first=0)
    with pytest.raises(Violation):
        check.refused(5, GAP, "a", first=0)


@pytest.mark.parametrize("known", [False, True], ids=["unanswered yet", "given up"])
def test_the_first_may_be_written_and_the_request_of_another_lost(check: SequenceCheck, known: bool) -> None:
    send(check, 0)
    check.unanswered(0)
    send(check, 5)
    if known:
        check.unanswered(5)
    send(check, 0, 9)
    check.refused(0, NOT_LEADER, "a", first=0)
    check.refused(9, GAP, "a", first=0)


def test_a_lost_request_is_no_excuse_if_the_first_is_not_written(check: SequenceCheck) -> None:
    send(check, 0, 5, 9)
    check.refused(0, NOT_LEADER, "a", first=0)
    check.unanswered(5)
    with pytest.raises(Violation):
        check.refused(9, GAP, "a", first=0)


def test_the_first_batch_is_never_out_of_order(check: SequenceCheck) -> None:
    send(check, 0, 5)
    check.refused(0, NOT_LEADER, "a", first=0)
    check.acknowledged(5, "a")
    send(check, 0)
    with pytest.raises(Violation, match="sequence 0 is out of order, and none is missing"):
        check.refused(0, GAP, "a", first=0)


def test_a_lost_request_may_leave_a_gap(check: SequenceCheck) -> None:
    send(check, 0, 5)
    check.refused(5, GAP, "a", first=0)
    check.unanswered(0)
    send(check, 0)
    check.refused(0, GAP, "a", first=0)


def test_until_its_batch_is_acknowledged(check: SequenceCheck) -> None:
    send(check, 0)
    check.unanswered(0)
    send(check, 0)
    check.acknowledged(0, "a")
    send(check, 5)
    with pytest.raises(Violation):
        check.refused(5, GAP, "a", first=5)


def test_two_connections_have_no_order(check: SequenceCheck) -> None:
    send(check, 0)
    send(check, 5, to=B)
    check.refused(0, NOT_LEADER, "a", first=0)
    check.refused(5, GAP, "b", first=0)
    send(check, 0, to=B)
    check.refused(0, GAP, "b", first=0)


def test_a_restarted_broker_does_not_know_what_it_refused(check: SequenceCheck) -> None:
    send(check, 0, 5)
    check.refused(0, NOT_LEADER, "a", first=0)
    check.refused(5, GAP, "a, restarted", first=0)
    send(check, 0)
    check.refused(0, GAP, "a, restarted", first=0)


def test_lost_records_are_missing(check: SequenceCheck) -> None:
    check.forgive()
    send(check, 0, 5)
    check.refused(0, GAP, "a", first=0)
    check.refused(5, GAP, "a", first=0)


def test_behind_a_lost_request_all_are_out_of_order(check: SequenceCheck) -> None:
    send(check, 0, 5, 7)
    check.refused(5, GAP, "a", first=0)
    check.unanswered(0)
    send(check, 0)
    check.acknowledged(0, "a")
    check.refused(7, GAP, "a", first=5)
