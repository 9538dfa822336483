"""The uniform assignor: everybody has as many or one more, and little moves."""

from itertools import product
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer.partitions import count
from unit.groups.consumer.assignors.assignments import TOPICS, Targets, counts, owners, run


def moved(before: Targets, after: Targets) -> int:
    """Partitions that had an owner who is still there, and have another."""
    old, new = owners(before), owners(after)
    return sum(1 for slot, owner in old.items() if owner in after and new.get(slot, owner) != owner)


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
