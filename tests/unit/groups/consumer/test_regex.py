"""Subscriptions by regular expression: what is matched, when it is looked at again, what is refused."""

from collections.abc import Iterable

import pytest

from tidelog import regex
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer.heartbeats import LEAVE
from unit.groups.consumer.consumer_world import Client, World, settle


def topics_read(world: World) -> set[str]:
    return {topic for topic, _ in world.owners()}


def test_names_match_as_a_whole() -> None:
    assert regex.matching("ba.", ["bar", "baz", "bark", "abar"]) == ["bar", "baz"]
    assert regex.matching("^a|b$", ["a", "b", "ab"]) == ["a", "b"]


@pytest.mark.parametrize("pattern", ["(", "[z-a]", r"a\1", "(?=a)", "a{1001}", "a" * 4097])
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    world = World()
    with pytest.raises(TidelogError) as refusal:
        world.join("a", regex=pattern)
    assert refusal.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_that_would_keep_others_busy_for_ever() -> None:
    regex.check("(a*)*(a*)*b")
    assert regex.matching("(a*)*(a*)*b", ["a" * 249]) == []


def test_a_member_reads_what_matches() -> None:
    world = World({"orders-eu": 1, "orders-us": 2, "other": 1})
    answer = world.join("a", regex="orders-.*")
    assert sum(map(len, (answer.assignment or {}).values())) == 3
    assert world.group.regexes["orders-.*"].topics == ("orders-eu", "orders-us")


def test_names_and_expression_together() -> None:
    world = World({"t": 1, "u": 1, "v": 1})
    world.join("a", "t", regex="u|t")
    assert topics_read(world) == {"t", "u"}


def test_new_topics_are_found_and_old_ones_forgotten() -> None:
    world = World({"orders-eu": 1})
    client = Client(world, "a", regex="orders-.*")
    settle([client])
    world.set_topics(**{"orders-us": 1, "other": 1})
    settle([client])
    assert topics_read(world) == {"orders-eu", "orders-us"}
    world.topics = type(world.topics)({"orders-us": 1})
    settle([client])
    assert topics_read(world) == {"orders-us"}


def test_internal_topics_do_not_match() -> None:
    world = World({"__consumer_offsets": 5, "t": 1})
    world.join("a", regex=".*")
    assert topics_read(world) == {"t"}
    world.set_topics(__transaction_state=5)
    world.beat("a", 1)
    assert topics_read(world) == {"t"}


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    world = World({"t": 1})
    world.join("a", regex="t.*")
    world.join("b", regex="t.*")
    world.beat("a", LEAVE)
    assert set(world.group.regexes) == {"t.*"}
    world.beat("b", 2, regex="", topics=("t",))
    assert world.group.regexes == {}
    assert world.group.members["b"].regex is None


def test_only_new_topics_are_matched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({f"t{number}": 1 for number in range(5)})
    world.join("a", regex="t.*")
    looked_at: list[str] = []
    matching = regex.matching

    def watched(pattern: str, names: Iterable[str]) -> list[str]:
        looked_at.extend(names)
        return matching(pattern, names)

    monkeypatch.setattr(regex, "matching", watched)
    world.set_topics(t9=1)
    world.beat("a", 1)
    assert looked_at == ["t9"]
