"""Everything is assigned once, to somebody who wants it; evenly; and little moves."""

from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.assignors.spec import GroupSpec, MemberSpec
from tidelog.groups.consumer.partitions import Partitions, count

TOPICS = [UUID(int=number + 1) for number in range(4)]
Targets = dict[str, Partitions]

counts = st.fixed_dictionaries({topic_id: st.integers(1, 9) for topic_id in TOPICS})
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(7)]),
    st.sets(st.sampled_from(TOPICS)).map(frozenset),
    min_size=1,
)


def run(name: str, wanted: dict[str, frozenset[UUID]], sizes: dict[UUID, int], had: Targets) -> Targets:
    members = {
        member_id: MemberSpec(None, topics, had.get(member_id, {})) for member_id, topics in wanted.items()
    }
    used = frozenset().union(*wanted.values())
    return ASSIGNORS[name](GroupSpec(members, {topic_id: sizes[topic_id] for topic_id in used}))


def owners(targets: Targets) -> dict[tuple[UUID, int], str]:
    found: dict[tuple[UUID, int], str] = {}
    for member_id, partitions in targets.items():
        for topic_id, indexes in partitions.items():
            assert indexes, "no empty sets"
            for index in indexes:
                assert found.setdefault((topic_id, index), member_id) == member_id
    return found


def moved(before: Targets, after: Targets) -> int:
    """Partitions that had an owner who is still there, and have another."""
    old, new = owners(before), owners(after)
    return sum(1 for slot, owner in old.items() if owner in after and new.get(slot, owner) != owner)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wanted=subscriptions, later=subscriptions, sizes=counts, sizes_later=counts)
def test_every_partition_has_one_owner_who_wants_it(
    name: str,
    wanted: dict[str, frozenset[UUID]],
    later: dict[str, frozenset[UUID]],
    sizes: dict[UUID, int],
    sizes_later: dict[UUID, int],
) -> None:
    had: Targets = {}
    # The second time members, subscriptions and topics have changed, and what they had may be nonsense.
    for members, partitions in ((wanted, sizes), (later, sizes_later)):
        had = run(name, members, partitions, had)
        assert had.keys() == members.keys()
        expected = {
            (topic_id, index) for topics in members.values() for topic_id in topics
            for index in range(partitions[topic_id])
        }  # fmt: skip
        found = owners(had)
        assert found.keys() == expected
        assert all(topic_id in members[owner] for (topic_id, _), owner in found.items())
        assert run(name, members, partitions, had) == had, "the same again when nothing has changed"


@given(members=st.integers(1, 12), sizes=counts, topics=st.sets(st.sampled_from(TOPICS), min_size=1))
def test_uniform_gives_everybody_as_many_or_one_more(
    members: int, sizes: dict[UUID, int], topics: set[UUID]
) -> None:
    wanted = {f"m{number}": frozenset(topics) for number in range(members)}
    loads = [count(part) for part in run("uniform", wanted, sizes, {}).values()]
    assert max(loads) - min(loads) <= 1


@given(members=st.integers(2, 12), sizes=counts)
def test_uniform_moves_no_more_than_it_must_when_one_joins_or_leaves(
    members: int, sizes: dict[UUID, int]
) -> None:
    everyone = {f"m{number}": frozenset(TOPICS) for number in range(members)}
    fewer = {member_id: topics for member_id, topics in everyone.items() if member_id != "m0"}
    total = sum(sizes.values())
    without = run("uniform", fewer, sizes, {})
    joined = run("uniform", everyone, sizes, without)
    assert moved(without, joined) == count(joined["m0"]), "only what the new member gets"
    left = run("uniform", fewer, sizes, joined)
    assert moved(joined, left) == 0, "only what the old member had"
    assert count(joined["m0"]) in (total // members, total // members + 1)


@given(
    wanted=st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.sets(st.sampled_from(TOPICS[:3])).map(frozenset), min_size=2
    ),
    sizes=st.fixed_dictionaries({topic_id: st.integers(1, 2) for topic_id in TOPICS[:3]}),
    later=st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.sets(st.sampled_from(TOPICS[:3])).map(frozenset), min_size=2
    ),
)
def test_uniform_is_as_even_as_any_assignment(
    wanted: dict[str, frozenset[UUID]], sizes: dict[UUID, int], later: dict[str, frozenset[UUID]]
) -> None:
    had = run("uniform", wanted, sizes, {})
    for members in (wanted, later):
        had = run("uniform", members, sizes, had)
        loads = sorted(count(part) for part in had.values())
        assert sum(load * load for load in loads) == _best(members, sizes)


