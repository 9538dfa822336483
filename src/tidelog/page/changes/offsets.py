"""Where a group would be moved to, worked out before it is moved.

A group with members is refused: a member would go on from where it is, and commit over the new offset.
"""

from collections.abc import Mapping

from tidelog.client.apis import Api
from tidelog.client.messages import EARLIEST as EARLIEST_TIME
from tidelog.client.messages import LATEST as LATEST_TIME
from tidelog.client.messages import TopicPartition
from tidelog.page.asking import offsets
from tidelog.page.asking.link import Address, Link, name_of
from tidelog.page.changes.preview import Preview
from tidelog.page.changes.requests import ChangeRefused
from tidelog.page.changes.wishes import EARLIEST, LATEST, ResetOffsets, Unclear
from tidelog.page.facts import Facts
from tidelog.page.views import groups
from tidelog.page.views.groups import GroupSeen, GroupsRefused
from tidelog.page.views.payload import visible

COMMIT_NEWEST = 9  # Later versions have ids of topics.
LINK_TIMEOUT_S = 3.0
PARTITIONS_MAX = 5000
COLUMNS = ("topic", "partition", "committed", "new", "change", "end")


def find(facts: Facts, group: str) -> tuple[Address, GroupSeen]:
    """The group, at the broker that coordinates it."""
    cluster, away = facts.cluster, facts.away()
    for each in cluster.brokers.values() if cluster is not None else ():
        if each.broker in away:
            continue
        try:
            found = groups.of_broker(each.address, each.broker)
        except (OSError, GroupsRefused):
            continue
        for one in found:
            if one.listed.group == group:
                return each.address, one
    raise Unclear("There is no such group, or its coordinator does not answer.")


def plan(facts: Facts, reset: ResetOffsets, group: GroupSeen) -> dict[TopicPartition, tuple[int, int]]:
    """The new offset and the end of each partition."""
    if group.members:
        raise Unclear(f"The group has members ({len(group.members)}); stop them first.")
    places = _places(facts, reset, group)
    begins, ends = (
        _at(facts, dict.fromkeys(places, EARLIEST_TIME)),
        _at(facts, dict.fromkeys(places, LATEST_TIME)),
    )
    if silent := [place for place in places if place not in begins or place not in ends]:
        raise Unclear(f"{silent[0][0]}-{silent[0][1]} has no leader that answers; try again later.")
    if reset.to.startswith("@"):
        found = _at(facts, dict.fromkeys(places, int(reset.to[1:])))
        wanted = {place: found[place] if found.get(place, -1) >= 0 else ends[place] for place in places}
    elif reset.to in (EARLIEST, LATEST):
        wanted = begins if reset.to == EARLIEST else ends
    else:
        wanted = dict.fromkeys(places, int(reset.to))
    return {place: (min(max(wanted[place], begins[place]), ends[place]), ends[place]) for place in places}


def preview(group: GroupSeen, planned: Mapping[TopicPartition, tuple[int, int]]) -> Preview:
    rows = []
    again = skipped = 0
    for (topic, partition), (new, end) in sorted(planned.items()):
        committed = group.committed.get((topic, partition))
        change = None if committed is None else new - committed
        again += max(-(change or 0), 0)
        skipped += max(change or 0, 0)
        rows.append((visible(topic), partition, committed, new, change, end))
    words = f"{again:,} records are read again, {skipped:,} are skipped."
    weaker = (f"{skipped:,} records are never read by this group",) if skipped else ()
    return Preview(words, (), (), weaker, COLUMNS, tuple(rows))


def commit(address: Address, group: str, planned: Mapping[TopicPartition, tuple[int, int]]) -> None:
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, partition), (new, _) in planned.items():
        row: dict[str, object] = {
            "partition_index": partition,
            "committed_offset": new,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }
        topics.setdefault(topic, []).append(row)
    body = {
        "group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
    }  # fmt: skip
    with Link(address, LINK_TIMEOUT_S) as link:
        response = link.ask(Api.OFFSET_COMMIT, body, newest=COMMIT_NEWEST)
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code:
                raise ChangeRefused(
                    f"{topic.name}-{each.partition_index} was refused: {name_of(each.error_code)}."
                )


def _places(facts: Facts, reset: ResetOffsets, group: GroupSeen) -> list[TopicPartition]:
    cluster = facts.cluster
    if not reset.topic:
        places = sorted(group.committed)
    elif cluster is None or reset.topic not in cluster.topics:
        raise Unclear("There is no such topic.")
    else:
        places = [(reset.topic, index) for index in range(len(cluster.topics[reset.topic].partitions))]
    if not places:
        raise Unclear("The group has no committed offsets; choose a topic.")
    if len(places) > PARTITIONS_MAX:
        raise Unclear(f"That are more than {PARTITIONS_MAX} partitions; use `tidelog group reset-offsets`.")
    return places


def _at(facts: Facts, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Asked of the leaders; a partition whose leader does not answer is left out."""
    cluster, away = facts.cluster, facts.away()
    found: dict[TopicPartition, int] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for (topic, partition), time in wanted.items():
        seen = cluster.topics.get(topic) if cluster is not None else None
        if seen is not None and partition < len(seen.partitions):
            by_leader.setdefault(seen.partitions[partition].leader, {})[topic, partition] = time
    for leader, part in by_leader.items():
        if cluster is None or leader in away or leader not in cluster.brokers:
            continue
        try:
            with Link(cluster.brokers[leader].address, LINK_TIMEOUT_S) as link:
                found |= offsets.at(link, part)
        except OSError:
            continue
    return found
