"""Both assignors: everything is assigned once, to a member that wants it."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.assignors.spec import GroupSpec, MemberSpec
from unit.groups.consumer.assignors.assignments import TOPICS, Targets, counts, owners, run

subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(7)]),
    st.sets(st.sampled_from(TOPICS)).map(frozenset),
    min_size=1,
)


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


@pytest.mark.parametrize("name", ASSIGNORS)
def test_static_members_stand_in_the_order_of_their_names(name: str) -> None:
    t = TOPICS[0]
    members = {
        "zzz": MemberSpec("a", frozenset({t}), {}), "aaa": MemberSpec("b", frozenset({t}), {}),
        "000": MemberSpec(None, frozenset({t}), {}),
    }  # fmt: skip
    targets = ASSIGNORS[name](GroupSpec(members, {t: 3}))
    assert [min(targets[member_id][t]) for member_id in ("zzz", "aaa", "000")] == [0, 1, 2]
