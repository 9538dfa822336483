"""The course of lags, and what browsers are told of groups."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.page import groups_watch
from tidelog.page.facts import Facts
from tidelog.page.groups_watch import POINTS_MAX, Courses, GroupsWatch
from tidelog.page.views import groups
from tidelog.page.views.groups import GroupSeen, GroupsRefused, Listed, Member
from unit.page.seen import cluster, facts, partition


def test_a_course_is_bounded_and_forgotten_with_its_group() -> None:
    courses = Courses[str]()
    for lag in range(POINTS_MAX + 5):
        courses.add({"billing": lag})
    assert courses.of("billing") == list(range(5, POINTS_MAX + 5))
    courses.add({"other": 1})
    assert (courses.of("billing"), courses.of("other")) == ([], [1])


def test_of_many_the_largest_lags_are_kept() -> None:
    courses = Courses[int](most=2)
    courses.add({number: number for number in range(10)})
    assert [number for number in range(10) if courses.of(number)] == [8, 9]


class Board:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    async def in_thread(self, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return question(*args, **kwargs)


def look(monkeypatch: pytest.MonkeyPatch, of_broker: Callable[..., Any], chosen: str = "") -> dict[str, Any]:
    seen = facts(cluster(partition(1, (1, 2))), frozenset({3}))
    seen.ends = {"orders": {0: 100}}
    monkeypatch.setattr(groups, "of_broker", of_broker)
    monkeypatch.setattr(groups_watch, "FIRST_S", 0.0)

    async def course() -> dict[str, Any]:
        watch = GroupsWatch(Board(seen))
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(0)
        try:
            while not (found := await watch.look(chosen))["at"]:
                await asyncio.sleep(0)
            return found
        finally:
            task.cancel()

    return asyncio.run(course())


def billing(_address: tuple[str, int], broker: int) -> list[GroupSeen]:
    if broker != 1:
        return []
    member = Member("m-1", "app", "/127.0.0.1", "", (("orders", 0),))
    return [GroupSeen(Listed("billing", "classic", "Stable"), 1, (member,), {("orders", 0): 90})]


def test_only_the_chosen_group_comes_with_its_members_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    [row] = look(monkeypatch, billing)["groups"]
    assert (row["members"], row["partitions"], row["lag"], row["history"]) == (1, 1, 10, [10])
    found = look(monkeypatch, billing, "billing")
    [row] = found["groups"]
    assert row["who"][0]["client"] == "app"
    assert row["partitions"][0]["history"] == [10]
    assert found["unheard"] == [3]


def test_a_broker_that_refuses_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_address: tuple[str, int], broker: int) -> list[GroupSeen]:
        raise GroupsRefused("Groups are not told: CLUSTER_AUTHORIZATION_FAILED.")

    found = look(monkeypatch, refuses)
    assert (found["groups"], found["unheard"]) == ([], [3])
    assert found["refused"] == ["Groups are not told: CLUSTER_AUTHORIZATION_FAILED."]


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), UnicodeDecodeError("utf-8", b"", 0, 0, "no text")]
)
def test_one_broker_whose_answer_is_of_no_use_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def half(address: tuple[str, int], broker: int) -> list[GroupSeen]:
        if broker == 2:
            raise error
        return billing(address, broker)

    found = look(monkeypatch, half)
    assert ([row["group"] for row in found["groups"]], found["unheard"]) == (["billing"], [2, 3])
