"""``--apply``: a topic that exists must not keep settings with which it promises less than the plan."""

from tidelog.cli.plan.applying import weakening
from tidelog.planner.promises import Terms

NEVER = str(2**63 - 1)


def test_a_topic_of_voters_that_does_not_flush() -> None:
    """The plan says nothing of flush.messages there: 1 is the default of the mode."""
    assert weakening({"flush.messages": NEVER}, Terms("quorum", 3, synced=True)) == ["flush.messages"]
    assert weakening({"flush.messages": "1"}, Terms("quorum", 3, synced=True)) == []


def test_a_double_write_that_degrades() -> None:
    own = {"replication.degrade.after.ms": "1000", "min.insync.replicas": "2"}
    assert weakening(own, Terms("primary-backup", 2)) == ["replication.degrade.after.ms"]
    assert weakening(own, Terms("primary-backup", 2, degrades=True)) == []


def test_what_the_plan_sets_itself_and_what_is_stronger_stays() -> None:
    assert weakening({"flush.messages": "1000"}, Terms("isr", 3, synced=True)) == []
    assert weakening({"flush.messages": "1"}, Terms("isr", 3)) == []
