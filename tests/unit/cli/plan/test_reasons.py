"""Sentences about two settings beside each other."""

from tidelog.cli.plan.report import differences, equalities
from tidelog.planner.needs import Needs, assess
from tidelog.planner.promises import DLEDGER_OF_FIVE, Terms


def test_the_exercise() -> None:
    quorum, isr = (assess(each, Needs(5).placement(5)) for each in DLEDGER_OF_FIVE)
    assert equalities(quorum, isr) == [
        "An acknowledgement means at least 3 copies.",
        "Any 2 dead: writes go on. One more: writes may be refused.",
        "Any 2 lost disks: no acknowledged record is lost, and the order is kept.",
    ]
    assert len(differences(quorum, isr)) == 3


def test_what_isr_tolerates_less_is_said() -> None:
    """Seven voters survive three failures, five controllers survive two. "Any 3 lost disks" was said, beside
    "2 lost disks tolerated", and nothing about writes.
    """
    where = Needs(7).placement(7)
    quorum, isr = assess(Terms("quorum", 7), where), assess(Terms("isr", 7, min_in_sync=4), where)
    assert equalities(quorum, isr) == [
        "An acknowledgement means at least 4 copies.",
        "Any 2 lost disks: no acknowledged record is lost, and the order is kept.",
    ]
    assert differences(quorum, isr)[0] == "quorum tolerates 3 dead brokers for writes, isr 2."
