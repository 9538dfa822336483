"""Assignments to judge."""

from uuid import UUID

from hypothesis import strategies as st

from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.assignors.spec import GroupSpec, MemberSpec
from tidelog.groups.consumer.partitions import Partitions

TOPICS = [UUID(int=number + 1) for number in range(4)]
Targets = dict[str, Partitions]
counts = st.fixed_dictionaries({topic_id: st.integers(1, 9) for topic_id in TOPICS})


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
