"""The `isr` column of the truth table, each row as a story that is told the same way every time.

``pytest tests/golden --rewrite`` writes the stories anew; read the difference before you commit it.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.errors import ErrorCode
from tidelog.sim.story import Story

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def leader_killed() -> Story:
    story = Story()
    story.write()
    story.kill("A")
    story.until(lambda: story.partition().leader > 0 and story.partition().leader_epoch > 0, "an election")
    assert story.write() is ErrorCode.NONE
    story.start("A")
    story.until(story.all_in_sync, "the return of A")
    story.run(1000)
    story.tell_logs()
    return story


def follower_killed() -> Story:
    story = Story()
    story.kill("B")
    story.until(lambda: len(story.partition().in_sync) == 2, "the departure of B")
    assert story.write() is ErrorCode.NONE
    story.start("B")
    story.until(story.all_in_sync, "the return of B")
    return story


def two_followers_killed_of_five() -> Story:
    story = Story(size=5)
    for letter in "BCDE"[:2]:
        story.kill(letter)
    story.until(lambda: len(story.partition().in_sync) == 3, "the departure of both")
    assert story.write() is ErrorCode.NONE
    return story


def leader_and_follower_killed_of_five() -> Story:
    story = Story(size=5)
    assert story.write() is ErrorCode.NONE
    story.kill("A", "B")
    story.until(lambda: len(story.partition().in_sync) == 3, "an election")
    assert story.write() is ErrorCode.NONE
    story.start("A", "B")
    story.until(story.all_in_sync, "the return of both")
    story.run(1000)
    story.tell_logs()
    return story


def leader_frozen() -> Story:
    story = Story()
    assert story.write() is ErrorCode.NONE
    story.freeze("A")
    story.until(lambda: story.partition().leader_epoch > 0 and story.partition().leader > 0, "an election")
    assert story.write() is ErrorCode.NONE
    story.run(10_000)
    story.thaw("A")
    story.until(story.all_in_sync, "the return of A")
    story.run(1000)
    story.tell_logs()
    return story


def leader_cut_off_with_a_client() -> Story:
    story = Story()
    assert story.write() is ErrorCode.NONE
    story.cut_off("A")
    assert story.write(acks=1, at="A") is ErrorCode.NONE
    assert story.write(at="A", patience_ms=1500) is None
    story.until(lambda: story.partition().leader_epoch > 0 and story.partition().leader > 0, "an election")
    assert story.write() is ErrorCode.NONE
    story.heal()
    story.until(story.all_in_sync, "the return of A")
    story.run(1000)
    story.tell_logs()
    return story


def all_killed() -> Story:
    story = Story()
    assert story.write() is ErrorCode.NONE
    story.kill("A", "B", "C")
    story.run(2000)
    story.start("A", "B", "C")
    story.until(lambda: story.partition().leader_epoch > 0 and story.all_in_sync(), "the return of everybody")
    assert story.write() is ErrorCode.NONE
    story.run(1000)
    story.tell_logs()
    return story


def power_failure_with_synced_writes() -> Story:
    story = Story(flush_messages="1")
    assert story.write() is ErrorCode.NONE
    story.power_off("A", "B", "C")
    story.run(1000)
    story.start("A", "B", "C")
    story.until(lambda: story.partition().leader_epoch > 0 and story.all_in_sync(), "the return of everybody")
    story.run(1000)
    story.tell_logs()
    return story


STORIES: list[Callable[[], Story]] = [
    leader_killed,
    follower_killed,
    two_followers_killed_of_five,
    leader_and_follower_killed_of_five,
    leader_frozen,
    leader_cut_off_with_a_client,
    all_killed,
    power_failure_with_synced_writes,
]


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.__name__)
def test_story(told: Callable[[], Story], request: pytest.FixtureRequest) -> None:
    text = "\n".join(told().lines) + "\n"
    path = HERE / f"isr_{told.__name__}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text(text)
    assert text == path.read_text()