def _best(wanted: dict[str, frozenset[UUID]], sizes: dict[UUID, int]) -> int:
    """The least sum of squares, by trying every assignment."""
    choices = [
        [member_id for member_id, topics in wanted.items() if topic_id in topics]
        for topic_id, size in sizes.items()
        for _ in range(size)
        if any(topic_id in topics for topics in wanted.values())
    ]
    sums = []
    for chosen in product(*choices):
        sums.append(sum(chosen.count(member_id) ** 2 for member_id in wanted))
    return min(sums)


def test_uniform_passes_on_through_others() -> None:
    """a can only give to b, b only to c: evening out takes both steps."""
    t, u, v = TOPICS[:3]
    wanted = {"a": frozenset({t}), "b": frozenset({t, u}), "c": frozenset({u, v})}
    had: Targets = {"a": {t: frozenset({0, 1, 2})}, "b": {u: frozenset({0, 1})}, "c": {v: frozenset({0})}}
    targets = run("uniform", wanted, {t: 3, u: 2, v: 1}, had)
    assert [count(targets[member_id]) for member_id in "abc"] == [2, 2, 2]
    assert moved(had, targets) == 2


def test_uniform_spreads_a_topic() -> None:
    t, u = TOPICS[:2]
    wanted = {"a": frozenset({t, u}), "b": frozenset({t, u})}
    targets = run("uniform", wanted, {t: 2, u: 2}, {})
    assert all(len(indexes) == 1 for part in targets.values() for indexes in part.values())


@given(members=st.integers(1, 9), size=st.integers(1, 12))
def test_range_gives_runs_and_the_same_number_of_each_topic(members: int, size: int) -> None:
    t, u = TOPICS[:2]
    wanted = {f"m{number}": frozenset({t, u}) for number in range(members)}
    for part in run("range", wanted, {t: size, u: size}, {}).values():
        assert part.get(t) == part.get(u)
        indexes = sorted(part.get(t, ()))
        assert indexes == list(range(indexes[0], indexes[0] + len(indexes))) if indexes else True


def test_range_gives_the_first_ones_more() -> None:
    t = TOPICS[0]
    targets = run("range", {"a": frozenset({t}), "b": frozenset({t}), "c": frozenset({t})}, {t: 7}, {})
    assert [sorted(targets[name][t]) for name in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]


def test_range_puts_who_is_new_last() -> None:
    t = TOPICS[0]
    had = run("range", {"x": frozenset({t}), "y": frozenset({t})}, {t: 6}, {})
    targets = run("range", {"a": frozenset({t}), "x": frozenset({t}), "y": frozenset({t})}, {t: 6}, had)
    assert [sorted(targets[name][t]) for name in "xya"] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_static_members_stand_in_the_order_of_their_names(name: str) -> None:
    t = TOPICS[0]
    members = {
        "zzz": MemberSpec("a", frozenset({t}), {}), "aaa": MemberSpec("b", frozenset({t}), {}),
        "000": MemberSpec(None, frozenset({t}), {}),
    }  # fmt: skip
    targets = ASSIGNORS[name](GroupSpec(members, {t: 3}))
    assert [min(targets[member_id][t]) for member_id in ("zzz", "aaa", "000")] == [0, 1, 2]
