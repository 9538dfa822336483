"""A replica may stop because its leader lacks committed records only where a disk lied about syncs."""

import pytest

from tidelog.errors import ErrorCode, InvariantViolation
from tidelog.replication.replica import CUTS_COMMITTED
from tidelog.sim.faults import is_segment
from tidelog.sim.operator import Operator
from tidelog.sim.stories import deceived_leaders
from tidelog.sim.story import Story
from tidelog.sim.telling import expect

TRUNCATION = InvariantViolation(f"{CUTS_COMMITTED} 2 1 2 1")


@pytest.fixture
def story() -> Story:
    story = Story(flush_messages="1")
    expect(story.write(), ErrorCode.NONE)
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    return story


def lose_power(story: Story, *, lies: bool) -> None:
    """After one more record."""
    if lies:
        story.machine("A").lie(is_segment)
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    story.power_off("A")
    story.until(lambda: story.leader() != "A", "an election")
    story.run(100)


def test_what_a_disk_lied_about_explains_it(story: Story) -> None:
    lose_power(story, lies=True)
    assert story.cluster.checker.lacks_unnoticed(story.driver("C"), TRUNCATION)


def test_a_power_failure_does_not(story: Story) -> None:
    lose_power(story, lies=False)
    assert not story.cluster.checker.lacks_unnoticed(story.driver("C"), TRUNCATION)


def test_nor_any_other_contradiction(story: Story) -> None:
    lose_power(story, lies=True)
    other = InvariantViolation("committed past the end of the log")
    assert not story.cluster.checker.lacks_unnoticed(story.driver("C"), other)


def test_nor_for_one_that_knows_only_of_records_before_it(story: Story) -> None:
    lose_power(story, lies=True)
    driver = story.driver("C")
    driver.replica.watermark.offset = 2
    assert not story.cluster.checker.lacks_unnoticed(driver, TRUNCATION)


def test_nor_for_records_of_a_later_epoch(story: Story) -> None:
    lose_power(story, lies=True)
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    assert not story.cluster.checker.lacks_unnoticed(story.driver("C"), TRUNCATION)


def test_a_defect_ends_the_run(story: Story) -> None:
    machine = story.machine("B")
    with pytest.raises(InvariantViolation):
        machine._contradicted(story.driver("B"), machine.node_id, TRUNCATION)


def test_records_that_are_committed_on_the_word_of_a_disk_that_lied_may_be_lost(story: Story) -> None:
    """Their replica acknowledged them before its power failure, and counts until it is fenced."""
    checker = story.cluster.checker
    (place,) = checker.places()
    story.freeze("C")
    story.machine("B").lie(is_segment)
    story.send(at="A")
    story.run(1000)
    assert checker.replicas.committed_end(place.key) == 2
    story.power_off("B")
    assert checker.losses.real(place.key) == {story.machine("B").node_id: 2}
    assert not checker.given_up
    story.until(lambda: story.driver("A").replica.high_watermark == 3, "the departure of C")
    assert checker.given_up == {("t", 0)}


def test_records_in_the_place_of_lost_ones_restore_nothing_while_a_follower_has_the_lost_ones() -> None:
    story = deceived_leaders._leads_without_the_last_record()
    checker = story.cluster.checker
    (place,) = checker.places()
    story.start("C")
    story.until(lambda: story.in_sync() == "AC", "the return of C")
    story.heal()
    story.run(500)
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    assert checker.losses.real(place.key) == {story.machine("A").node_id: 1}
    Operator(story.cluster).start()
    story.until(story.all_in_sync, "the return of B")
    expect(story.write(), ErrorCode.NONE)
    story.run(100)
    assert checker.losses.real(place.key) == {}
