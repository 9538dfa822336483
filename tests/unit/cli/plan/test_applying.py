"""``--apply``: a topic that exists must not keep settings with which it promises less than the plan."""

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan.applying import check_shape, weakening
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


@pytest.mark.parametrize(
    ("replicas", "partitions", "expected"),
    [
        (2, 0, "Topic t has 3 replicas, and the plan has 2; `tidelog topic reassign` adds or removes"),
        (3, 6, "Topic t has 4 partitions, and --queues asks for 6; `tidelog topic alter t --partitions 6`"),
        (3, 2, "Topic t has 4 partitions, and --queues asks for 2, and partitions cannot be removed."),
    ],
)
def test_what_settings_do_not_change_is_refused(replicas: int, partitions: int, expected: str) -> None:
    """Other partitions were left out in silence."""
    row = {"name": "t", "replicas": 3, "partitions": 4}
    with pytest.raises(CommandFailed) as refused:
        check_shape(row, Terms("isr", replicas), partitions)
    assert str(refused.value).startswith(expected)


@pytest.mark.parametrize("partitions", [0, 4])
def test_a_topic_of_the_same_shape_is_changed(partitions: int) -> None:
    check_shape({"name": "t", "replicas": 3, "partitions": 4}, Terms("isr", 3), partitions)
